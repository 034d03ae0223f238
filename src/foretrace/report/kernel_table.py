"""The table of one step: what ran on the device, for how long, and how near to its limit."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from foretrace import stats, units
from foretrace.ops import short_name
from foretrace.readings import Column
from foretrace.readings.autotuning import benchmarked
from foretrace.readings.costs import BOUNDS, costs, total
from foretrace.readings.groups import busy_in_periods_ns, periods
from foretrace.readings.lines import lines
from foretrace.report.document import Table
from foretrace.run import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from foretrace.readings.lines import Line
    from foretrace.run import Run

_SHORT_STEP = 14
"""Rows that are listed one by one, in the order of their launch; more are put together by name and op."""
_TOP = 12
"""Rows that are shown, the longest, where there are more than `_SHORT_STEP` even so."""
_CEILINGS = {"compute", "memory"}
_WORTH_A_ROW = 0.01
"""Copies and sets below this share of the busy time have no row of their own."""
_DIVISIONS = ("aten::div", "aten::div_", "aten::true_divide")
"""By a number, ATen multiplies by its reciprocal (``div_true_kernel_cuda`` in BinaryDivTrueKernel.cu)."""

_COLUMNS = (
    Column("kernel", "kernel"),
    Column("op", "op"),
    Column("times", "×", "count"),
    Column("time_ns", "µs", "ns"),
    Column("share", "of GPU", "share", spare=True),
    Column("of_limit", "of limit", "share"),
    Column("bound", "bound"),
    Column("reached", "reached"),
)


_Typical: TypeAlias = "Callable[[Sequence[float]], float | None]"
PerStep: TypeAlias = tuple[tuple[int, ...], ...]
"""Activities of each step."""


@dataclass(frozen=True, slots=True)
class _Row:
    """One line of the table: a kernel of the step or several alike, in each period (step, or whole trace)."""

    kernel: str
    op: str | None
    per_step: PerStep


def kernel_table(run: Run) -> Table | None:
    """What one step runs; of the whole trace where it has no steps; ``None`` where nothing ran.

    Times are medians over the steps. Where the steps differ in their kernels they are means, which add up. Trial runs
    of an autotuner are told apart from the model's own kernels.
    """
    small, large = _copies_and_sets(run)
    rows = sorted([*(_of_line(run, line) for line in lines(run)), *large], key=_first)
    trials = _trials(run)
    if not rows and not trials:
        return None
    if len(rows) > _SHORT_STEP or not _steady(rows):
        rows = _together(rows)
    steady = _steady(rows)
    typical = stats.median if steady else stats.mean
    times = [(_typical_ns(run, row, typical), row) for row in rows]
    ranked = len(times) > _SHORT_STEP
    if ranked:
        times.sort(key=lambda timed: -timed[0])
    rest = times[_TOP:] if ranked else []
    busy_ns = typical([run.busy_ns(period) for period in periods(run)]) or 0.0
    shown = [_shown(run, row, typical, time_ns, busy_ns) for time_ns, row in times[: len(times) - len(rest)]]
    columns = tuple(c for c in _COLUMNS if c.key != "times" or any(row["times"] != 1 for row in shown))
    left_out = [f"and {len(rest):,} more: {units.duration(sum(ns for ns, _ in rest))}"] if rest else []
    said = "; ".join([*left_out, *_in_short(run, small), *trials])
    more = ". ".join(filter(None, (said, _key(shown))))
    return Table(columns, shown, title=_title(run, steady=steady, ranked=ranked), more=more or None)


def _title(run: Run, *, steady: bool, ranked: bool) -> str:
    count = sum(1 for step in run.steps if len(step.activities))
    order = "longest first" if ranked else "in order"
    if not count:
        return f"On the GPU, over the whole trace, {order}"
    if count == 1:
        return f"On the GPU, in the one step, {order}"
    return f"On the GPU, in one step ({'medians' if steady else 'means'} of {count} steps), {order}"


def _key(shown: Sequence[Mapping[str, Any]]) -> str:
    """The terms of the table's last columns that its rows use, in words."""
    bounds = {row.get("bound") for row in shown}
    if bounds == {None}:
        return ""
    words = {
        "latency": "latency: too small to fill the device",
        "mixed": "mixed: bounds differ by shape",
    }
    # columns that no row fills are not shown, and have no dash
    dash = ["–: none or not known"] if bounds - _CEILINGS and (None in bounds or bounds & _CEILINGS) else []
    limit = ["of limit: share of the peak FLOP/s (compute) or bandwidth (memory)"] if bounds & _CEILINGS else []
    said = "; ".join([*limit, *(text for bound, text in words.items() if bound in bounds), *dash])
    return f"{said[:1].upper()}{said[1:]}"


def _first(row: _Row) -> int:
    """The row's first activity; activities are in order of start."""
    return min(index for step in row.per_step for index in step)


def _of_line(run: Run, line: Line) -> _Row:
    return _Row(_name(line), _op(run, line), _merged([group.per_step for group in line.groups]))


