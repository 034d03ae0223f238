"""A record as JSON: integers stay integers, unknown is ``null``, keys keep the order of the record."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from foretrace.render.safe import visible


def to_json(record: object) -> str:
    """``record`` (dataclasses, mappings, sequences, NumPy scalars) as indented JSON with a final newline."""
    # the encoder escapes C0 controls and writes no line breaks; `visible` writes the rest as JSON's own \uXXXX
    text = visible(msgspec.json.encode(record, enc_hook=_plain).decode())
    return msgspec.json.format(text, indent=2) + "\n"


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    for method in ("item", "tolist"):  # NumPy scalars, then arrays
        try:
            return getattr(value, method)()
        except (AttributeError, ValueError):
            continue
    raise TypeError(f"{type(value).__name__} is no JSON value")
