"""Why is this step slower than the others?"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from foretrace.readings.base import Answer, Column, Reading
from foretrace.readings.calls import Call, calls
from foretrace.readings.host import in_compile, slug, step_of
from foretrace.run import Kind, Run
from foretrace.units import duration

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

ASK = "Why is this step slower than the others?"

_SLOW = 1.2  # a step this many times the median of the others is slower; host times spread by a tenth or two
_TO_COMPARE = 3
_SPOKEN, _MOST_ROWS = 2, 40
_CAUSES = (
    "Python between ops",
    "ops",
    "launch calls",
    "synchronize",
    "compile",
    "allocator",
    "copy calls",
    "Python frames",
    "the profiler itself",
    "other calls",
)
_PYTHON, _OPS, _LAUNCH, _WAIT, _COMPILE, _ALLOCATE, _COPY, _FRAMES, _PROFILER, _OTHER = range(len(_CAUSES))
_COLUMNS = (
    Column("step", "step"),
    Column("dur_ns", "wall µs", "ns"),
    Column("gpu_busy_ns", "GPU busy µs", "ns"),
    Column("times", "× median of the others", "ratio"),
    Column("because", "most of the difference"),
)


def answer(run: Run) -> Answer | None:
    """The slowest step against the median of the others, its extra wall time split exactly by what the CPU did.

    A step's wall time is the sum of the self times inside it on its thread, so the difference between two steps is
    the sum of the differences by name. The verdict is the largest cause; ``unknown`` with two unlike steps. Silent
    where the slowest step is less than 1.2 times the others, or there is one step at most. At most 40 rows.
    """
    if len(run.steps) < 2:  # noqa: PLR2004 - one step has no others
        return None
    walls = np.array([step.dur_ns for step in run.steps], dtype=np.float64)
    others = _median_of_others(walls)
    times = np.divide(walls, others, out=np.ones_like(walls), where=others > 0)
    slow = int(np.argmax(times))
    if times[slow] < _SLOW:
        return None
    shown = np.sort(np.argsort(-times, kind="stable")[:_MOST_ROWS])
    rows = tuple(_row(run, i, times[i]) for i in shown.tolist())
    name, usual = run.steps[slow].name, others[slow]
    head = f"{name} takes {duration(walls[slow])} on the CPU, {times[slow]:.2g}× the others' median ({duration(usual)})"
    if len(run.steps) < _TO_COMPARE:
        text = f"{head}; with two steps nobody can say which is usual."
        return Answer("steps", ASK, text, verdict="unknown", evidence=rows, columns=_COLUMNS)
    by_cause = _excess(_by_cause(run), slow)
    cause = _CAUSES[int(np.argmax(by_cause))]
    if slow == len(run.steps) - 1 and cause == _CAUSES[_WAIT]:
        wait = duration(by_cause[_WAIT])
        text = f"{head}: as the last step it waits {wait} in {_largest(run, slow, _WAIT)} for all queued work to end."
        return Answer("steps", ASK, text, slug(cause), rows, _COLUMNS)
    first = " It is the first of the file and sets things up: leave it out of averages." if not slow else ""
    text = f"{head}: {_because(run, slow, by_cause)}.{first}"
    return Answer("steps", ASK, text, slug(cause), rows, _COLUMNS)


def _median_of_others(values: Floats) -> Floats:
    """For each value the median of all others, [n]; in order of size the others only close the gap that it leaves."""
    order = np.argsort(values, kind="stable")
    ordered, rank = values[order], np.empty(len(values), dtype=np.int64)
    rank[order] = np.arange(len(values))
    left = len(values) - 1
    middle = [ordered[k + (k >= rank)] for k in ((left - 1) // 2, left // 2)]
    return np.asarray((middle[0] + middle[1]) / 2, dtype=np.float64)


@lru_cache(maxsize=2)
def _causes(run: Run) -> NDArray[np.int64]:
    """The cause that each host slice's self time belongs to, [slices]."""
    kind, call = run.host.kind, calls(run)
    found = np.full(len(run.host), _OTHER, dtype=np.int64)
    found[kind == Kind.ANNOTATION] = _PYTHON
    found[kind == Kind.PYTHON] = _FRAMES
    found[kind == Kind.OVERHEAD] = _PROFILER
    found[kind == Kind.OPERATOR] = _OPS
    found[np.isin(call, (Call.LAUNCH, Call.GRAPH, Call.SET))] = _LAUNCH
    found[call == Call.COPY] = _COPY
    found[call == Call.WAIT] = _WAIT
    found[np.isin(call, (Call.ALLOCATE, Call.FREE))] = _ALLOCATE
    found[in_compile(run)] = _COMPILE
    return found


