"""Decoded events to columns, chunk by chunk: no event object outlives the chunk it came in."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from foretrace.trace.columns import NONE, Collective, Columns, Flows, Tables, Trace
from foretrace.trace.schema import NO_ARGS, NO_TEXT
from foretrace.trace.times import LOST, to_ns

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from foretrace.trace.columns import Note
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
_INT32 = {"category", "name", "process", "thread", "registers", "device_type", *_LISTS}

_WORD = 1 << 64


class Interner(dict[Any, int]):
    """Values to small integers, in the order in which they were first seen."""

    def __missing__(self, value: Hashable) -> int:
        code = self[value] = len(self)
        return code


class ColumnsBuilder:
    """Collects events; `build` gives the `Trace`.

    Slices (``ph`` X) and instants become rows, flow arrows (s, f) go to `Flows`, metadata rows (M) to labels; other
    phases are only counted into ``events``.
    """

    def __init__(self) -> None:
        self.events = 0
        self._codes = {key: Interner() for key in ("category", "name", "process", "thread", "lists")}
        self._codes["lists"][bytes(NO_TEXT)]  # code 0
        self._chunks: dict[str, list[NDArray[Any]]] = {field.name: [] for field in fields(Columns)}
        self._flows: dict[str, list[NDArray[Any]]] = {field.name: [] for field in fields(Flows)}
        self._rows = 0
        self._process_labels: dict[int | str, str] = {}
        self._thread_names: dict[tuple[int | str, int | str], str] = {}
        self._collectives: dict[int, Collective] = {}

    def add(self, events: Sequence[Event]) -> None:
        """Take the next events of the file, in its order."""
        first = self.events
        self.events += len(events)
        index = [i for i, event in enumerate(events, first) if event.ph in "Xi"]
        slices = [events[i - first] for i in index]
        if slices:
            self._add_slices(index, slices)
        arrows = [event for event in events if event.ph in "sf"]
        if arrows:
            self._add_flows(arrows)
        for event in events:
            if event.ph == "M" and event.args is not None:
                self._add_metadata(event, event.args)

    def _add_slices(self, index: list[int], slices: list[Event]) -> None:
        count = len(slices)
        args = [event.args or NO_ARGS for event in slices]
        category, name, process, thread = self._interned(slices)
        chunk: dict[str, NDArray[Any]] = {
            "index": np.array(index, dtype=np.int64),
            "category": category,
            "name": name,
            "process": process,
            "thread": thread,
            "start_ns": _starts(slices),
            "dur_ns": _durations([event.dur for event in slices]),
            "external": _integers([a.external_id for a in args]),
            "correlation": _integers([a.correlation for a in args]),
        }
        for column in self._chunks:
            if column not in chunk:
                fill = 0 if column in _LISTS else NONE
                chunk[column] = np.full(count, fill, dtype=np.int32 if column in _INT32 else np.int64)
        self._fill_group(chunk, [i for i, a in enumerate(args) if a.stream is not None], args, _DEVICE, _GRID)
        self._fill_group(chunk, [i for i, a in enumerate(args) if a.types], args, {}, _OPERATOR)
        self._fill_group(chunk, [i for i, a in enumerate(args) if a.python_id is not None], args, _PYTHON)
        self._fill_group(chunk, [i for i, a in enumerate(args) if a.allocated is not None], args, _MEMORY)
        self._fill_group(
            chunk, [i for i, a in enumerate(args) if a.sequence is not None], args, {"sequence": "sequence"}
        )
        for i, a in enumerate(args):
            if a.collective is not None:
                self._collectives[self._rows + i] = Collective(
                    a.collective, a.in_elements, a.out_elements, a.element_type, a.group_size, a.group_name
                )
        for column, values in chunk.items():
            self._chunks[column].append(values)
        self._rows += count

    def _interned(self, events: Iterable[Event]) -> tuple[NDArray[np.int32], ...]:
        categories, names = self._codes["category"], self._codes["name"]
        processes, threads = self._codes["process"], self._codes["thread"]
        return (
            np.array([categories[event.cat] for event in events], dtype=np.int32),
            np.array([names[event.name] for event in events], dtype=np.int32),
            np.array([processes[event.pid] for event in events], dtype=np.int32),
            np.array([threads[event.tid] for event in events], dtype=np.int32),
        )

    def _fill_group(
        self,
        chunk: dict[str, NDArray[Any]],
        rows: list[int],
        args: list[Args],
        numbers: Mapping[str, str],
        lists: Sequence[str] = (),
    ) -> None:
        if not rows:
            return
        some = [args[i] for i in rows]
        for column, attribute in numbers.items():
            chunk[column][rows] = _integers([getattr(a, attribute) for a in some])
        codes = self._codes["lists"]
        for column in lists:
            chunk[column][rows] = [codes[bytes(getattr(a, column))] for a in some]

    def _add_flows(self, arrows: list[Event]) -> None:
        category, _, process, thread = self._interned(arrows)
        chunk: dict[str, NDArray[Any]] = {
            "category": category,
            "id": _integers([event.id if isinstance(event.id, int) else None for event in arrows]),
            "process": process,
            "thread": thread,
            "start_ns": _starts(arrows),
            "is_end": np.array([event.ph == "f" for event in arrows], dtype=np.bool_),
        }
        for column, values in chunk.items():
            self._flows[column].append(values)

    def _add_metadata(self, event: Event, args: Args) -> None:
        if event.name in ("process_name", "process_labels"):
            known = self._process_labels.get(event.pid, "")
            self._process_labels[event.pid] = " ".join(filter(None, (known, args.name, args.labels)))
        elif event.name == "thread_name" and args.name:
            self._thread_names[event.pid, event.tid] = args.name

    def build(self, path: str, metadata: Mapping[str, Any], notes: Iterable[Note]) -> Trace:
        """The trace of everything added so far; times are shifted so that the first slice starts at 0.

        Args:
            path: Where the file came from, for messages.
            metadata: The file's top-level keys besides ``traceEvents``.
            notes: What was repaired, missing or cut on the way.
        """
        columns = {key: _join(parts, key) for key, parts in self._chunks.items()}
        flows = {key: _join(parts, key) for key, parts in self._flows.items()}
        start = columns["start_ns"]
        known = start[start != LOST]
        first = int(known.min()) if len(known) else 0
        for times in (start, flows["start_ns"]):
            times[times != LOST] -= first
        base = metadata.get("baseTimeNanoseconds")
        return Trace(
            path=path,
            metadata=metadata,
            base_ns=first + (base if isinstance(base, int) else 0),
            columns=Columns(**columns),
            tables=Tables(**{key: tuple(codes) for key, codes in self._codes.items()}),
            flows=Flows(**flows),
            process_labels=self._process_labels,
            thread_names=self._thread_names,
            collectives=self._collectives,
            notes=tuple(notes),
        )


def _starts(events: Iterable[Event]) -> NDArray[np.int64]:
    return to_ns([bytes(event.ts) for event in events])


def _durations(values: list[float | None]) -> NDArray[np.int64]:
    micros = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    known = np.isfinite(micros)
    out = np.full(len(micros), NONE, dtype=np.int64)
    out[known] = np.rint(micros[known] * 1000).astype(np.int64)
    return out


def _integers(values: Sequence[int | None]) -> NDArray[np.int64]:
    filled = [NONE if value is None else value for value in values]
    try:
        return np.array(filled, dtype=np.int64)
    except OverflowError:  # unsigned 64-bit ids: the same bits, signed
        return np.array(
            [(v + _WORD // 2) % _WORD - _WORD // 2 if -_WORD < v < _WORD else NONE for v in filled],
            dtype=np.int64,
        )


def _join(parts: list[NDArray[Any]], column: str) -> NDArray[Any]:
    if parts:
        return np.concatenate(parts)
    kind: type[np.generic] = np.int32 if column in _INT32 else np.bool_ if column == "is_end" else np.int64
    return np.empty(0, dtype=kind)
