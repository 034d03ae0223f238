"""The strict fast path: JSON text to columns, a few megabytes at a time.

The array of events is cut between events (at ``},{``) and each piece is decoded on its own, so that the objects of one
piece are freed before the next. A cut inside a string or a nested array would leave a piece unbalanced, and its decode
fails; so if every piece decodes, every cut was right. Whatever fails is left to `repair`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from foretrace.trace.schema import Event

if TYPE_CHECKING:
    from collections.abc import Callable

    from foretrace.trace.builder import ColumnsBuilder

Progress = "Callable[[int, int], None]"
"""Called with (bytes done, bytes in all) while a file is decoded."""

CHUNK_BYTES = 4 << 20
_WINDOW_BYTES = 1 << 16
_EVENTS_KEY = re.compile(rb'"traceEvents"\s*:\s*\[')
_BETWEEN_EVENTS = re.compile(rb"\}\s*(,)\s*\{")
_WHITESPACE = b" \t\r\n"

_decode_events = msgspec.json.Decoder(list[Event]).decode
_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


@dataclass(frozen=True, slots=True)
class Decoded:
    """How far the strict path came.

    Attributes:
        metadata: Top-level keys read so far.
        stopped_at: Byte of the first event that was not decoded, or ``None`` when the whole file was.
        has_events: Whether the text has an array of events at all.
    """

    metadata: dict[str, Any]
    stopped_at: int | None
    has_events: bool


def decode(data: bytes, builder: ColumnsBuilder, progress: Callable[[int, int], None] | None = None) -> Decoded:
    """Decode ``data`` (UTF-8 JSON: a list of events, or an object with ``traceEvents``) into ``builder``.

    Never raises for malformed text: `Decoded.stopped_at` says where it gave up.
    """
    metadata, start, root_is_list = _head(data)
    if start is None:
        return Decoded(metadata, None, has_events=False)
    while len(data) - start > 2 * CHUNK_BYTES:
        cut = _cut_before(data, start + CHUNK_BYTES, start)
        if cut is None:
            break
        try:
            builder.add(_decode_events(b"[" + data[start:cut] + b"]"))
        except (msgspec.DecodeError, UnicodeDecodeError):
            break
        start = cut + 1
        if progress is not None:
            progress(start, len(data))
    tail = _tail(data, start, builder, root_is_list=root_is_list)
    if progress is not None and tail is not None:
        progress(len(data), len(data))
    return Decoded(metadata | (tail or {}), start if tail is None else None, has_events=True)


def _head(data: bytes) -> tuple[dict[str, Any], int | None, bool]:
    """Metadata before the events, the byte at which the first event may start, and whether the root is a list."""
    first = re.search(rb"\S", data)
    if first is None:
        return {}, None, False
    if first.group() == b"[":
        return {}, first.end(), True
    found = _EVENTS_KEY.search(data)
    if first.group() != b"{" or found is None:
        return {}, None, False
    try:
        return (
            _plain(_decode_object(data[: found.start()].rstrip(_WHITESPACE).removesuffix(b",") + b"}")),
            found.end(),
            False,
        )
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}, found.end(), False


def _cut_before(data: bytes, limit: int, start: int) -> int | None:
    """The last comma between two events in the window that ends at ``limit``."""
    window = max(start, limit - _WINDOW_BYTES)
    cut = None
    for match in _BETWEEN_EVENTS.finditer(data, window, limit):
        cut = match.start(1)
    return cut


def _tail(data: bytes, start: int, builder: ColumnsBuilder, *, root_is_list: bool) -> dict[str, Any] | None:
    """Decode from ``start`` to the end of the file, with what follows the events; ``None`` when it does not parse."""
    if len(data) - start > 4 * CHUNK_BYTES:
        return None  # a piece failed far from the end: nothing to gain from parsing the rest in one go
    try:
        if root_is_list:
            builder.add(_decode_events(b"[" + data[start:]))
            return {}
        rest = _decode_object(b'{"traceEvents":[' + data[start:])
        builder.add(_decode_events(rest.pop("traceEvents")))
        return _plain(rest)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _plain(raws: dict[str, msgspec.Raw]) -> dict[str, Any]:
    return {key: msgspec.json.decode(raw) for key, raw in raws.items()}
