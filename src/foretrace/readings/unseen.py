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
    outer = _outermost(run)
    outer = outer[np.argsort(run.host.start_ns[outer], kind="stable")]
    begins = run.host.start_ns[outer]
    after = np.searchsorted(begins, end)
    ended = after < len(outer)
    following = outer[after[ended]]
    if not len(following):
        return f"The host records nothing for {duration(int((end - start).sum()))} after its last op"
    name = Counter(run.name(slice_) for slice_ in following.tolist()).most_common(1)[0][0]
    chosen = np.array([run.name(slice_) == name for slice_ in following.tolist()])
    lasts = (end - start)[ended][chosen]
    every = len(run.steps) > 1 and len(lasts) == len(run.steps)
    spent = f"{duration(stats.median(lasts.tolist()) or 0)} {a_step(run)}" if every else duration(int(lasts.sum()))
    return f"The host records nothing for {spent} before `{name}`{_place(run, following[chosen])}"


def _place(run: Run, following: Ints) -> str:
    """``, the first op of its step``, where that holds for all of them."""
    step, outer = step_of(run), _outermost(run)
    firsts = {
        int(inside[np.argmin(run.host.start_ns[inside])])
        for inside in (outer[step[outer] == i] for i in range(len(run.steps)))
        if len(inside)
    }
    return ", the first op of its step" if set(following.tolist()) <= firsts else ""


@lru_cache(maxsize=2)
def _outermost(run: Run) -> Ints:
    """Ops, calls and Python frames of the launching threads that lie in no other, annotations aside."""
    host = run.host
    seen = np.flatnonzero(on_launching_threads(run) & (host.kind != Kind.ANNOTATION))
    inside = host.parent[seen]
    outermost: Ints = seen[(inside == ROOT) | (host.kind[inside] == Kind.ANNOTATION)]
    return outermost
