"""A trace file written anew, piece by piece: sound JSON with every event, and each piece passed through a function.

A sound file is copied byte for byte. A malformed one comes out as foretrace reads it: texts are mended where they
stand; from the first event on that cannot be mended so, events keep the arguments that foretrace knows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from foretrace.trace.builder import ColumnsBuilder
from foretrace.trace.decode import between_events, decode
from foretrace.trace.identify import no_events, refuse_known_formats
from foretrace.trace.mend import mend_texts
from foretrace.trace.repair import salvage, salvage_head
from foretrace.trace.schema import MALFORMED, Args, Event

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from foretrace.trace.columns import Note
    from foretrace.trace.source import Source

    Piece = Callable[[bytes], bytes]

_PIECE_BYTES = 1 << 17
_FIRST_EVENT = re.compile(rb'"traceEvents"\s*:\s*\[')
_EVENT = [(field.name, field.encode_name) for field in msgspec.structs.fields(Event)]
_ARGS = [(field.name, field.encode_name) for field in msgspec.structs.fields(Args)]

_decode_events = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


@dataclass(frozen=True, slots=True)
class Survey:
    """A file, looked through once.

    Attributes:
        source: The file.
        metadata: Its top-level keys besides ``traceEvents``, before and after the events.
        sound_until: Byte at which the first event begins that does not parse; ``None`` where all of them do.
        notes: What was repaired, missing or cut.
    """

    source: Source
    metadata: dict[str, Any]
    sound_until: int | None
    notes: tuple[Note, ...]


class _Events(ColumnsBuilder):
    """Hands each batch of events on instead of keeping columns."""

    def __init__(self, take: Callable[[Sequence[Event]], None] | None = None) -> None:
        super().__init__()
        self._take = take

    def add(self, events: Sequence[Event]) -> None:
        self.events += len(events)
        if self._take is not None and events:
            self._take(events)


def survey(source: Source) -> Survey:
    """Read the metadata of ``source`` and find out whether it is malformed.

    Raises:
        TraceError: It is no trace; the message says what it is.
    """
    refuse_known_formats(source)
    counter = _Events()
    decoded = decode(source.data, counter)
    if not decoded.has_events:
        raise no_events(source)
    metadata, notes = decoded.metadata, list(source.notes)
    if decoded.broken_head is not None:
        head, repairs = salvage_head(source.data[: decoded.broken_head])
        metadata = head | metadata
        notes += repairs
    if decoded.stopped_at is not None:
        rest, repairs = salvage(source.data, decoded.stopped_at, counter, path=source.path)
        metadata |= rest
        notes += repairs
    if not counter.events and decoded.stopped_at is not None and _is_list(source.data):
        raise no_events(source)
    return Survey(source, metadata, decoded.stopped_at, tuple(notes))


def rewrite(
    surveyed: Survey,
    write: Callable[[bytes], object],
    *,
    metadata: dict[str, Any] | None = None,
    change: Piece = lambda piece: piece,
) -> None:
    """Write the file anew.

    Args:
        surveyed: What `survey` found.
        write: Takes the text, a few hundred kilobytes at a time.
        metadata: Written in place of the file's own.
        change: From some events, ``{…},{…}`` in sound JSON, to what is written for them.
    """
    data = surveyed.source.data
    head = surveyed.metadata if metadata is None else metadata
    is_list = _is_list(data) and not head
    write(b"[\n" if is_list else msgspec.json.encode(head)[:-1] + (b"," if head else b"") + b'"traceEvents":[\n')
    _Rewriter(data, write, change).run(surveyed.sound_until)
    write(b"\n]\n" if is_list else b"\n]}\n")


def _is_list(data: bytes) -> bool:
    return data.lstrip()[:1] == b"["


class _Rewriter:
    """One pass over the events."""

    def __init__(self, data: bytes, write: Callable[[bytes], object], change: Piece) -> None:
        self._data, self._write, self._change = data, write, change
        self._any = False

    def run(self, sound_until: int | None) -> None:
        data = self._data
        first = None if _is_list(data) else _FIRST_EVENT.search(data)
        at = first.end() if first else data.index(b"[") + 1
        end = len(data) if sound_until is None else sound_until
        while end - at > 2 * _PIECE_BYTES:
            cut = self._cut(at)
            if cut is None or cut >= end:
                break
            self._emit(data[at:cut])
            at = cut + 1
        if sound_until is None:
            self._emit(_events_of(data[at:], is_list=_is_list(data)))
            return
        self._emit(data[at:end].rstrip(b", \t\r\n"))
        self._mend(end)

    def _cut(self, at: int) -> int | None:
        """The next place between two events, a piece or more after ``at``."""
        for limit in range(at + _PIECE_BYTES, len(self._data) + _PIECE_BYTES, _PIECE_BYTES):
            cut = between_events(self._data, at, limit)
            if cut is not None and _parses(self._data[at:cut]):  # and so lies in no text
                return cut
        return None

    def _mend(self, at: int) -> None:
        """The events of the malformed rest, as `foretrace.trace.repair` reads them."""
        while at + _PIECE_BYTES < len(self._data):
            cut = between_events(self._data, at, at + _PIECE_BYTES)
            piece = None if cut is None else _mended(self._data[at:cut])
            if cut is None or piece is None:
                break
            self._emit(piece)
            at = cut + 1
        try:
            piece = _mended(_events_of(mend_texts(self._data[at:], []), is_list=_is_list(self._data)))
        except (*MALFORMED, KeyError):
            piece = None
        if piece is not None:
            self._emit(piece)
        else:
            salvage(self._data, at, _Events(lambda events: self._emit(b",".join(map(_encoded, events)))))

    def _emit(self, piece: bytes) -> None:
        piece = piece.strip()
        if not piece:
            return
        if self._any:
            self._write(b",\n")
        self._any = True
        self._write(self._change(piece))


def _events_of(rest: bytes, *, is_list: bool) -> bytes:
    """The events at the beginning of ``rest``, which ends with the end of the file."""
    if is_list:
        return b",".join(map(bytes, _decode_events(b"[" + rest)))
    return bytes(_decode_object(b'{"traceEvents":[' + rest)["traceEvents"]).strip()[1:-1]


def _parses(piece: bytes) -> bool:
    try:
        _decode_events(b"[" + piece + b"]")
    except MALFORMED:
        return False
    return True


def _mended(piece: bytes) -> bytes | None:
    for text in (piece, mend_texts(piece, [])):
        try:
            msgspec.json.decode(b"[" + text + b"]", type=list[Event])
        except MALFORMED:
            continue
        return text
    return None


def _encoded(event: Event) -> bytes:
    """The JSON of an event with the fields that it has."""
    fields = _present(event, _EVENT)
    if event.args is not None:
        fields["args"] = _present(event.args, _ARGS)
    if event.ph == "f":
        fields["bp"] = "e"  # where Kineto's arrows end: at the slice around that time
    return msgspec.json.encode(fields)


def _present(struct: msgspec.Struct, names: Sequence[tuple[str, str]]) -> dict[str, Any]:
    values = ((encoded, getattr(struct, name)) for name, encoded in names)
    return {key: value for key, value in values if value is not None and not (_is_raw(value) and not bytes(value))}


def _is_raw(value: object) -> bool:
    return isinstance(value, msgspec.Raw)
