"""The steps of a run that a comparison counts: without warm-up, without an autotuner's trial runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from foretrace import stats
from foretrace.readings.autotuning import benchmarked
from foretrace.readings.compiling import compiling
from foretrace.run import ROOT, Run, Step

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_COLD = 1.25
"""A first step whose GPU time is longer than this times every later one has done something else as well."""
_FEWEST_LEFT = 2


@dataclass(frozen=True, slots=True)
class Counted:
    """A run reduced to what is compared.

    Attributes:
        run: The run with only these steps, each with its own activities; one step over all where there are none.
        has_steps: Whether the trace is divided into steps.
        left_out: Names of the first steps that are not counted.
        why: Why they are not.
        trials: Kernels that an autotuner ran, in the whole trace.
        trial_ns: Their GPU time.
    """

    run: Run
    has_steps: bool
    left_out: tuple[str, ...]
    why: str | None
    trials: int
    trial_ns: int

    @property
    def busy_ns(self) -> tuple[int, ...]:
        """GPU busy time of each step: the union of its kernels, copies and sets."""
        return tuple(self.run.busy_ns(step.activities) for step in self.run.steps)

    @property
    def kernel_ns(self) -> tuple[int, ...]:
        """Sum of the kernels' durations in each step."""
        lengths = self.run.activities.end_ns - self.run.activities.start_ns
        return tuple(int(lengths[self.run.kernels(step.activities)].sum()) for step in self.run.steps)

    @property
    def wall_ns(self) -> tuple[int, ...]:
        """Wall time of each step."""
        return tuple(step.dur_ns for step in self.run.steps)


def counted(run: Run) -> Counted:
    """What of ``run`` is compared."""
    trial = benchmarked(run)
    steps = [replace(step, activities=step.activities[~trial[step.activities]]) for step in run.steps]
    has_steps = bool(steps)
    if not has_steps:
        steps = [_whole(run, np.flatnonzero(~trial))]
    cold, why = _warm_up(run, steps)
    lengths = run.activities.end_ns - run.activities.start_ns
    return Counted(
        run=replace(run, steps=tuple(steps[cold:])),
        has_steps=has_steps,
        left_out=tuple(step.name for step in steps[:cold]),
        why=why,
        trials=len(run.kernels(np.flatnonzero(trial))),
        trial_ns=int(lengths[run.kernels(np.flatnonzero(trial))].sum()),
    )


def _whole(run: Run, activities: NDArray[np.int64]) -> Step:
    """The trace as one step."""
    ends = (run.host.end_ns, run.activities.end_ns)
    return Step(
        "the whole trace", 0, ROOT, 0, max((int(end.max(initial=0)) for end in ends), default=0) + 1, activities
    )


def _warm_up(run: Run, steps: Sequence[Step]) -> tuple[int, str | None]:
    """How many of the first steps are warm-up, and what they did that the later ones do not."""
    most = len(steps) - _FEWEST_LEFT
    if most < 1:
        return 0, None
    seen = compiling(run)
    at = run.host.start_ns[[*seen.compiles, *seen.tunings]]
    compiled = [bool(((at >= step.start_ns) & (at < step.end_ns)).any()) for step in steps]
    cold = next((i for i, busy in enumerate(compiled) if not busy), len(steps))
    if 0 < cold <= most and not any(compiled[cold:]):
        return cold, "torch.compile was still at work"
    busy = [run.busy_ns(step.activities) for step in steps]
    usual = stats.median(busy[1:]) or 0
    if usual and busy[0] > _COLD * max(busy[1:]):
        return 1, f"its GPU time is {busy[0] / usual:.1f} times that of the later steps"
    return 0, None
