"""What should I do first? The advice of every reading, ranked by what it would save a step."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from foretrace import stats
from foretrace.readings.base import Advice, Answer, Column, Reading, answered
from foretrace.readings.bound import NO_TIME
from foretrace.readings.carriers import class_of
from foretrace.readings.compiling import compiling
from foretrace.readings.costs import MATRIX, costs
from foretrace.readings.groups import groups, periods
from foretrace.readings.lines import a_period, period_count
from foretrace.units import duration, flop_rate, percent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from foretrace.readings.groups import Group
    from foretrace.run import Run

ASK = "What should I do first?"

MOST = 5
WORTH = 0.02
"""Advice that saves less than this share of a step's GPU time is left out: steps differ by as much."""
WORTH_NS = 1_000
"""So is advice that saves less than a microsecond a step."""

# torch.optim classes with a fused implementation (their ``fused=`` argument), and how often its one kernel moves every
# parameter's bytes: Adam reads parameter, gradient and two moments and writes all but the gradient.
_FUSED_OPTIMIZERS = {"Adam": 7, "AdamW": 7}
_OPTIMIZER = re.compile(r"Optimizer\.step#(\w+)\.step")

_COLUMNS = (
    Column("rank", "", "count"),
    Column("advice", "do"),
    Column("saves_ns", "saves µs", "ns"),
    Column("share", "share", "share"),
    Column("share_of", "of"),
    Column("question", "ask"),
)


@dataclass(frozen=True, slots=True)
class _Found:
    question: str
    advice: Advice

    @property
    def saves_ns(self) -> int:
        return self.advice.saves_ns or 0


def answer(run: Run) -> Answer | None:
    """At most five things to do, the most worthwhile first; ``None`` where no GPU activity was recorded."""
    every = periods(run)
    if not every:
        return None
    busy = stats.mean([float(run.busy_ns(period)) for period in every]) or 0.0
    least = max(WORTH * busy, WORTH_NS)
    worth = [f for f in _fitting(run) if f.advice.saves_ns is None or f.saves_ns >= least]
    worth.sort(key=lambda f: -f.saves_ns)
    rows = tuple(_row(run, rank, f, busy) for rank, f in enumerate(worth[:MOST], 1))
    verdict = None if rows else "unknown" if _unknown(run, busy) else "nothing"
    return Answer("first", ASK, f"{_sentence(run, worth, busy)}{_mfu(run)}", verdict, rows, _COLUMNS)


def _sentence(run: Run, worth: Sequence[_Found], busy: float) -> str:
    why = _unknown(run, busy)
    if not worth and why:
        return f"What to do first is unknown: {why}."
    if not worth:
        return f"Nothing to do first: nothing found here would save {percent(WORTH, 1)} of the GPU's time."
    first = worth[0]
    if first.advice.saves_ns is None:
        return first.advice.text
    share, whole = _share(run, first, busy)
    of_it = f", {percent(share, 1)} of {whole}" if share is not None else ""
    about_it = about(waiting=first.advice.waiting)
    return f"{first.advice.text} Saves {about_it} {duration(first.saves_ns)} {a_period(run)}{of_it}."


def _unknown(run: Run, busy: float) -> str | None:
    """Why it cannot be said that there is nothing to do."""
    if len(run.gpus) > 1:
        return f"the {len(run.gpus)} GPUs of this file may wait for one another"
    if not busy:
        return NO_TIME
    return None if run.knows_launches else "no launch is in the file"


def about(*, waiting: bool) -> str:
    """How sure a saving is: no more than is waited can be won back; of work, bytes at peak bandwidth tell roughly."""
    return "up to" if waiting else "about"


def _share(run: Run, found: _Found, busy: float) -> tuple[float | None, str]:
    """The part that is saved, and of what: waiting is a part of the step, work a part of the GPU's time."""
    whole, of = (_step_ns(run), "the step") if found.advice.waiting else (busy, "GPU time")
    return found.saves_ns / whole if 0 < found.saves_ns <= whole else None, of


def _step_ns(run: Run) -> float:
    """Time of a step without the profiler where it was measured, else from its GPU's first start to the next's."""
    if run.environment and run.environment.unprofiled.host_ns:
        return float(run.environment.unprofiled.host_ns)
    every = np.concatenate(periods(run))
    start, end = run.activities.start_ns[every], run.activities.end_ns[every]
    return float(max(int(end.max()), run.until_ns or 0) - int(start.min())) / period_count(run)


