"""Step marks (``ProfilerStep#N``): which of them divide the run, and which launch lies in which."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from foretrace.run import ranks
from foretrace.run.categories import STEP_NAME, Kind
from foretrace.run.tree import ROOT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from foretrace.run.model import Host
    from foretrace.trace import Trace

    Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Mark:
    """One step mark: its name, number and slice, and its times."""

    name: str
    number: int
    slice: int
    start_ns: int
    end_ns: int


def marks(trace: Trace, host: Host) -> list[Mark]:
    """Every step mark of the host, in order of time; twins on the device are annotations of another category."""
    codes = [code for code, name in enumerate(trace.tables.name) if STEP_NAME.fullmatch(name)]
    found = []
    for slice_ in np.flatnonzero(
        np.isin(trace.columns.name[host.row], codes) & (host.kind == Kind.ANNOTATION)
    ).tolist():
        name = trace.name(int(host.row[slice_]))
        number = int(name.partition("#")[2])
        found.append(Mark(name, number, slice_, int(host.start_ns[slice_]), int(host.end_ns[slice_])))
    return sorted(found, key=lambda mark: mark.start_ns)


def usable(trace: Trace, host: Host, found: Sequence[Mark]) -> list[Mark]:
    """The marks that divide the run: those that fit it, and lie in no other one.

    Dividing by a mark inside another one, as of a profiler inside a profiler, would be wrong: the outer one divides.
    """
    return _outermost(trace, host, fitting(trace, host, found))


def fitting(trace: Trace, host: Host, found: Sequence[Mark]) -> list[Mark]:
    """The marks of processes that do the work, no longer than the profiler ran.

    Public traces have marks of another process, forty times as long as the recording; dividing by them would be wrong.
    """
    process = trace.columns.process
    works = host.row[(host.kind == Kind.OPERATOR) | (host.kind == Kind.LAUNCH)]
    working = set(ranks.distinct(process[works]))
    longest = recorded_ns(trace)
    return [
        mark
        for mark in found
        if (not working or int(process[host.row[mark.slice]]) in working)
        and (longest is None or mark.end_ns - mark.start_ns <= longest)
    ]


def _outermost(trace: Trace, host: Host, found: Sequence[Mark]) -> list[Mark]:
    """Those of ``found`` that lie in no other one of their rank, as the file has them; of twins the first."""
    rows = host.row[[mark.slice for mark in found]]
    rank = ranks.groups(trace, rows).tolist()
    ends = (trace.columns.start_ns[rows] + np.maximum(trace.columns.dur_ns[rows], 0)).tolist()
    until: dict[int, int] = {}
    kept = []
    for i in sorted(range(len(found)), key=lambda i: (found[i].start_ns, -ends[i])):
        end = until.get(rank[i], found[i].start_ns)
        if found[i].start_ns >= end or ends[i] > end:
            kept.append(found[i])
            until[rank[i]] = max(end, ends[i])
    return kept


def recorded_ns(trace: Trace) -> int | None:
    """How long the profiler says that it recorded (its own row of category ``Trace``), or ``None``."""
    spans = [code for code, category in enumerate(trace.tables.category) if category == "Trace"]
    longest = int(trace.columns.dur_ns[np.isin(trace.columns.category, spans)].max(initial=0))
    return longest or None


def of_launches(trace: Trace, host: Host, launch: Ints, steps: Sequence[Mark]) -> Ints:
    """Position in ``steps`` of the step of the same rank in which each launch starts, or −1; [len(launch)].

    A thread with steps of its own launches into those, whatever the steps of other threads overlap.
    """
    step = np.full(len(launch), -1, dtype=np.int64)
    linked = np.flatnonzero(launch != ROOT)
    if not steps or not len(linked):
        return step
    slices = np.array([mark.slice for mark in steps], dtype=np.int64)
    starts = np.array([mark.start_ns for mark in steps], dtype=np.int64)
    ends = np.array([mark.end_ns for mark in steps], dtype=np.int64)
    launched_at = host.start_ns[launch[linked]]

    def put(ours: Ints, mine: Ints) -> None:
        at = mine[np.searchsorted(starts[mine], launched_at[ours], side="right") - 1]
        inside = (starts[at] <= launched_at[ours]) & (launched_at[ours] < ends[at])
        step[linked[ours[inside]]] = at[inside]

    launch_rank, step_rank = ranks.groups(trace, host.row[launch[linked]]), ranks.groups(trace, host.row[slices])
    for rank in ranks.distinct(step_rank):
        put(np.flatnonzero(launch_rank == rank), np.flatnonzero(step_rank == rank))
    launch_thread, step_thread = host.thread[launch[linked]], host.thread[slices]
    for thread in np.unique(step_thread).tolist() if (ends[:-1] > starts[1:]).any() else ():
        ours = np.flatnonzero(launch_thread == thread)
        step[linked[ours]] = -1
        put(ours, np.flatnonzero(step_thread == thread))
    return step
