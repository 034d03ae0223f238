"""Pieces of a file to its `Trace`: no event object outlives the piece that it came in."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from foretrace.trace.arrays import join, lose_zeros, shift
from foretrace.trace.columns import Collective, Columns, Flows, Note, Tables, Trace
from foretrace.trace.phases import Pairs
from foretrace.trace.piece import Codes, dtype, fill, piece_of, recoded, slices_of
from foretrace.trace.text import visible, visible_values
from foretrace.trace.times import LOST
from foretrace.units import plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from foretrace.trace.piece import Piece, Slices
    from foretrace.trace.schema import Args, Event


class ColumnsBuilder:
    """Collects events; `build` gives the `Trace`.

    Slices (``ph`` X, or B with its E) and instants become rows, flow arrows (s, f) go to `Flows`, metadata rows (M) to
    labels; other phases are counted.
    """

    def __init__(self) -> None:
        self.events = 0
        self._codes = Codes()
        # a column that no event of a piece fills is the length of that piece only: most columns of most pieces
        self._chunks: dict[str, list[NDArray[Any] | int]] = {one.name: [] for one in fields(Columns)}
        self._flows: dict[str, list[NDArray[Any] | int]] = {one.name: [] for one in fields(Flows)}
        self._rows = 0
        self._pairs = Pairs()
        self._unfinished = 0
        self._process_labels: defaultdict[int | str, dict[str, None]] = defaultdict(dict)  # texts in order, once each
        self._thread_names: dict[tuple[int | str, int | str], str] = {}
        self._collectives: dict[int, Collective] = {}

    def add(self, events: Sequence[Event]) -> None:
        """Take the next events of the file, in its order."""
        self.take(piece_of(events, self._codes))

    def take(self, piece: Piece) -> None:
        """Take the next events of the file, as the columns that they became elsewhere."""
        first = self.events
        self.events += piece.events
        piece = recoded(piece, self._codes)
        self._add_slices(piece.slices, first)
        for column, values in piece.flows.items():
            self._flows[column].append(values)
        self._add_pairs(self._pairs.take((first + i, event) for i, event in piece.others))
        for event in piece.labels:
            if event.args is not None:
                self._add_label(event, event.args)

    def _add_pairs(self, indexed: Sequence[tuple[int, Event]]) -> None:
        self._add_slices(slices_of([i for i, _ in indexed], [event for _, event in indexed], self._codes), 0)

    def _add_slices(self, slices: Slices, first: int) -> None:
        if not slices.count:
            return
        columns = {**slices.columns, "index": slices.columns["index"] + first}
        for column, parts in self._chunks.items():
            parts.append(columns.get(column, slices.count))
        self._collectives.update((self._rows + row, said) for row, said in slices.collectives.items())
        self._unfinished += slices.unfinished
        self._rows += slices.count

    def _add_label(self, event: Event, args: Args) -> None:
        if event.name in ("process_name", "process_labels"):
            self._process_labels[event.pid][visible(args.name or args.labels or "")] = None
        elif event.name == "thread_name" and args.name:
            self._thread_names[event.pid, event.tid] = visible(args.name)

    def build(self, path: str, metadata: Mapping[str, Any], notes: Iterable[Note]) -> Trace:
        """The trace of everything added so far; times are shifted so that the first slice starts at 0.

        Args:
            path: Where the file came from, for messages.
            metadata: The file's top-level keys besides ``traceEvents``.
            notes: What was repaired, missing or cut on the way.
        """
        self._add_pairs(self._pairs.rest())
        columns = {key: join(parts, fill(key), dtype(key)) for key, parts in _popped(self._chunks)}
        flows = {key: join(parts, fill(key), dtype(key)) for key, parts in _popped(self._flows)}
        lost = lose_zeros(columns["start_ns"]) if self._rows else 0
        known = columns["start_ns"][columns["start_ns"] != LOST]
        first = int(known.min()) if len(known) else 0
        columns["start_ns"] = shift(columns["start_ns"], first)
        flows["start_ns"] = shift(flows["start_ns"], first)
        base = metadata.get("baseTimeNanoseconds")
        return Trace(
            path=path,
            metadata=visible_values(metadata),
            base_ns=first + (base if isinstance(base, int) else 0),
            columns=Columns(**columns),
            tables=self._tables(),
            flows=Flows(**flows),
            process_labels={process: " ".join(filter(None, texts)) for process, texts in self._process_labels.items()},
            thread_names=self._thread_names,
            collectives=self._collectives,
            notes=(*notes, *self._pairs.notes(), *self._timing_notes(lost)),
        )

    def _tables(self) -> Tables:
        codes = self._codes
        return Tables(
            category=tuple(map(visible, codes.category)),
            name=tuple(map(visible, codes.name)),
            process=tuple(map(visible_values, codes.process)),
            thread=tuple(map(visible_values, codes.thread)),
            lists=tuple(codes.lists),
        )

    def _timing_notes(self, lost: int) -> list[Note]:
        notes = []
        if self._unfinished:
            text = f"{plural(self._unfinished, 'slice')} without a duration, or with a negative one: unfinished, 0 µs"
            notes.append(Note("unfinished", text, self._unfinished))
        if lost:
            text = f"{plural(lost, 'event')} without a usable timestamp: left out of every time"
            notes.append(Note("lost-timestamps", text, lost))
        return notes


def _popped(chunks: dict[str, list[NDArray[Any] | int]]) -> Iterator[tuple[str, list[NDArray[Any] | int]]]:
    """The columns one after the other, so that the chunks of one are freed before the next is joined."""
    for column in list(chunks):
        yield column, chunks.pop(column)
