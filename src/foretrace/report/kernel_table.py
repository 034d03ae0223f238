"""The table of one step: what ran on the device, for how long, and how near to its limit."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from foretrace import stats, units
from foretrace.readings import Column
from foretrace.readings.groups import groups, periods
from foretrace.report.document import Table
from foretrace.run import Kind

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from foretrace.readings.groups import Group
    from foretrace.run import Run

_SHORT_STEP = 14
"""Kernels of a step that are listed one by one, in their order; more are put together and ranked by time."""
_TOP = 12
_WORTH_A_ROW = 0.01
"""Copies and sets below this share of the busy time are left out of the table."""

_COLUMNS = (
    Column("kernel", "kernel"),
    Column("op", "op"),
    Column("times", "×", "count"),
    Column("time_ns", "µs", "ns"),
)


@dataclass(frozen=True, slots=True)
class _Row:
    kernel: str
    op: str | None
    times: float
    time_ns: float

    def shown(self) -> dict[str, Any]:
        return {"kernel": self.kernel, "op": self.op, "times": self.times, "time_ns": self.time_ns}


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
    return Table(columns, [row.shown() for row in shown], title=_title(run), more=_more(rest))


def _title(run: Run) -> str:
    count = sum(1 for step in run.steps if len(step.activities))
    if not count:
        return "On the GPU, over the whole trace"
    return "On the GPU, in the one step" if count == 1 else f"On the GPU, in one step (medians of {count} steps)"


def _of_group(group: Group) -> _Row:
    return _Row(group.identity.short, group.op, group.count, group.median_ns)


def _together(rows: Iterable[_Row]) -> list[_Row]:
    alike: dict[Hashable, list[_Row]] = defaultdict(list)
    for row in rows:
        alike[row.kernel, row.op].append(row)
    summed = (
        _Row(same[0].kernel, same[0].op, sum(row.times for row in same), sum(row.time_ns for row in same))
        for same in alike.values()
    )
    return sorted(summed, key=lambda row: -row.time_ns)


def _more(rest: Sequence[_Row]) -> str | None:
    if not rest:
        return None
    return f"and {len(rest):,} more: {units.duration(sum(row.time_ns for row in rest))}"


def _copies_and_sets(run: Run) -> list[_Row]:
    a = run.activities
    per_step: dict[tuple[str, str | None], list[list[int]]] = {}
    every = periods(run)
    for position, period in enumerate(every):
        for index in period[np.isin(a.kind[period], (Kind.COPY, Kind.SET))].tolist():
            op = int(a.op[index])
            key = (run.activity_name(index), run.name(op) if op >= 0 else None)
            per_step.setdefault(key, [[] for _ in every])[position].append(int(a.end_ns[index] - a.start_ns[index]))
    least = _WORTH_A_ROW * run.busy_ns() / max(len(every), 1)
    rows = (
        _Row(name, op, stats.median([len(t) for t in times]) or 0, stats.median([sum(t) for t in times]) or 0)
        for (name, op), times in per_step.items()
    )
    return [row for row in rows if row.time_ns >= least and row.times]
