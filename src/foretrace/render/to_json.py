"""A record as JSON: integers stay integers, unknown is ``null``, keys keep the order of the record."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from foretrace.render.safe import visible


def to_json(record: object) -> str:
    """``record`` (dataclasses, mappings, sequences, NumPy scalars) as indented JSON with a final newline."""
    try:
        encoded = msgspec.json.encode(record, enc_hook=_plain)
    except UnicodeEncodeError:  # a file name whose bytes are no text
        encoded = msgspec.json.encode(_as_text(msgspec.to_builtins(record, enc_hook=_plain)))
    # the encoder escapes C0 controls and writes no line breaks; `visible` writes the rest as JSON's own \uXXXX
    return msgspec.json.format(visible(encoded.decode()), indent=2) + "\n"


def _as_text(value: object) -> object:
    """``value`` with lone surrogates, which JSON cannot hold, spelled out in every string."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_as_text(key): _as_text(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_as_text(inner) for inner in value]
    return value


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    for method in ("item", "tolist"):  # NumPy scalars, then arrays
        try:
            return getattr(value, method)()
        except (AttributeError, ValueError):
            continue
    raise TypeError(f"{type(value).__name__} is no JSON value")
