"""What malformed files are mended with, in one place; every repair is counted and reported.

The strict path stops at the first piece that does not parse. From there on pieces are tried again, then with their
texts mended, then event by event. An event's end is a brace before the next event's first key or before the end of the
list, so one broken event does not hide the others. Every byte is looked at a bounded number of times.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from foretrace.errors import TraceError
from foretrace.trace import lenient, mend
from foretrace.trace.columns import Note
from foretrace.trace.decode import between_events, decode_event, decode_events
from foretrace.trace.schema import MALFORMED
from foretrace.units import plural

if TYPE_CHECKING:
    from collections.abc import Callable

    from foretrace.trace.builder import ColumnsBuilder
    from foretrace.trace.schema import Event

_PIECE_BYTES = 1 << 17
_LARGEST_EVENT_BYTES = 64 << 20
_LOOK_AHEAD = 3  # an event whose arguments hold objects like events ends one of these ends later
_FIRST_KEY = re.compile(rb'[\s,]*+\{\s*+"([^"\\]{1,40})"\s*+:')
_SEPARATOR = re.compile(rb"[\s,]*+")
_SPACE = b" \t\r\n"
_HEAD_BYTES = 1 << 12
_WRITERS = (re.compile(rb'\{\s*+"schemaVersion"\s*+:'), re.compile(rb'"traceEvents"\s*+:\s*+\['))

UNREADABLE, HEADER, BRACKETS, TRAILING = "unreadable-events", "unreadable-header", "brackets", "trailing"
_SAID = {
    mend.CONTROL: ("text", "with raw control characters, shown as escapes"),
    mend.UTF8: ("piece", "with bytes that are no UTF-8, shown as U+FFFD"),
    mend.BACKSLASHES: ("text", "with unescaped backslashes (Windows paths), read as they stand"),
    mend.QUOTES: ("text", "with unescaped quotes, read as part of it"),
    mend.NUMBERS: ("number", "that is none (nan, inf, N/A…), unknown"),
    mend.QUOTELESS_KEYS: ("malformed event key", "without its quotes"),
    mend.COMMAS: ("comma", "with nothing after it"),
    lenient.WRONG_TYPE: ("event", "with a value of another type than expected, unknown"),
    lenient.AS_TEXT: ("event", "with numbers written as text, read as numbers"),
    UNREADABLE: ("event", "that cannot be read, skipped"),
    BRACKETS: ("bracket", "between events, passed over"),
    TRAILING: ("part", "after the end of the trace, left out"),
    HEADER: ("part", "of the file's header that cannot be read, unknown"),
}
_HARMLESS = {lenient.AS_TEXT}


def salvage(
    data: bytes,
    start: int,
    builder: ColumnsBuilder,
    *,
    path: str = "trace",
    progress: Callable[[int, int], None] | None = None,
) -> tuple[dict[str, Any], list[Note]]:
    """Read what can be read of ``data`` from byte ``start`` on, which lies between two events.

    Returns:
        The metadata after the events, and one note for each kind of repair.

    Raises:
        TraceError: Several writers wrote this file at once.
    """
    refuse_interleaved(data, path)
    reader = _Salvage(data, start, builder)
    end = reader.read_events(start, progress)
    metadata = reader.read_metadata(end)
    return metadata, reader.notes()


def salvage_head(text: bytes) -> tuple[dict[str, Any], list[Note]]:
    """The metadata before the events, from the text up to the key ``traceEvents``, where it does not parse."""
    counts: Counter[str] = Counter()
    return _metadata(text.rstrip(b"," + _SPACE) + b"}", counts), _notes(counts)


def refuse_interleaved(data: bytes, path: str) -> None:
    """Raise `TraceError` when a second trace begins inside the first: no total of such a file means anything."""
    for pattern in _WRITERS:
        first = pattern.search(data)
        second = first and pattern.search(data, first.end())
        if second:
            raise TraceError(
                f"`{path}` holds the interleaved output of several writers: a second trace begins at byte"
                f" {second.start():,}",
                hint="record again with one file per rank (put the rank in the file's name)",
            )


class _Salvage:
    """One pass over the events of a malformed file."""

    def __init__(self, data: bytes, start: int, builder: ColumnsBuilder) -> None:
        self.data = data
        self.builder = builder
        self.counts: Counter[str] = Counter()
        self.closed = False
        """Whether the list of events has its closing bracket."""
        self.cut = False
        """Whether the file ends inside an event."""
        self._begins, self._ends = _boundaries(data, start)
        self._batch: list[Event] = []

    def read_events(self, at: int, progress: Callable[[int, int], None] | None) -> int:
        """Read events from ``at`` on; where their list ends."""
        size = len(self.data)
        while at < size and not self.closed:
            at = self._piece(at)
            if progress is not None:
                progress(at, size)
        return at

    def _piece(self, at: int) -> int:
        """Read about a megabyte of events; where the next one begins."""
        limit = at + _PIECE_BYTES
        cut = between_events(self.data, at, limit) if limit < len(self.data) else None
        if cut is not None and self._at_once(self.data[at:cut]):
            return cut + 1
        while at < limit and not self.closed and at < len(self.data):
            at = self._one(at)
        self.builder.add(self._batch)
        self._batch = []
        return at

    def _at_once(self, piece: bytes) -> bool:
        """Whether ``piece`` parses as a whole, as it is or with its texts and numbers mended."""
        found: list[str] = []
        for mended in (_as_it_is, mend.mend_texts, mend.mend_numbers):
            piece = mended(piece, found)
            try:
                events = decode_events(b"[" + piece + b"]")
            except MALFORMED:
                continue
            self.builder.add(events)
            self.counts.update(found)
            return True
        return False

    def _one(self, at: int) -> int:
        """Read one event; where the next begins."""
        at = self._separators(at)
        if self.closed or at >= len(self.data):
            return at
        if self._begins.match(self.data, at) is None and self.data[at : at + 2] != b"{}":
            found = self._begins.search(self.data, at)
            return self._skipped(found.start() if found else None)
        end = self._end_after(at)
        if end is None or end - at > _LARGEST_EVENT_BYTES:
            return self._skipped(end)
        event, end = self._event(at, end)
        if event is None:
            return self._skipped(end)
        self._batch.append(event)
        return end

    def _skipped(self, to: int | None) -> int:
        """Leave out an event that cannot be read; where to go on. What lies at the file's end was cut there."""
        if to is None or _SEPARATOR.fullmatch(self.data, to):
            self.cut = True
            return len(self.data)
        self.counts[UNREADABLE] += 1
        return to

    def _separators(self, at: int) -> int:
        """Pass the commas before the next event, or the end of the list."""
        separator = _SEPARATOR.match(self.data, at)
        end = separator.end() if separator else at
        if self.data[end : end + 1] != b"]":
            return end
        after = _SEPARATOR.match(self.data, end + 1)
        if after and self._begins.match(self.data, after.end()):
            self.counts[BRACKETS] += 1
            return after.end()
        self.closed = True
        self.counts[mend.COMMAS] += b"," in self.data[max(at - 1, 0) : end]
        return end + 1

    def _end_after(self, at: int) -> int | None:
        """The first place after ``at`` where an event may end."""
        found = self._ends.search(self.data, at)
        return found.end() if found else None

    def _event(self, at: int, end: int) -> tuple[Event | None, int]:
        """The event between ``at`` and ``end`` and where it ends, or ``None`` and where to go on."""
        event = self._read(self.data[at:end])
        further = end
        for _ in range(_LOOK_AHEAD if event is None else 0):
            further = self._end_after(further) or len(self.data)
            if further - at > _LARGEST_EVENT_BYTES:
                break
            event = self._read(self.data[at:further], mended=False)
            if event is not None:
                return event, further
        if event is None:  # a broken end hides the event after it: try that one alone
            *_, last = (None, *self._begins.finditer(self.data, at + 1, end))
            event = self._read(self.data[last.start() : end]) if last else None
            self.counts[UNREADABLE] += event is not None
        return event, end

    def _read(self, text: bytes, *, mended: bool = True) -> Event | None:
        with contextlib.suppress(*MALFORMED):
            return decode_event(text)
        found: list[str] = []
        kinds: set[str] = set()
        try:
            event = lenient.convert(text, kinds)
        except MALFORMED:
            if not mended:
                return None
            try:
                event = lenient.convert(mend.mend_object(text, found, event=True), kinds)
            except (*MALFORMED, mend.UnmendableError):
                return None
        self.counts.update(found)
        self.counts.update(kinds)
        return event

    def read_metadata(self, at: int) -> dict[str, Any]:
        """What follows the list of events."""
        rest = self.data[at:].strip(_SPACE)
        if not self.data[:_HEAD_BYTES].lstrip(_SPACE).startswith(b"["):
            rest = self._without_trailing(rest)
            self.closed = self.closed and rest.endswith(b"}")
        if rest.startswith(b","):
            return _metadata(b"{" + rest.lstrip(b"," + _SPACE), self.counts)
        self.counts[TRAILING] += rest not in (b"", b"}")
        return {}

    def _without_trailing(self, rest: bytes) -> bytes:
        """``rest`` up to the brace that ends the trace; what follows the brace is counted as left out."""
        end = 1 if rest.startswith(b"}") else rest.rfind(b"}") + 1
        whole = rest.startswith(b"}") or (rest.startswith(b",") and _parses(b"{" + rest[:end].lstrip(b"," + _SPACE)))
        if not whole or end == len(rest):
            return rest
        self.counts[TRAILING] += 1
        return rest[:end]

    def notes(self) -> list[Note]:
        """One note for each kind of repair, the cut first."""
        events = self.builder.events
        notes = []
        if self.cut:
            notes.append(Note("truncated", f"truncated after {plural(events, 'complete event')}", partial=True))
        elif not self.closed:
            text = f"the file ends without its closing brackets, after {plural(events, 'complete event')}"
            notes.append(Note("missing-end", text, partial=True))
        return notes + _notes(self.counts)