def _name(line: Line) -> str:
    reciprocal = line.op in _DIVISIONS and line.identity.short == "elementwise mul"
    return f"{line.identity.short} by 1/x" if reciprocal else line.identity.short


def _op(run: Run, line: Line) -> str | None:
    """The op as the table shows it: what a graph replays has none, and a generated kernel's repeats its name."""
    if run.activities.in_graph[line.activities[0]]:
        return "CUDA graph"
    return "" if line.op == line.groups[0].name else line.op and short_name(line.op)


def _steady(rows: Sequence[_Row]) -> bool:
    """Whether every step runs every row, so that medians say what a step is like."""
    return all(all(row.per_step) for row in rows)


def _together(rows: Sequence[_Row]) -> list[_Row]:
    """One row for each name and op, whatever the shapes, in order of the first launch."""
    alike: dict[tuple[str, str | None], list[_Row]] = {}
    for row in rows:
        alike.setdefault((row.kernel, row.op), []).append(row)
    return [_Row(*look, _merged([row.per_step for row in same])) for look, same in alike.items()]


def _merged(parts: Sequence[PerStep]) -> PerStep:
    return tuple(tuple(index for part in step for index in part) for step in zip(*parts, strict=True))


def _typical_ns(run: Run, row: _Row, typical: _Typical) -> float:
    lengths = run.activities.end_ns - run.activities.start_ns
    return typical([int(lengths[list(step)].sum()) for step in row.per_step]) or 0.0


def _shown(run: Run, row: _Row, typical: _Typical, time_ns: float, busy_ns: float) -> dict[str, Any]:
    times = typical([len(step) for step in row.per_step])
    share = time_ns / busy_ns if busy_ns else None
    known = {"kernel": row.kernel, "op": row.op, "times": times, "time_ns": time_ns, "share": share}
    return {**known, **_against_limit(run, row, time_ns)}


def _against_limit(run: Run, row: _Row, time_ns: float) -> dict[str, Any]:
    """Which ceiling the row meets, how near it comes and at what rate; nothing where that is not known.

    The work of all steps is divided by the steps and by ``time_ns``, so that a row agrees with its own time.
    """
    every, activities = costs(run), np.array([index for step in row.per_step for index in step])
    bounds = np.unique(every.bound[activities])
    bound = (
        BOUNDS[int(bounds[0])] if len(bounds) == 1 else "mixed" if BOUNDS.index("unknown") not in bounds else "unknown"
    )
    took_ns = time_ns * len(row.per_step)
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
    return {"bound": bound, "of_limit": at_best / took_ns, "reached": reached}


def _copies_and_sets(run: Run) -> tuple[list[_Row], list[_Row]]:
    """Rows of copies and sets: those too short to be shown, and the others."""
    a, trials, every = run.activities, benchmarked(run), periods(run)
    found: dict[tuple[str, str | None], list[list[int]]] = {}
    for position, period in enumerate(every):
        wanted = np.isin(a.kind[period], (Kind.COPY, Kind.SET)) & ~trials[period]
        for index in period[wanted].tolist():
            op = int(a.op[index])
            shown_op = "CUDA graph" if a.in_graph[index] else short_name(run.name(op)) if op >= 0 else None
            key = (run.activity_name(index), shown_op)
            found.setdefault(key, [[] for _ in every])[position].append(index)
    lengths = a.end_ns - a.start_ns
    rows = [_Row(name, op, tuple(map(tuple, per_step))) for (name, op), per_step in found.items()]
    least = _WORTH_A_ROW * busy_in_periods_ns(run)
    large = [bool(lengths[[i for step in row.per_step for i in step]].sum() >= least) for row in rows]
    return list(compress(rows, (not shown for shown in large))), list(compress(rows, large))


def _in_short(run: Run, small: Sequence[_Row]) -> list[str]:
    """``and 2 memsets: 2.56 µs``: the copies and sets without a row, mean of the steps."""
    a, steps = run.activities, max(len(periods(run)), 1)
    indices = np.array([i for row in small for step in row.per_step for i in step], dtype=np.int64)
    told = []
    for kind, one, many in ((Kind.SET, "memset", "memsets"), (Kind.COPY, "copy", "copies")):
        some = indices[a.kind[indices] == kind]
        count = round(len(some) / steps)
        if count:
            took = int((a.end_ns[some] - a.start_ns[some]).sum()) / steps
            told.append(f"and {units.plural(count, one, many)}: {units.duration(took)}")
    return told


def _trials(run: Run) -> list[str]:
    """The autotuner's trial runs of kernels in words, a step."""
    every = [run.kernels(period) for period in periods(run)]
    tried = [period[benchmarked(run)[period]] for period in every]
    count = sum(len(period) for period in tried)
    if not count:
        return []
    lengths = run.activities.end_ns - run.activities.start_ns
    time_ns = sum(int(lengths[period].sum()) for period in tried) / len(every)
    return [f"beside them an autotuner's trials, {round(count / len(every)):,}×: {units.duration(time_ns)}"]
