"""The strict fast path: JSON text to columns, a few megabytes at a time.

The array of events is cut between events (at ``},{``) and each piece is decoded on its own, so that the objects of one
piece are freed before the next. A cut inside a string or a nested array would leave a piece unbalanced, and its decode
fails; so if every piece decodes, every cut was right. Whatever fails is left to `repair`. Several processes can
decode the pieces of a large file.
"""

from __future__ import annotations

import re
from collections import deque
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from foretrace.trace.piece import Codes, piece_of
from foretrace.trace.schema import MALFORMED, Event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Executor, Future

    from foretrace.trace.builder import ColumnsBuilder
    from foretrace.trace.piece import Piece

_LEAST_PIECE, _MOST_PIECE, _PIECES = 1 << 17, 1 << 20, 64
"""Large files in large pieces. A 1.2 MB file peaks at 2.7 times its bytes in pieces of 128 kB, at 8.6 in pieces of
4 MB; 200 MB take 2.5 s in pieces of 1 MB, and 2.9 s in pieces of 128 kB or 4 MB."""
_LARGE = 64 << 20
"""Bytes from which on it pays to start processes: each takes 0.3 s to start, and 64 MB take 0.7 s."""
_AHEAD = 32
"""Pieces on their way at once: four for each of eight processes."""

_T = TypeVar("_T")

_WINDOW_BYTES = 1 << 14
_EVENTS_KEY = re.compile(rb'"traceEvents"\s*:\s*\[')
_BETWEEN_EVENTS = re.compile(rb"\}\s*(,)\s*\{")
_WHITESPACE = b" \t\r\n"

decode_event = msgspec.json.Decoder(Event).decode
decode_events = msgspec.json.Decoder(list[Event]).decode
_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


@dataclass(frozen=True, slots=True)
class Decoded:
    """How far the strict path came.

    Attributes:
        metadata: Top-level keys read so far.
        stopped_at: Byte of the first event that was not decoded, or ``None`` when the whole file was.
        broken_head: Where the metadata before the events ends, when it does not parse; else ``None``.
        has_events: Whether the text has an array of events at all.
    """

    metadata: dict[str, Any]
    stopped_at: int | None
    broken_head: int | None
    has_events: bool


def decode(
    data: bytes,
    builder: ColumnsBuilder,
    progress: Callable[[int, int], None] | None = None,
    executor: Executor | None = None,
) -> Decoded:
    """Decode ``data`` (UTF-8 JSON: a list of events, or an object with ``traceEvents``) into ``builder``.

    ``progress`` is called with (bytes done, bytes in all); ``executor`` decodes the pieces of a large file. Malformed
    text raises nothing: `Decoded` says where it is.
    """
    found = _find_events(data)
    if found is None:
        return Decoded({}, None, None, has_events=False)
    head_end, start = found
    head = _head(data[:head_end]) if head_end else {}
    broken_head = head_end if head is None else None
    piece = min(max(len(data) // _PIECES, _LEAST_PIECE), _MOST_PIECE)
    if executor is not None and len(data) >= _LARGE:
        start = _take(_side_by_side(data, start, piece, executor), builder.take, start, len(data), progress)
    start = _take(_one_by_one(data, start, piece), builder.add, start, len(data), progress)
    tail = _tail(data, start, builder, root_is_list=not head_end) if len(data) - start <= 4 * piece else None
    if progress is not None and tail is not None:
        progress(len(data), len(data))
    return Decoded((head or {}) | (tail or {}), start if tail is None else None, broken_head, has_events=True)


def _take(
    pieces: Iterator[tuple[int, _T]],
    take: Callable[[_T], None],
    start: int,
    size: int,
    progress: Callable[[int, int], None] | None,
) -> int:
    """Hand on ``pieces``, each with where it ends; where the first begins that did not come."""
    for end, piece in pieces:
        take(piece)
        start = end + 1
        if progress is not None:
            progress(start, size)
    return start


def _one_by_one(data: bytes, start: int, piece: int) -> Iterator[tuple[int, list[Event]]]:
    """The events of each piece of about ``piece`` bytes, up to the first that does not decode."""
    for begin, end in _cuts(data, start, piece):
        try:
            events = decode_events(_as_list(data, begin, end))
        except MALFORMED:
            return
        yield end, events


def _side_by_side(data: bytes, start: int, piece: int, executor: Executor) -> Iterator[tuple[int, Piece]]:
    """The columns of each piece, up to the first that does not decode, or for which there are no workers any more."""
    waiting: deque[tuple[int, Future[Piece | None]]] = deque()
    cuts = _cuts(data, start, piece)
    try:
        while True:
            for begin, end in islice(cuts, _AHEAD - len(waiting)):
                waiting.append((end, executor.submit(_columns, _as_list(data, begin, end))))
            if not waiting:
                return
            end, future = waiting.popleft()
            columns = future.result()
            if columns is None:
                return
            yield end, columns
    except BrokenExecutor:  # its processes could not start, or were killed
        return


def _columns(text: bytes) -> Piece | None:
    """The columns of a list of events; ``None`` when it does not decode."""
    try:
        return piece_of(decode_events(text), Codes())
    except MALFORMED:
        return None


def _cuts(data: bytes, start: int, piece: int) -> Iterator[tuple[int, int]]:
    """Where pieces of about ``piece`` bytes begin and end, up to the last two."""
    while len(data) - start > 2 * piece:
        cut = between_events(data, start, start + piece)
        if cut is None:  # one event larger than the window
            after = _BETWEEN_EVENTS.search(data, start + piece)
            if after is None:
                return
            cut = after.start(1)
        yield start, cut
        start = cut + 1


def _as_list(data: bytes, begin: int, end: int) -> bytes:
    return b"".join((b"[", memoryview(data)[begin:end], b"]"))


def between_events(data: bytes, start: int, limit: int) -> int | None:
    """The last comma between two events in the window that ends at ``limit`` and begins at ``start`` or later."""
    cut = None
    for match in _BETWEEN_EVENTS.finditer(data, max(start, limit - _WINDOW_BYTES), limit):
        cut = match.start(1)
    return cut


def _find_events(data: bytes) -> tuple[int, int] | None:
    """Where the metadata before the events ends (0 where the root is a list), and where the first event may begin."""
    first = re.search(rb"\S", data)
    if first is None or first.group() not in (b"[", b"{"):
        return None
    if first.group() == b"[":
        return 0, first.end()
    found = _EVENTS_KEY.search(data)
    return (found.start(), found.end()) if found else None


def _head(text: bytes) -> dict[str, Any] | None:
    """The metadata in ``text``, which ends before the key ``traceEvents``; ``None`` when it does not parse."""
    try:
        return _plain(_decode_object(text.rstrip(_WHITESPACE).removesuffix(b",") + b"}"))
    except MALFORMED:
        return None


def _tail(data: bytes, start: int, builder: ColumnsBuilder, *, root_is_list: bool) -> dict[str, Any] | None:
    """Decode from ``start`` to the end of the file, with what follows the events; ``None`` when it does not parse."""
    try:
        if root_is_list:
            builder.add(decode_events(b"[" + data[start:]))
            return {}
        rest = _decode_object(b'{"traceEvents":[' + data[start:])
        builder.add(decode_events(rest.pop("traceEvents")))
        return _plain(rest)
    except MALFORMED:
        return None


def _plain(raws: dict[str, msgspec.Raw]) -> dict[str, Any]:
    return {key: msgspec.json.decode(raw) for key, raw in raws.items()}
