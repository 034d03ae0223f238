"""Which kernels ran, how often, for how long: grouped, with helpers under the kernel that they help."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from foretrace.readings.autotuning import benchmarked
from foretrace.readings.base import Answer, Column, Reading
from foretrace.readings.carriers import identities
from foretrace.readings.groups import kernels_of_periods, periods
from foretrace.readings.host import a_step
from foretrace.readings.lines import Line, event, lines, longest, period_count
from foretrace.run import Kind, Run
from foretrace.units import duration, percent, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ASK = "Which kernels ran, how often, for how long?"

_WORDS = {
    "gemm": ("GEMM", "GEMMs"),
    "gemm-helper": ("GEMM helper", "GEMM helpers"),
    "conv": ("convolution", "convolutions"),
    "collective": ("collective", "collectives"),
    "unknown": ("kernel of unknown kind", "kernels of unknown kind"),
}
_MOST_CLASSES = 3

_COLUMNS = (
    Column("kernel", "kernel"),
    Column("op", "op"),
    Column("count", "a step", "count"),
    Column("median_ns", "µs", "ns"),
    Column("spread", "spread", "share"),
    Column("share", "of kernels", "share"),
)


def answer(run: Run) -> Answer | None:
    """Kernels a step by kind, and a line for each kernel; ``None`` where no kernel was recorded."""
    counts = [len(kernels) for kernels in kernels_of_periods(run)]
    if not any(counts):
        return None
    every = lines(run)
    total = sum(line.total_ns for line in every)
    shown = longest(every)
    rows = [_row(run, line, total) for line in _helpers_last(shown)]
    rest = [line for line in every if line not in shown]
    if rest:
        rows.append(_rest_row(rest, total))
    trials = _trials(run)
    if any(trials):
        rows.append(_trial_row(run, trials))
    return Answer("kernels", ASK, _sentence(run, counts, trials, total), None, tuple(rows), _COLUMNS)


def _sentence(run: Run, counts: Sequence[int], trials: Sequence[int], total: float) -> str:
    per = a_step(run)
    amount = plural(counts[0], "kernel") if len(set(counts)) == 1 else f"{_listed(counts)} kernels"
    mean = duration(total / period_count(run))
    parts = ", ".join(_shares(run, total))
    if any(trials):
        real = [count - tried for count, tried in zip(counts, trials, strict=True)]
        alone = plural(real[0], "kernel") if len(set(real)) == 1 else f"{_listed(real)} kernels"
        return (
            f"{amount} {per}, of which {_listed(trials)} are an autotuner's trial runs; the model's own are {alone} "
            f"and {mean} {per}: {parts}."
        )
    take = "takes" if counts == [1] * len(counts) else "take"
    return f"{amount} {per} {take} {mean} of GPU time: {parts}.{_beside(run)}"


def _listed(counts: Sequence[int]) -> str:
    if len(set(counts)) == 1:
        return f"{counts[0]:,}"
    if len(counts) > 6:  # noqa: PLR2004 - more than a reader takes in
        return f"{min(counts):,} to {max(counts):,}"
    return " / ".join(f"{count:,}" for count in counts)


def _shares(run: Run, total: float) -> Iterator[str]:
    """``3 GEMMs 70 %``: the classes that take the most time."""
    time: Counter[str] = Counter()
    amount: Counter[str] = Counter()
    for line in lines(run):
        time[line.identity.op_class] += line.total_ns
        amount[line.identity.op_class] += len(line.activities)
    for op_class, ns in time.most_common(_MOST_CLASSES):
        one, many = _WORDS.get(op_class, (f"{op_class} kernel", f"{op_class} kernels"))
        yield f"{plural(max(round(amount[op_class] / period_count(run)), 1), one, many)} {percent(ns, total)}"
    others = sum(ns for _, ns in time.most_common()[_MOST_CLASSES:])
    if others:
        yield f"others {percent(others, total)}"


def _beside(run: Run) -> str:
    """Copies and sets, which are no kernels."""
    inside = np.concatenate(periods(run))
    kinds = run.activities.kind[inside]
    steps = period_count(run)
    amounts = [
        plural(round(count / steps), noun, nouns)
        for kind, noun, nouns in ((Kind.COPY, "copy", "copies"), (Kind.SET, "memset", "memsets"))
        if (count := int((kinds == kind).sum())) and round(count / steps)
    ]
    return f" Beside them {' and '.join(amounts)} {a_step(run)}." if amounts else ""


def _helpers_last(every: Sequence[Line]) -> list[Line]:
    """A helper directly after a kernel of the class that it helps and of its op, wherever it was launched."""
    ordered = [line for line in every if line.identity.helper_of is None]
    for helper in (line for line in every if line.identity.helper_of is not None):
        at = [i for i, line in enumerate(ordered) if _same_call(line, helper)]
        ordered.insert(at[-1] + 1 if at else len(ordered), helper)
    return ordered


def _same_call(line: Line, helper: Line) -> bool:
    helped = line.identity.op_class == helper.identity.helper_of
    return helped and line.op == helper.op and line.groups[0].shapes == helper.groups[0].shapes


def _row(run: Run, line: Line, total: float) -> dict[str, Any]:
    first = line.activities[0]
    under = "└ " if line.identity.helper_of else ""
    return {
        "kernel": f"{under}{line.identity.short}",
        "name": line.groups[0].name,
        "op": line.op,
        "op_class": line.identity.op_class,
        "helper_of": line.identity.helper_of,
        "shapes": line.groups[0].shapes,
        "module": line.groups[0].module,
        "graph": bool(run.activities.in_graph[first]),
        "count": line.count,
        "median_ns": round(line.median_ns),
        "mean_ns": round(line.mean_ns),
        "spread": line.spread,
        "share": line.total_ns / total if total else None,
        "event": event(run, first),
    }


def _rest_row(rest: Sequence[Line], total: float) -> dict[str, Any]:
    return {
        "kernel": f"{len(rest):,} more kinds",
        "count": sum(line.count for line in rest),
        "median_ns": round(sum(line.median_ns for line in rest)),
        "mean_ns": round(sum(line.mean_ns for line in rest)),
        "share": sum(line.total_ns for line in rest) / total if total else None,
    }


def _trials(run: Run) -> list[int]:
    """Autotuner's trial kernels in each period."""
    trials = benchmarked(run)
    return [int(trials[kernels].sum()) for kernels in kernels_of_periods(run)]


def _trial_row(run: Run, trials: Sequence[int]) -> dict[str, Any]:
    activities = run.activities
    tried = np.flatnonzero(benchmarked(run) & (activities.kind == Kind.KERNEL))
    spent = int((activities.end_ns - activities.start_ns)[tried].sum())
    names = {identities(run)[int(code)].short for code in np.unique(run.trace.columns.name[activities.row[tried]])}
    return {
        "kernel": f"autotuner's trials ({plural(len(names), 'kind')})",
        "count": sum(trials) / len(trials),
        "mean_ns": round(spent / period_count(run)),
        "median_ns": round(spent / period_count(run)),
        "event": event(run, int(tried[0])),
    }


READING = Reading("kernels", ASK, answer)
