"""The table of one step: what ran on the device, for how long, and how near to its limit."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from foretrace import stats, units
from foretrace.readings import Column
from foretrace.readings.costs import BOUNDS, costs, total
from foretrace.readings.groups import groups, periods
from foretrace.report.document import Table
from foretrace.run import Kind

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from numpy.typing import NDArray

    from foretrace.readings.groups import Group
    from foretrace.run import Run

_SHORT_STEP = 14
"""Kernels of a step that are listed one by one, in their order; more are put together and ranked by time."""
_TOP = 12
_CEILINGS = {"compute", "memory"}
_WORTH_A_ROW = 0.01
"""Copies and sets below this share of the busy time are left out of the table."""

_COLUMNS = (
    Column("kernel", "kernel"),
    Column("op", "op"),
    Column("times", "×", "count"),
    Column("time_ns", "µs", "ns"),
    Column("of_limit", "of limit", "share"),
    Column("bound", "bound"),
    Column("says", "reached"),
)


@dataclass(frozen=True, slots=True)
class _Row:
    """One line: a kernel of the step, or several alike; ``activities`` are those of every step."""

    kernel: str
    op: str | None
    times: float
    time_ns: float
    activities: tuple[int, ...]

    def shown(self, run: Run) -> dict[str, Any]:
        row = {"kernel": self.kernel, "op": self.op, "times": self.times, "time_ns": self.time_ns}
        return {**row, **_against_limit(run, np.array(self.activities), self.time_ns)}


def _against_limit(run: Run, activities: NDArray[np.int64], time_ns: float) -> dict[str, Any]:
    """Which ceiling these activities meet, how near they come and at what rate; nothing where that is not known.

    Their work over the steps is divided by the steps and by ``time_ns``, so that the row agrees with its own time.
    """
    every = costs(run)
    bounds = np.unique(every.bound[activities])
    bound = BOUNDS[int(bounds[0])] if len(bounds) == 1 else "unknown"
    took_ns = time_ns * len(periods(run))
    if bound == "unknown" or not took_ns:
        return {}
    if bound not in _CEILINGS:
        return {"bound": bound}
    flops, moved = total(run, activities.tolist())
    at_best = float(np.fmax(every.compute_ns[activities], every.memory_ns[activities]).sum())
    if bound == "compute":
        reached = None if flops is None else units.flop_rate(flops, took_ns)
    else:
        reached = None if moved is None else units.rate(moved, took_ns)
    return {"bound": bound, "of_limit": at_best / took_ns, "says": reached}


def kernel_table(run: Run) -> Table | None:
    """What one step runs, as medians over steps; the whole trace where it has none; ``None`` where nothing ran."""
    rows = [_of_group(group) for group in groups(run)] + _copies_and_sets(run)
    if not rows:
        return None
    if len(rows) > _SHORT_STEP:
        rows = _together(rows)
    rest = rows[_TOP:] if len(rows) > _SHORT_STEP else []
    shown = rows[: len(rows) - len(rest)]
    columns = tuple(c for c in _COLUMNS if c.key != "times" or any(row.times != 1 for row in shown))
    return Table(columns, [row.shown(run) for row in shown], title=_title(run), more=_more(rest))


def _title(run: Run) -> str:
    count = sum(1 for step in run.steps if len(step.activities))
    if not count:
        return "On the GPU, over the whole trace"
    return "On the GPU, in the one step" if count == 1 else f"On the GPU, in one step (medians of {count} steps)"


def _of_group(group: Group) -> _Row:
    return _Row(group.identity.short, group.op, group.count, group.median_ns, group.activities)


def _together(rows: Iterable[_Row]) -> list[_Row]:
    alike: dict[Hashable, list[_Row]] = defaultdict(list)
    for row in rows:
        alike[row.kernel, row.op].append(row)
    summed = (
        _Row(
            same[0].kernel,
            same[0].op,
            sum(row.times for row in same),
            sum(row.time_ns for row in same),
            tuple(index for row in same for index in row.activities),
        )
        for same in alike.values()
    )
    return sorted(summed, key=lambda row: -row.time_ns)


def _more(rest: Sequence[_Row]) -> str | None:
    if not rest:
        return None
    return f"and {len(rest):,} more: {units.duration(sum(row.time_ns for row in rest))}"


def _copies_and_sets(run: Run) -> list[_Row]:
    a = run.activities
    found: dict[tuple[str, str | None], list[list[int]]] = {}
    every = periods(run)
    for position, period in enumerate(every):
        for index in period[np.isin(a.kind[period], (Kind.COPY, Kind.SET))].tolist():
            op = int(a.op[index])
            key = (run.activity_name(index), run.name(op) if op >= 0 else None)
            found.setdefault(key, [[] for _ in every])[position].append(index)
    least = _WORTH_A_ROW * run.busy_ns() / max(len(every), 1)
    rows = (_of_steps(run, name, op, per_step) for (name, op), per_step in found.items())
    return [row for row in rows if row.time_ns >= least and row.times]


def _of_steps(run: Run, name: str, op: str | None, per_step: Sequence[Sequence[int]]) -> _Row:
    lengths = run.activities.end_ns - run.activities.start_ns
    times = stats.median([len(step) for step in per_step]) or 0
    time_ns = stats.median([int(lengths[list(step)].sum()) for step in per_step]) or 0
    return _Row(name, op, times, time_ns, tuple(index for step in per_step for index in step))