@lru_cache(maxsize=2)
def _inside(run: Run) -> Ints:
    """The slices on each step's thread inside it, the step's own among them: their self times add up to its wall."""
    host, where = run.host, step_of(run)
    marks = np.array([step.slice for step in run.steps])
    mine = np.flatnonzero((where >= 0) & (host.thread == host.thread[marks][where]))
    return mine[mine >= marks[where[mine]]]


def _table(run: Run, slices: Ints, codes: NDArray[Any], width: int) -> Floats:
    """Self time of ``slices`` by step and code, [steps, width]."""
    flat = np.bincount(
        step_of(run)[slices] * width + codes, weights=run.host.self_ns[slices], minlength=len(run.steps) * width
    )
    return flat.astype(np.float64).reshape(len(run.steps), width)


@lru_cache(maxsize=2)
def _by_cause(run: Run) -> Floats:
    inside = _inside(run)
    return _table(run, inside, _causes(run)[inside], len(_CAUSES))


def _excess(table: Floats, step: int) -> Floats:
    """Self time of a step beyond the median of the others, by column."""
    return np.asarray(table[step] - np.median(np.delete(table, step, axis=0), axis=0), dtype=np.float64)


def _because(run: Run, step: int, by_cause: Floats) -> str:
    order = [int(i) for i in np.argsort(-by_cause, kind="stable")[:_SPOKEN] if by_cause[i] > by_cause.max() / 10]
    texts = []
    for i in order:
        name = _largest(run, step, i) if i not in (_PYTHON, _FRAMES) else None
        texts.append(f"{duration(by_cause[i])} more in {_CAUSES[i]}{f' ({name})' if name else ''}")
    return ", ".join(texts) or "what it did more is not in the file (its step overlaps others)"


def _largest(run: Run, step: int, cause: int) -> str | None:
    """The name with the most extra time among the slices of a cause."""
    slices = _inside(run)
    slices = slices[_causes(run)[slices] == cause]
    codes, places = np.unique(run.trace.columns.name[run.host.row[slices]], return_inverse=True)
    if not len(codes):
        return None
    excess = _excess(_table(run, slices, places, len(codes)), step)
    return run.trace.tables.name[int(codes[np.argmax(excess)])]


def _row(run: Run, position: int, times: float) -> dict[str, Any]:
    step = run.steps[position]
    row: dict[str, Any] = {
        "step": step.name,
        "dur_ns": step.dur_ns,
        "gpu_busy_ns": run.busy_ns(step.activities) if len(run.activities) else None,
        "times": float(times),
        "because": None,
        "event": int(run.trace.columns.index[run.host.row[step.slice]]),
    }
    if len(run.steps) >= _TO_COMPARE:
        by_cause = _excess(_by_cause(run), position)
        worst = int(np.argmax(by_cause))
        if by_cause[worst] > 0 and times > 1:  # of a step that took less than the others no cause is the difference
            row["because"] = f"{_CAUSES[worst]} +{duration(by_cause[worst])}"
        row["by_cause_ns"] = {cause: int(ns) for cause, ns in zip(_CAUSES, by_cause, strict=True) if ns}
    return row


READING = Reading("steps", ASK, answer)
