"""Facts about the host side that several readings share."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from foretrace.ops import work
from foretrace.readings.calls import Call, calls
from foretrace.readings.compiling import compiling
from foretrace.run import ROOT, Kind, Run
from foretrace.run.intervals import merge
from foretrace.run.tree import nearest

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

_ARGUMENTS = ("dims", "types", "concrete", "strides")
_LONG = 0.1
"""Share of a step from which an op that launches nothing and need be no view is what the step spends its time in."""
_LAUNCHING = (Call.LAUNCH, Call.GRAPH, Call.COPY, Call.SET)


@lru_cache(maxsize=2)
def step_of(run: Run) -> Ints:
    """Position in `Run.steps` of the step in which each host slice starts, or −1, [slices]."""
    found = np.full(len(run.host), -1, dtype=np.int64)
    if run.steps and len(found):
        starts = np.array([step.start_ns for step in run.steps])
        ends = np.array([step.end_ns for step in run.steps])
        at = np.searchsorted(starts, run.host.start_ns, side="right") - 1
        inside = (at >= 0) & (run.host.start_ns < ends[at])
        found[inside] = at[inside]
    return found


@lru_cache(maxsize=2)
def in_scope(run: Run) -> NDArray[np.bool_]:
    """Host slices that a reading counts: those of the steps, all of them where there are no steps; [slices]."""
    return step_of(run) >= 0 if run.steps else np.ones(len(run.host), dtype=np.bool_)


def _holding(run: Run, mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Slices that are or contain one of ``mask``, [slices]."""
    found = np.zeros(len(run.host), dtype=np.bool_)
    reached = mask
    while reached.any():
        found |= reached
        above = run.host.parent[reached]
        reached = np.zeros(len(run.host), dtype=np.bool_)
        reached[above[above != ROOT]] = True
        reached &= ~found
    return found


@lru_cache(maxsize=2)
def launches_something(run: Run) -> NDArray[np.bool_]:
    """Whether a slice or anything inside it launched an activity or made a call that launches one, [slices].

    The call counts even where its activity is not in the file.
    """
    launching = np.isin(calls(run), _LAUNCHING)
    launching[run.activities.launch[run.activities.launch != ROOT]] = True
    return _holding(run, launching)


@lru_cache(maxsize=2)
def waits(run: Run) -> NDArray[np.bool_]:
    """Whether a slice is or contains a call that waits for the device, [slices]."""
    return _holding(run, calls(run) == Call.WAIT)


@lru_cache(maxsize=2)
def _on_cpu(run: Run) -> NDArray[np.bool_]:
    """Operators that have nothing to do with the device and are no part of a compilation, [slices]."""
    operators = run.host.kind == Kind.OPERATOR
    found: NDArray[np.bool_] = operators & ~launches_something(run) & ~waits(run) & ~in_compile(run)
    return found


def named(run: Run, names: Iterable[str]) -> NDArray[np.bool_]:
    """Which host slices have one of ``names``, [slices]."""
    wanted = set(names)
    codes = [code for code, name in enumerate(run.trace.tables.name) if name in wanted]
    found: NDArray[np.bool_] = np.isin(run.trace.columns.name[run.host.row], codes)
    return found


def events(run: Run, slices: Ints) -> list[int]:
    """Positions of host slices in ``traceEvents``."""
    return [int(i) for i in run.trace.columns.index[run.host.row[slices]]]


def lengths(run: Run, slices: Ints) -> Ints:
    """Durations of host slices, nanoseconds."""
    return run.host.end_ns[slices] - run.host.start_ns[slices]


def step_count(run: Run) -> int:
    """How many steps a total is spread over; 1 where the trace has none."""
    return len(run.steps) or 1


def per_step(run: Run, slices: Ints, values: Ints | None = None) -> float:
    """Median over steps of the count of ``slices`` (or the sum of their ``values``); the total without steps."""
    weights = np.ones(len(slices), dtype=np.int64) if values is None else values
    if not run.steps:
        return float(weights.sum())
    where = step_of(run)[slices]
    sums = np.bincount(where[where >= 0], weights=weights[where >= 0], minlength=len(run.steps))
    return float(np.median(sums))


def a_step(run: Run) -> str:
    """``a step``, or ``in this trace`` where there are no steps: what a figure of `per_step` is per."""
    return "a step" if run.steps else "in this trace"


def spoken(names: Iterable[str], most: int = 3) -> str:
    """``a, b and c``; ``a, b, …`` when there are more than ``most``."""
    every = list(names)
    if len(every) > most:
        return ", ".join(every[:most]) + ", …"
    return " and ".join(filter(None, (", ".join(every[:-1]), every[-1]))) if every else ""


