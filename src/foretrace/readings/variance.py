"""Why does the same kernel take different times? Over the steps, and from place to place within a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from foretrace import stats
from foretrace.readings.autotuning import benchmarked
from foretrace.readings.base import Answer, Column, Reading
from foretrace.readings.groups import groups, kernels_of_periods
from foretrace.readings.lines import event
from foretrace.units import duration, percent, plural

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from foretrace.readings.groups import Group
    from foretrace.run import Run

ASK = "Why does the same kernel take different times?"

LARGE = 0.10
"""Spread over steps, (max − min) ÷ median, from which a kernel is called uneven; short kernels jitter by less."""
APART = 0.02
"""Difference between two places from which it is more than the clock's noise, when no step of one reaches the other."""
WORTH_NS = 500
"""Differences below half a microsecond are the timestamps' own."""
MOST_ROWS = 8

_COLUMNS = (
    Column("kernel", "kernel"),
    Column("op", "op"),
    Column("what", "what differs"),
    Column("low_ns", "low µs", "ns"),
    Column("high_ns", "high µs", "ns"),
    Column("difference", "difference", "share"),
    Column("why", "why"),
)


@dataclass(frozen=True, slots=True)
class Uneven:
    """One kernel with different times: the slower and the faster occasion, and a reason or ``None``.

    ``slow_at`` and ``fast_at`` say where these are: ``in ProfilerStep#3``, ``as kernel 2 of the step``.
    """

    group: Group
    what: str
    slow_at: str
    fast_at: str
    low_ns: float
    high_ns: float
    slow: int
    fast: int
    why: str | None

    @property
    def weight_ns(self) -> float:
        """How much there is to explain."""
        return self.high_ns - self.low_ns


def answer(run: Run) -> Answer | None:
    """Kernels whose times differ by more than noise; ``None`` where none does or none ran twice."""
    trials = benchmarked(run)
    own = [group for group in groups(run) if not trials[group.activities[0]]]
    if not any(len(group.activities) > 1 for group in own):
        return None
    found = sorted([*_over_steps(run, own), *_between_places(run, own)], key=lambda u: -u.weight_ns)
    if not found:
        return None
    rows = tuple(_row(run, uneven) for uneven in found[:MOST_ROWS])
    verdict = "unknown" if found[0].why is None else None
    return Answer("variance", ASK, _sentence(found), verdict, rows, _COLUMNS)


def _sentence(found: Sequence[Uneven]) -> str:
    first = found[0]
    name = f"{first.group.identity.short} ({first.group.op})" if first.group.op else first.group.identity.short
    others = plural(len(found) - 1, "other kernel differs", "other kernels differ")
    more = f" {others} too." if len(found) > 1 else ""
    unknown = (
        ", and why cannot be told from the trace. Kernel, shapes and grid are the same, nothing runs beside it on "
        "the GPU, and no clocks are recorded."
    )
    why = f": {first.why}." if first.why else unknown
    slow, fast = f"{duration(first.high_ns)} {first.slow_at}", f"{duration(first.low_ns)} {first.fast_at}"
    return f"{name} takes {fast} and {slow}{why}{more}"


def _over_steps(run: Run, own: Sequence[Group]) -> list[Uneven]:
    """Groups with one kernel a step whose time changes from step to step."""
    found = []
    for group in own:
        singles = [step[0] for step in group.per_step if len(step) == 1]
        spread = stats.spread(group.durations_ns)
        if len(singles) < 2 or len(singles) < len(group.activities) or spread is None or spread < LARGE:  # noqa: PLR2004
            continue
        times = _lengths(run, singles)
        slow, fast = int(times.argmax()), int(times.argmin())
        if times[slow] - times[fast] < WORTH_NS:
            continue
        alone = len(times) > 2 and np.delete(times, slow).max() < times[slow] / (1 + LARGE / 2)  # noqa: PLR2004
        why = _reason(run, group, singles[slow], singles[fast], first=slow == 0 and bool(alone))
        low, high = float(times[fast]), float(times[slow])
        slow_at, fast_at = (f"in {_step_name(run, singles[i])}" for i in (slow, fast))
        what = "over the steps"
        found.append(Uneven(group, what, slow_at, fast_at, low, high, singles[slow], singles[fast], why))
    return found


