"""Long stretches in which no launching thread records anything: a sleep, a lock, Python that calls no op."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from foretrace import stats
from foretrace.readings.host import a_step, step_of
from foretrace.run import ROOT, Kind, Run
from foretrace.run.intervals import merge
from foretrace.units import duration

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

UNSEEN_NS = 1_000_000
"""A longer stretch without any op or call is no dispatch overhead: Python between two ops takes microseconds."""


@lru_cache(maxsize=2)
def on_launching_threads(run: Run) -> NDArray[np.bool_]:
    """Host slices of the threads that launched an activity, [slices]."""
    threads = np.unique(run.host.thread[run.activities.launch[run.activities.launch != ROOT]])
    return np.isin(run.host.thread, threads)


@lru_cache(maxsize=2)
def unseen(run: Run) -> tuple[Ints, Ints]:
    """Starts and ends of the stretches, those from the first step's mark and up to the last one's end included, [n]."""
    outer = _outermost(run)
    edges = [run.steps[0].start_ns, max(step.end_ns for step in run.steps)] if run.steps else []
    start, end = (np.append(times[outer], edges).astype(np.int64) for times in (run.host.start_ns, run.host.end_ns))
    start, end = merge(start, end)
    long = start[1:] - end[:-1] > UNSEEN_NS
    return end[:-1][long], start[1:][long]


def told(run: Run) -> str:
    """``The host records nothing for 4.29 ms a step before `aten::mm`, the first op of its step``."""
    start, end = unseen(run)
    if run.steps:
        within = (start >= run.steps[0].start_ns) & (end <= max(step.end_ns for step in run.steps))
        start, end = start[within], end[within]
    outer = _outermost(run)
    after = np.searchsorted(run.host.start_ns[outer], end)
    ended = after < len(outer)
    following = outer[after[ended]]
    if not len(following):
        return f"The host records nothing for {duration(int((end - start).sum()))} after its last op"
    names = run.trace.columns.name[run.host.row[following]]
    chosen = names == Counter(names.tolist()).most_common(1)[0][0]
    lasts = (end - start)[ended][chosen]
    every = len(run.steps) > 1 and len(lasts) == len(run.steps)
    spent = f"{duration(stats.median(lasts.tolist()) or 0)} {a_step(run)}" if every else duration(int(lasts.sum()))
    before = following[chosen]
    return f"The host records nothing for {spent} before `{run.name(int(before[0]))}`{_place(run, before)}"


def _place(run: Run, following: Ints) -> str:
    """``, the first op of its step``, where that holds for all of them."""
    outer = _outermost(run)
    in_step = outer[step_of(run)[outer] >= 0]
    _, first = np.unique(step_of(run)[in_step], return_index=True)
    return ", the first op of its step" if np.isin(following, in_step[first]).all() else ""


@lru_cache(maxsize=2)
def _outermost(run: Run) -> Ints:
    """Ops, calls and Python frames of the launching threads that lie in no other, annotations aside; by their start."""
    host = run.host
    seen = np.flatnonzero(on_launching_threads(run) & (host.kind != Kind.ANNOTATION))
    inside = host.parent[seen]
    outermost = seen[(inside == ROOT) | (host.kind[inside] == Kind.ANNOTATION)]
    by_start: Ints = outermost[np.argsort(host.start_ns[outermost], kind="stable")]
    return by_start