def slug(words: str) -> str:
    """A cause in words as a stable word for programs: ``data-loading``."""
    return words.lower().replace(" ", "-")


def by_name(run: Run, slices: Ints) -> list[Ints]:
    """Host slices grouped by their name, each group in its old order."""
    codes = run.trace.columns.name[run.host.row[slices]]
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order])) + 1
    return np.split(slices[order], starts) if len(slices) else []


@lru_cache(maxsize=2)
def launches_kernel(run: Run) -> NDArray[np.bool_]:
    """Whether a host slice is the call that launched a kernel of the trace, [slices]."""
    found = np.zeros(len(run.host), dtype=np.bool_)
    launch = run.activities.launch[run.kernels()]
    found[launch[launch != ROOT]] = True
    return found


def matching(run: Run, pattern: re.Pattern[str]) -> NDArray[np.bool_]:
    """Host slices whose name matches ``pattern`` from its start, [slices]."""
    codes = [code for code, name in enumerate(run.trace.tables.name) if pattern.match(name)]
    found: NDArray[np.bool_] = np.isin(run.trace.columns.name[run.host.row], codes)
    return found


@lru_cache(maxsize=2)
def compile_scopes(run: Run) -> NDArray[np.bool_]:
    """Which slices are a compilation or an autotuning of torch.compile, the outermost ones, [slices]."""
    found = np.zeros(len(run.host), dtype=np.bool_)
    seen = compiling(run)
    found[[*seen.compiles, *seen.tunings]] = True
    return found


@lru_cache(maxsize=2)
def in_compile(run: Run) -> NDArray[np.bool_]:
    """Which slices lie in one of `compile_scopes` or are one, [slices]."""
    scopes = compile_scopes(run)
    found: NDArray[np.bool_] = nearest(run.host.parent, scopes) != ROOT if scopes.any() else scopes
    return found


@lru_cache(maxsize=2)
def cpu_computing(run: Run) -> NDArray[np.bool_]:
    """Operators that launched nothing and waited for nothing although they compute: on the CPU, [slices].

    Known by the table of ops and recorded shapes, or by taking a good part of a step on their own.
    """
    long_ns = _LONG * _mean_step_ns(run)
    found = np.zeros(len(run.host), dtype=np.bool_)
    for members in by_name(run, np.flatnonzero(_on_cpu(run))):
        first = int(members[0])
        shapes, dtypes, concrete, strides = (run.op_argument(first, c) for c in _ARGUMENTS)
        known = work(run.name(first), shapes, dtypes, concrete, strides)
        computes = known is not None and bool(known.launches) and shapes is not None
        may = known is None or known.launches is not False
        found[members] = computes | (may & (run.host.self_ns[members] >= long_ns))
    return found


def _mean_step_ns(run: Run) -> float:
    """Wall time of a step; of all that the host did where there are no steps."""
    if run.steps:
        return sum(step.dur_ns for step in run.steps) / len(run.steps)
    return float(run.host.end_ns.max(initial=0) - run.host.start_ns.min(initial=0)) if len(run.host) else 0.0


def plain(run: Run, name: str) -> NDArray[np.bool_]:
    """Which host slices are called ``name``, [slices]."""
    return named(run, (name,))


def costly_cpu_op(run: Run) -> tuple[str, int] | None:
    """The op that computes longest on the CPU in the steps: its name and total nanoseconds; ``None`` without any.

    Of nested ops that launch nothing the outermost is named.
    """
    computing = np.flatnonzero(cpu_computing(run) & in_scope(run))
    if not len(computing):
        return None
    quiet = _on_cpu(run)
    outermost = computing
    while True:
        above = run.host.parent[outermost]
        higher = (above != ROOT) & quiet[above]
        if not higher.any():
            break
        outermost = np.where(higher, above, outermost)
    totals = [(int(lengths(run, members).sum()), int(members[0])) for members in by_name(run, np.unique(outermost))]
    total, first = max(totals)
    return run.name(first), total


@lru_cache(maxsize=2)
def _busy(run: Run) -> tuple[Ints, Ints, Ints]:
    start, end = merge(run.activities.start_ns, run.activities.end_ns)
    return start, end, np.concatenate([[0], np.cumsum(end - start)])


def busy_within(run: Run, start: Ints, end: Ints) -> Ints:
    """How long the GPU was busy in each of the intervals, nanoseconds, [n]."""
    busy_start, busy_end, total = _busy(run)

    def until(at: Ints) -> Ints:
        begun = np.searchsorted(busy_start, at, side="right")
        over = np.maximum(busy_end[begun - 1] - at, 0) if len(busy_end) else 0
        return total[begun] - np.where(begun > 0, over, 0)

    return until(end) - until(start)