def _fitting(run: Run) -> Iterator[_Found]:
    """The advice that fits the cause.

    Where compilation fills the steps nothing else is worth doing before; and that the host is late is said once, by
    `bound`, which knows whether the profiler may be what makes it late.
    """
    from foretrace.readings import READINGS  # noqa: PLC0415 - this reading is in the list itself

    only = ("compiled",) if compiling(run).dominates else None
    for reading in READINGS:
        if reading.question == "first" or (only and reading.question not in only):
            continue
        said = answered(reading, run)
        if said is None or said.advice is None or (said.question == "idle" and said.advice.saves_ns is None):
            continue
        yield _Found(reading.question, said.advice)
    fused = None if only else _fused_optimizer(run)
    if fused is not None:
        yield _Found("kernels", fused)


def _fused_optimizer(run: Run) -> Advice | None:
    """One kernel for the optimizer's chain of list kernels, where torch.optim has such a kernel."""
    chain = [g for g in groups(run) if g.op and g.op.startswith("aten::_foreach_") and _optimizer(run, g)]
    if len(chain) < 2:  # noqa: PLR2004 - one kernel already
        return None
    name = _optimizer(run, chain[0]) or ""
    kernels, spent = round(sum(group.count for group in chain)), sum(group.mean_ns for group in chain)
    moved = _state_bytes(run, chain)
    bandwidth = run.device.memory_bytes_per_s if run.device else None
    floor = moved * _FUSED_OPTIMIZERS[name] / bandwidth * 1e9 if moved and bandwidth else None
    return Advice(
        f"Give torch.optim.{name} fused=True: one kernel instead of {kernels} that pass over the parameters and "
        "their state one after the other.",
        round(spent - floor) if floor is not None and floor < spent else None,
    )


def _optimizer(run: Run, group: Group) -> str | None:
    launch = int(run.activities.launch[group.activities[0]])
    for slice_ in run.ancestors(launch):
        match = _OPTIMIZER.match(run.name(slice_))
        if match and match[1] in _FUSED_OPTIMIZERS:
            return match[1]
    return None


def _state_bytes(run: Run, chain: Sequence[Group]) -> int | None:
    """Bytes of all parameters once: half of what the op moves that reads and writes one list, in all its kernels."""
    moved = costs(run).moved_bytes
    by_op: dict[str | None, int] = {}
    for group in chain:
        step = moved[list(group.per_step[0])]
        if (step > 0).all():
            by_op[group.op] = by_op.get(group.op, 0) + int(step.sum())
    return min(by_op.values()) // 2 if by_op else None


def _mfu(run: Run) -> str:
    """Model FLOPs utilisation: the matrix work of a step over what the peak would do in the step's time."""
    work = costs(run)
    matrix = [g for g in groups(run) if class_of(run, g.activities[0]) in MATRIX]
    kernels = np.array([k for g in matrix for k in g.activities], dtype=np.int64)
    timeless = (run.activities.end_ns == run.activities.start_ns)[kernels].any()
    if (
        run.device is None
        or not len(kernels)
        or timeless
        or (work.flops[kernels] < 0).any()
        or compiling(run).dominates
    ):
        return ""
    dtype = max(matrix, key=lambda g: work.of(g.activities[0]).flops or 0)
    kind = work.of(dtype.activities[0]).dtype
    peak = run.device.peak(kind) if kind else None
    if peak is None:
        return ""
    gpus = max(len(run.gpus), 1)
    flops = float(work.flops[kernels].sum()) / period_count(run)
    window = _step_ns(run)
    how = "without the profiler" if run.environment and run.environment.unprofiled.host_ns else "while profiled"
    done = flop_rate(flops, 1e9).removesuffix("/s")
    inferred = ", sizes inferred" if work.inferred[kernels].any() else ""
    used = flops / (peak * gpus * window / 1e9)
    peaks = f"the {kind} peak of {gpus} GPUs" if gpus > 1 else f"{kind}'s peak"
    wrong = " More than 100 % cannot be: the times or the shapes of this file are wrong." if used > 1 else ""
    return (
        f" Model FLOPs utilisation is {percent(used, 1)} {how}: {done} in "
        f"{duration(window)} {a_period(run)} against {peaks}{inferred}.{wrong}"
    )


def _row(run: Run, rank: int, found: _Found, busy: float) -> dict[str, Any]:
    share, whole = _share(run, found, busy)
    return {
        "rank": rank,
        "advice": found.advice.text,
        "saves_ns": found.advice.saves_ns,
        "share": share,
        "share_of": whole if share is not None else None,
        "question": found.question,
    }


READING = Reading("first", ASK, answer)
