"""Decoded events to columns, chunk by chunk: no event object outlives the chunk it came in."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from foretrace.trace.arrays import durations, integers, join, lose_zeros, shift
from foretrace.trace.columns import NONE, Collective, Columns, Flows, Note, Tables, Trace
from foretrace.trace.phases import READ, Pairs
from foretrace.trace.schema import NO_ARGS, NO_TEXT
from foretrace.trace.text import visible, visible_values
from foretrace.trace.times import LOST, to_ns
from foretrace.units import plural

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from foretrace.trace.schema import Args, Event

# column ← argument; a group is visited only for the events that have its first argument
_DEVICE = {
    "stream": "stream",
    "device": "device",
    "moved_bytes": "bytes",
    "registers": "registers",
    "shared_bytes": "shared_memory",
    "graph": "graph",
    "graph_node": "graph_node",
}
_IDS = {"external": "external_id", "correlation": "correlation"}
_SEQUENCE = {"sequence": "sequence"}
_PYTHON = {"python_id": "python_id", "python_parent": "python_parent"}
_MEMORY = {
    "allocated_bytes": "allocated",
    "reserved_bytes": "reserved",
    "moved_bytes": "moved",
    "device_type": "device_type",
}
_GRID = ("grid", "block")
_OPERATOR = ("types", "dims", "strides", "concrete")
_LISTS = {*_GRID, *_OPERATOR}
_ROWS = frozenset("XiI")
_LINKS = frozenset(("ac2g", "async_gpu", "async_cpu_to_gpu", "cpu_to_cuda", "async"))
"""Arrows from launches to activities, a third of a file: they say what the correlation says already."""
_INT32 = {"category", "name", "process", "thread", "registers", "device_type", *_LISTS}


class Interner(dict[Any, int]):
    """Values to small integers, in the order in which they were first seen."""

    def __missing__(self, value: Hashable) -> int:
        code = self[value] = len(self)
        return code


class ColumnsBuilder:
    """Collects events; `build` gives the `Trace`.

    Slices (``ph`` X, or B with its E) and instants become rows, flow arrows (s, f) go to `Flows`, metadata rows (M) to
    labels; other phases are counted.
    """

    def __init__(self) -> None:
        self.events = 0
        self._codes = {key: Interner() for key in ("category", "name", "process", "thread", "lists")}
        self._codes["lists"][bytes(NO_TEXT)]  # code 0
        # a column that no event of a chunk fills is the length of that chunk only: most columns of most chunks
        self._chunks: dict[str, list[NDArray[Any] | int]] = {field.name: [] for field in fields(Columns)}
        self._flows: dict[str, list[NDArray[Any] | int]] = {field.name: [] for field in fields(Flows)}
        self._rows = 0
        self._pairs = Pairs()
        self._unfinished = 0
        self._process_labels: defaultdict[int | str, dict[str, None]] = defaultdict(dict)  # texts in order, once each
        self._thread_names: dict[tuple[int | str, int | str], str] = {}
        self._collectives: dict[int, Collective] = {}

    def add(self, events: Sequence[Event]) -> None:
        """Take the next events of the file, in its order."""
        first = self.events
        self.events += len(events)
        phases = [event.ph for event in events]
        rows = [i for i, phase in enumerate(phases) if phase in _ROWS]
        self._add_slices([first + i for i in rows], [events[i] for i in rows])
        if "s" in phases or "f" in phases:
            self._add_flows([event for event in events if event.ph in ("s", "f") and event.cat not in _LINKS])
        if not READ.issuperset(phases):
            others = ((i, event) for i, event in enumerate(events, first) if event.ph not in READ)
            self._add_pairs(self._pairs.take(others))
        for event in events if "M" in phases else ():
            if event.ph == "M" and event.args is not None:
                self._add_metadata(event, event.args)

    def _add_pairs(self, indexed: Sequence[tuple[int, Event]]) -> None:
        self._add_slices([i for i, _ in indexed], [event for _, event in indexed])

    def _add_slices(self, index: list[int], slices: list[Event]) -> None:
        if not slices:
            return
        args = [event.args or NO_ARGS for event in slices]
        category, name, process, thread = self._interned(slices)
        lengths = durations([event.dur for event in slices])
        self._unfinished += sum(slices[i].ph == "X" for i in np.flatnonzero(lengths == NONE).tolist())
        chunk: dict[str, NDArray[Any]] = {
            "index": np.array(index, dtype=np.int64),
            "category": category,
            "name": name,
            "process": process,
            "thread": thread,
            "start_ns": _starts(slices),
            "dur_ns": lengths,
        }
        for column, attribute in _IDS.items():
            chunk[column] = integers(list(map(attrgetter(attribute), args)))
        on_device = [i for i, a in enumerate(args) if a.stream is not None or a.device is not None]
        self._fill_group(chunk, on_device, args, _DEVICE)
        # on the kernel's row under CUDA, on the launch's under ROCm
        self._fill_group(chunk, [i for i, a in enumerate(args) if a.grid], args, {}, _GRID)
        self._fill_group(chunk, [i for i, a in enumerate(args) if a.types], args, {}, _OPERATOR)
        self._fill_group(chunk, [i for i, a in enumerate(args) if a.python_id is not None], args, _PYTHON)
        self._fill_group(chunk, [i for i, a in enumerate(args) if a.allocated is not None], args, _MEMORY)
        self._fill_group(chunk, [i for i, a in enumerate(args) if a.sequence is not None], args, _SEQUENCE)
        for i, a in enumerate(args):
            if a.collective is not None:
                self._collectives[self._rows + i] = Collective(
                    a.collective,
                    a.in_elements,
                    a.out_elements,
                    a.element_type,
                    a.group_size,
                    a.group_name,
                    a.group_ranks,
                )
        for column, parts in self._chunks.items():
            parts.append(chunk.get(column, len(slices)))
        self._rows += len(slices)

    def _interned(self, events: Sequence[Event]) -> tuple[NDArray[np.int32], ...]:
        """Codes of category, name, process and thread; mapped in C, since this is done for every event."""
        attributes = (("category", "cat"), ("name", "name"), ("process", "pid"), ("thread", "tid"))
        return tuple(
            np.array(list(map(self._codes[table].__getitem__, map(attrgetter(attribute), events))), dtype=np.int32)
            for table, attribute in attributes
        )

    def _fill_group(
        self,
        chunk: dict[str, NDArray[Any]],
        rows: Sequence[int],
        args: list[Args],
        numbers: Mapping[str, str],
        lists: Sequence[str] = (),
    ) -> None:
        if not rows:
            return
        at = np.array(rows, dtype=np.int64)
        some = [args[i] for i in rows]
        for column, attribute in numbers.items():
            _column(chunk, column, len(args))[at] = integers(list(map(attrgetter(attribute), some)))
        code = self._codes["lists"].__getitem__
        for column in lists:
            codes = np.array(list(map(code, map(bytes, map(attrgetter(column), some)))), dtype=np.int32)
            _column(chunk, column, len(args))[at] = codes

    def _add_flows(self, arrows: list[Event]) -> None:
        if not arrows:
            return
        category, _, process, thread = self._interned(arrows)
        chunk: dict[str, NDArray[Any]] = {
            "category": category,
            "id": integers([event.id if isinstance(event.id, int) else None for event in arrows]),
            "process": process,
            "thread": thread,
            "start_ns": _starts(arrows),
            "is_end": np.array([event.ph == "f" for event in arrows], dtype=np.bool_),
        }
        for column, values in chunk.items():
            self._flows[column].append(values)

    def _add_metadata(self, event: Event, args: Args) -> None:
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
        columns = {key: join(parts, _fill(key), _dtype(key)) for key, parts in _popped(self._chunks)}
        flows = {key: join(parts, NONE, _dtype(key)) for key, parts in _popped(self._flows)}
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
            category=tuple(map(visible, codes["category"])),
            name=tuple(map(visible, codes["name"])),
            process=tuple(map(visible_values, codes["process"])),
            thread=tuple(map(visible_values, codes["thread"])),
            lists=tuple(codes["lists"]),
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


def _starts(events: Iterable[Event]) -> NDArray[np.int64]:
    return to_ns(list(map(bytes, map(attrgetter("ts"), events))))


def _column(chunk: dict[str, NDArray[Any]], column: str, count: int) -> NDArray[Any]:
    """The array of ``column`` in ``chunk``, which begins as unknown in every row."""
    if column not in chunk:
        chunk[column] = np.full(count, _fill(column), dtype=_dtype(column))
    return chunk[column]


def _fill(column: str) -> int:
    return 0 if column in _LISTS else NONE


def _dtype(column: str) -> type[np.generic]:
    return np.int32 if column in _INT32 else np.bool_ if column == "is_end" else np.int64