def _step_name(run: Run, kernel: int) -> str:
    return run.steps[int(run.activities.step[kernel])].name


def _place(run: Run, kernel: int) -> int:
    """Which kernel of its step it is, from 1 up."""
    places = (np.flatnonzero(period == kernel) for period in kernels_of_periods(run))
    return next(int(place[0]) + 1 for place in places if len(place))


def _between_places(run: Run, own: Sequence[Group]) -> list[Uneven]:
    """Groups of one kernel, op and shapes at several places of the step, when their times do not overlap."""
    alike: dict[Hashable, list[Group]] = {}
    for group in own:
        if group.count == 1 and group.durations_ns:
            alike.setdefault(_call(run, group), []).append(group)
    found, of = [], f" of the {'step' if run.steps else 'trace'}"
    for some in alike.values():
        ordered = sorted(some, key=lambda g: g.mean_ns)
        low, high = ordered[0], ordered[-1]
        apart = high.mean_ns - low.mean_ns
        overlap = max(low.durations_ns) >= min(high.durations_ns)
        if len(some) < 2 or overlap or apart < max(APART * low.mean_ns, WORTH_NS):  # noqa: PLR2004 - a pair
            continue
        slow, fast = high.activities[0], low.activities[0]
        what = f"two of {len(some)} places in the step" if len(some) > 2 else "two places in the step"  # noqa: PLR2004
        why = _reason(run, high, slow, fast, first=False)
        slow_at, fast_at = f"as kernel {_place(run, slow):,}", f"as kernel {_place(run, fast):,}{of}"
        found.append(Uneven(high, what, slow_at, fast_at, low.mean_ns, high.mean_ns, slow, fast, why))
    return found


def _reason(run: Run, group: Group, slow: int, fast: int, *, first: bool) -> str | None:
    """What the trace shows beside the slower occasion and not beside the faster."""
    if group.identity.op_class == "collective":
        return "a collective's time includes waiting for the last rank"
    beside, not_beside = _beside(run, slow), _beside(run, fast)
    if beside > not_beside + LARGE:
        return f"other streams work beside the slower one for {percent(beside, 1)} of its time"
    if first:
        return "only the first step is slow, as caches, clocks and lazy loading warm up"
    return None


def _beside(run: Run, kernel: int) -> float:
    """Share of a kernel's time in which another stream of its device is busy."""
    a = run.activities
    start, end = int(a.start_ns[kernel]), int(a.end_ns[kernel])
    low = max(int(np.searchsorted(a.start_ns, start)) - 64, 0)  # longer ones that began earlier are rare
    high = int(np.searchsorted(a.start_ns, end))
    near = np.arange(low, high)
    near = near[(a.stream[near] != a.stream[kernel]) & (a.device[near] == a.device[kernel]) & (a.end_ns[near] > start)]
    if not len(near) or end <= start:
        return 0.0
    both = np.minimum(a.end_ns[near], end) - np.maximum(a.start_ns[near], start)
    return float(min(both.sum() / (end - start), 1.0))


def _lengths(run: Run, kernels: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    index = list(kernels)
    lengths: np.ndarray[tuple[int], np.dtype[np.int64]] = run.activities.end_ns[index] - run.activities.start_ns[index]
    return lengths


def _call(run: Run, group: Group) -> Hashable:
    """Kernel, grid, op, shapes and strides: what must be the same for two places to do the same."""
    first = group.activities[0]
    grid = int(run.trace.columns.grid[run.activities.row[first]])
    op = int(run.activities.op[first])
    return group.name, grid, group.op, str(group.shapes), str(run.op_argument(op, "strides"))


def _row(run: Run, uneven: Uneven) -> dict[str, Any]:
    return {
        "kernel": uneven.group.identity.short,
        "op": uneven.group.op,
        "shapes": uneven.group.shapes,
        "what": uneven.what,
        "low_ns": round(uneven.low_ns),
        "high_ns": round(uneven.high_ns),
        "difference_ns": round(uneven.weight_ns),
        "difference": uneven.weight_ns / uneven.low_ns if uneven.low_ns else None,
        "why": uneven.why or "cannot be told",
        "event": event(run, uneven.slow),
        "faster_event": event(run, uneven.fast),
    }


READING = Reading("variance", ASK, answer)
