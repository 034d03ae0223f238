"""Records as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from foretrace.render.to_json import to_json


@dataclass(frozen=True, slots=True)
class _Record:
    name: str
    dur_ns: int
    bound: str | None
    rows: tuple[object, ...]


def test_keys_keep_their_order_and_unknown_is_null() -> None:
    """A record becomes an object in the order of its fields; integers beyond a double's reach stay exact."""
    text = to_json(_Record("k", 1_795_967_402_737_398_201, None, ()))
    assert list(json.loads(text)) == ["name", "dur_ns", "bound", "rows"]
    assert json.loads(text) == {"name": "k", "dur_ns": 1_795_967_402_737_398_201, "bound": None, "rows": []}
    assert text.endswith("}\n")


def test_arrays_scalars_and_read_only_mappings_are_plain_values() -> None:
    """NumPy values and mapping proxies, as evidence holds them, come out as JSON values; NaN is null."""
    rows = (MappingProxyType({"a": np.int64(3)}), np.array([1, 2]), np.float64("nan"), np.bool_(1))
    assert json.loads(to_json(_Record("k", 0, None, rows)))["rows"] == [{"a": 3}, [1, 2], None, True]


def test_names_come_back_as_they_were_and_print_without_acting() -> None:
    """Every escape is JSON's own: the text holds no acting character, and decoding gives the name back."""
    name = "a\x1b[31m\x9b2J\u202e\n"
    text = to_json(_Record(name, 0, None, ()))
    assert not {"\x1b", "\x9b", "\u202e"} & set(text)
    assert json.loads(text)["name"] == name


def test_a_file_name_that_is_no_text_is_spelled_out() -> None:
    """Bytes that no encoding knows reach Python as lone surrogates, which JSON cannot hold."""
    text = to_json(_Record("bad\udcff.json", 3, None, ({"path": "bad\udcff.json", "n": np.int64(4)}, ("a\udcfe",))))
    found = json.loads(text)
    assert found["name"] == "bad\\udcff.json"
    assert found["rows"] == [{"path": "bad\\udcff.json", "n": 4}, ["a\\udcfe"]]