def _as_it_is(piece: bytes, found: list[str]) -> bytes:
    del found
    return piece


def _boundaries(data: bytes, start: int) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    """Where an event may begin, and where it may end: before the next or what is left of it, or the list's end."""
    first = _FIRST_KEY.match(data, start)
    keys = mend.KEYS if first is None else rb"(?:" + mend.KEYS + rb"|" + re.escape(first.group(1)) + rb")"
    begins = rb'\{\s*+"?' + keys + rb'"?\s*+:'
    after = (begins, rb"\{[^{}:]{0,40}+\Z", rb"\]", rb"\Z")
    return re.compile(begins), re.compile(rb"\}(?=\s*+,?+\s*+(?:" + rb"|".join(after) + rb"))")


def _parses(text: bytes) -> bool:
    try:
        msgspec.json.decode(text, type=dict[str, Any])
    except MALFORMED:
        return False
    return True


def _metadata(text: bytes, counts: Counter[str]) -> dict[str, Any]:
    try:
        return dict(msgspec.json.decode(text, type=dict[str, Any]))
    except MALFORMED:
        pass
    found: list[str] = []
    try:
        metadata = dict(msgspec.json.decode(mend.mend_object(text, found, event=False), type=dict[str, Any]))
    except (*MALFORMED, mend.UnmendableError):
        counts[HEADER] += 1
        return {}
    counts.update(found)
    return metadata


def _notes(counts: Counter[str]) -> list[Note]:
    return [
        Note(kind, f"{plural(count, noun)} {what}", count, partial=kind not in _HARMLESS)
        for kind, (noun, what) in _SAID.items()
        if (count := counts[kind])
    ]
