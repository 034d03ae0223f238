"""Decoded events to columns, one piece of the file at a time: pure, so that several processes can each take pieces."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from foretrace.trace.arrays import durations, integers
from foretrace.trace.columns import NONE, Collective
from foretrace.trace.phases import READ
from foretrace.trace.schema import NO_ARGS, NO_TEXT
from foretrace.trace.times import to_ns

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from foretrace.trace.schema import Args, Event

_Arrays: TypeAlias = "dict[str, NDArray[Any]]"

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
_GRID = {"grid": "grid", "block": "block"}
_OPERATOR = {"types": "types", "dims": "dims", "strides": "strides", "concrete": "concrete"}
_EVERY = {"category": "cat", "name": "name", "process": "pid", "thread": "tid"}
_TABLE = {**{column: column for column in _EVERY}, **dict.fromkeys((*_GRID, *_OPERATOR), "lists")}
"""Coded columns, and the table that each holds codes into."""
_INT32 = {*_TABLE, "registers", "device_type"}
_ROWS = frozenset("XiI")
_LINKS = frozenset(("ac2g", "async_gpu", "async_cpu_to_gpu", "cpu_to_cuda", "async"))
"""Arrows from launches to activities, a third of a file: they say what the correlation says already."""


class Interner(dict[Any, int]):
    """Values to small integers, in the order in which they were first seen."""

    def __missing__(self, value: Hashable) -> int:
        code = self[value] = len(self)
        return code


def _lists() -> Interner:
    return Interner({bytes(NO_TEXT): 0})


@dataclass(frozen=True, slots=True)
class Codes:
    """The values behind codes, table by table."""

    category: Interner = field(default_factory=Interner)
    name: Interner = field(default_factory=Interner)
    process: Interner = field(default_factory=Interner)
    thread: Interner = field(default_factory=Interner)
    lists: Interner = field(default_factory=_lists)

    def table(self, column: str) -> Interner:
        """The table that ``column`` holds codes into."""
        found: Interner = getattr(self, _TABLE[column])
        return found


@dataclass(frozen=True, slots=True)
class Slices:
    """Rows of `Columns` by the name of the column; one that no event fills is not there.

    Attributes:
        count: Rows.
        columns: Column → [rows]; ``index`` counts from the first event of the piece.
        collectives: Row → what its arguments say.
        unfinished: Slices without a duration.
    """

    count: int = 0
    columns: _Arrays = field(default_factory=dict)
    collectives: dict[int, Collective] = field(default_factory=dict)
    unfinished: int = 0


@dataclass(frozen=True, slots=True)
class Piece:
    """What some events of a file became, in its order.

    Attributes:
        events: How many there were.
        codes: What the codes in ``slices`` and ``flows`` stand for.
        slices, flows: Columns of `Columns` and `Flows`.
        others: Events of other phases, each with its position among all.
        labels: Metadata rows.
    """

    events: int
    codes: Codes
    slices: Slices
    flows: _Arrays
    others: tuple[tuple[int, Event], ...]
    labels: tuple[Event, ...]


def piece_of(events: Sequence[Event], codes: Codes) -> Piece:
    """The columns of ``events``; values that are not in ``codes`` yet are added to it."""
    phases = [event.ph for event in events]
    rows = [i for i, phase in enumerate(phases) if phase in _ROWS]
    slices = slices_of(rows, [events[i] for i in rows], codes)
    arrows: tuple[Event, ...] = ()
    if "s" in phases or "f" in phases:
        arrows = tuple(event for event in events if event.ph in ("s", "f") and event.cat not in _LINKS)
    return Piece(
        len(events),
        codes,
        slices,
        _flows(arrows, codes),
        () if READ.issuperset(phases) else tuple((i, event) for i, event in enumerate(events) if event.ph not in READ),
        tuple(event for event in events if event.ph == "M") if "M" in phases else (),
    )


def recoded(piece: Piece, codes: Codes) -> Piece:
    """``piece`` with codes into ``codes``, to which it adds what it has seen."""
    if piece.codes is codes:
        return piece
    new = {
        table: np.array(list(map(getattr(codes, table).__getitem__, getattr(piece.codes, table))), dtype=np.int32)
        for table in {*_TABLE.values()}
    }

    def in_new(columns: _Arrays) -> _Arrays:
        return {name: new[_TABLE[name]][values] if name in _TABLE else values for name, values in columns.items()}

    slices = replace(piece.slices, columns=in_new(piece.slices.columns))
    return replace(piece, codes=codes, slices=slices, flows=in_new(piece.flows))


def slices_of(index: Sequence[int], slices: Sequence[Event], codes: Codes) -> Slices:
    """Rows for ``slices``, whose positions among the events of the piece are ``index``."""
    if not slices:
        return Slices()
    args = [event.args or NO_ARGS for event in slices]
    lengths = durations([event.dur for event in slices])
    columns: _Arrays = {
        "index": np.array(index, dtype=np.int64),
        **_coded(slices, codes),
        "start_ns": _starts(slices),
        "dur_ns": lengths,
        **{column: integers(list(map(attrgetter(attribute), args))) for column, attribute in _IDS.items()},
    }
    on_device = [i for i, a in enumerate(args) if a.stream is not None or a.device is not None]
    _fill_numbers(columns, on_device, args, _DEVICE)
    queued = [i for i in on_device if args[i].stream is None and args[i].sycl_queue is not None]
    _fill_numbers(columns, queued, args, {"stream": "sycl_queue"})
    # on the kernel's row under CUDA, on the launch's under ROCm
    _fill_lists(columns, [i for i, a in enumerate(args) if a.grid], args, _GRID, codes)
    typed = [i for i, a in enumerate(args) if a.types]
    _fill_lists(columns, typed, args, _OPERATOR, codes)
    _fill_lists(columns, [i for i in typed if args[i].old_dims], args, {"dims": "old_dims"}, codes)
    _fill_numbers(columns, [i for i, a in enumerate(args) if a.python_id is not None], args, _PYTHON)
    _fill_numbers(columns, [i for i, a in enumerate(args) if a.allocated is not None], args, _MEMORY)
    _fill_numbers(columns, [i for i, a in enumerate(args) if a.sequence is not None], args, _SEQUENCE)
    return Slices(
        len(slices),
        columns,
        {i: _collective(a.collective, a) for i, a in enumerate(args) if a.collective is not None},
        sum(slices[i].ph == "X" for i in np.flatnonzero(lengths == NONE).tolist()),
    )


def fill(column: str) -> int:
    """What a row of ``column`` holds where the event does not say."""
    return 0 if _TABLE.get(column) == "lists" else NONE


def dtype(column: str) -> type[np.generic]:
    """The type of a ``column`` of `Columns` or `Flows`."""
    return np.int32 if column in _INT32 else np.bool_ if column == "is_end" else np.int64


def _coded(events: Sequence[Event], codes: Codes) -> _Arrays:
    """Category, name, process and thread; mapped in C, since this is done for every event."""
    return {
        column: np.array(list(map(codes.table(column).__getitem__, map(attrgetter(attribute), events))), dtype=np.int32)
        for column, attribute in _EVERY.items()
    }


def _collective(name: str, a: Args) -> Collective:
    return Collective(
        name,
        a.in_elements,
        a.out_elements,
        a.element_type,
        a.group_size,
        a.group_name,
        a.group_ranks,
        a.group_sequence,
        a.source if a.target is None else a.target,
    )


def _flows(arrows: Sequence[Event], codes: Codes) -> _Arrays:
    if not arrows:
        return {}
    coded = _coded(arrows, codes)
    del coded["name"]
    return {
        **coded,
        "id": integers([event.id if isinstance(event.id, int) else None for event in arrows]),
        "start_ns": _starts(arrows),
        "is_end": np.array([event.ph == "f" for event in arrows], dtype=np.bool_),
    }


def _fill_numbers(columns: _Arrays, rows: Sequence[int], args: Sequence[Args], which: Mapping[str, str]) -> None:
    some = [args[i] for i in rows]
    for column, attribute in which.items() if rows else ():
        _column(columns, column, len(args))[rows] = integers(list(map(attrgetter(attribute), some)))


def _fill_lists(
    columns: _Arrays, rows: Sequence[int], args: Sequence[Args], which: Mapping[str, str], codes: Codes
) -> None:
    some = [args[i] for i in rows]
    code = codes.lists.__getitem__
    for column, attribute in which.items() if rows else ():
        found = np.array(list(map(code, map(bytes, map(attrgetter(attribute), some)))), dtype=np.int32)
        _column(columns, column, len(args))[rows] = found


def _column(columns: _Arrays, column: str, count: int) -> NDArray[Any]:
    """The array of ``column``, which begins as unknown in every row."""
    if column not in columns:
        columns[column] = np.full(count, fill(column), dtype=dtype(column))
    return columns[column]


def _starts(events: Iterable[Event]) -> NDArray[np.int64]:
    return to_ns(list(map(bytes, map(attrgetter("ts"), events))))
