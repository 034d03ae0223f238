"""A record as JSON: integers stay integers, unknown is ``null``, keys keep the order of the record."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from foretrace.render.safe import visible


def to_json(record: object) -> str:
    """``record`` (dataclasses, mappings, sequences, NumPy scalars) as indented JSON with a final newline."""
    text = msgspec.json.format(msgspec.json.encode(record, enc_hook=_plain), indent=2).decode()
    # JSON already escapes C0 controls; `visible` writes the others as JSON's own \uXXXX
    return "\n".join(visible(line) for line in text.split("\n")) + "\n"


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    for method in ("item", "tolist"):  # NumPy scalars, then arrays
        try:
            return getattr(value, method)()
        except (AttributeError, ValueError):
            continue
    raise TypeError(f"{type(value).__name__} is no JSON value")
