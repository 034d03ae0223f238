"""The lines of a table of kernels: groups that look alike to a reader are one line where a step has many kernels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from foretrace import stats
from foretrace.readings.autotuning import benchmarked
from foretrace.readings.groups import Group, groups, periods

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from foretrace.names import Identity
    from foretrace.run import Run

MOST_LINES = 12
"""A table that still fits under its sentence; more groups than that are put together."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line: groups with one name, op and shapes.

    Attributes:
        groups: In order of their first launch.
        activities: Every kernel of the line.
        count: Kernels per period.
        total_ns: GPU time of all its kernels.
        mean_ns, median_ns: GPU time per period that has it.
    """

    groups: tuple[Group, ...]
    activities: tuple[int, ...]
    count: float
    total_ns: int
    mean_ns: float
    median_ns: float

    @classmethod
    def of(cls, groups: Sequence[Group]) -> Line:
        """The line of some groups that look alike."""
        return cls(
            groups=tuple(groups),
            activities=tuple(kernel for group in groups for kernel in group.activities),
            count=sum(group.count for group in groups),
            total_ns=sum(sum(group.durations_ns) for group in groups),
            mean_ns=sum(group.mean_ns for group in groups),
            median_ns=sum(group.median_ns for group in groups),
        )

    @property
    def identity(self) -> Identity:
        """The decoded name."""
        return self.groups[0].identity

    @property
    def op(self) -> str | None:
        """The op that launched."""
        return self.groups[0].op

    @property
    def spread(self) -> float | None:
        """(max − min) ÷ median over periods, for a line of one group."""
        return stats.spread(self.groups[0].durations_ns) if len(self.groups) == 1 else None


@lru_cache(maxsize=2)
def lines(run: Run) -> tuple[Line, ...]:
    """Every line of the run without the autotuner's trials: one a group, or one a look where there are many groups."""
    trials = benchmarked(run)
    own = [group for group in groups(run) if not trials[group.activities[0]]]
    if len(own) <= MOST_LINES:
        return tuple(Line.of([group]) for group in own)
    alike: dict[Hashable, list[Group]] = {}
    for group in own:
        alike.setdefault((group.identity.short, group.op, str(group.shapes)), []).append(group)
    return tuple(Line.of(some) for some in alike.values())


def longest(every: Sequence[Line], most: int = MOST_LINES) -> tuple[Line, ...]:
    """The lines that take the most time, in their own order; all of them when they are few."""
    if len(every) <= most:
        return tuple(every)
    kept = set(np.argsort([-line.total_ns for line in every], kind="stable")[:most].tolist())
    return tuple(line for i, line in enumerate(every) if i in kept)


def event(run: Run, activity: int) -> int:
    """Position of an activity in ``traceEvents``."""
    return int(run.trace.columns.index[run.activities.row[activity]])


def a_period(run: Run) -> str:
    """``a step``, or ``in this trace`` where no step launched anything: what a figure over `period_count` is per."""
    return "a step" if any(len(step.activities) for step in run.steps) else "in this trace"


def period_count(run: Run) -> int:
    """Over how many steps (or whole traces) a total is spread."""
    return max(len(periods(run)), 1)
