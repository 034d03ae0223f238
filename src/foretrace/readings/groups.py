"""The kernels of a run as a person counts them: the same launch in every step is one group with one time a step.

Steps that launch the same kernels in the same order are aligned by position, so that two GEMMs with one name stay two
rows (gate and up). Otherwise kernels are grouped by name, op, shapes and place in the dispatch chain.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from foretrace import stats
from foretrace.run import ROOT, Run

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

    from foretrace.names import Identity

    Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Group:
    """One kernel of the step, over all steps.

    Attributes:
        name: The kernel's name in the file.
        identity: Its decoded name.
        op, module, region: Where it comes from, or ``None``.
        shapes, dtypes: The op's inputs as recorded, or ``None``.
        activities: Every activity of the group, in order of time.
        per_step: The group's kernels in each period, as arrays of activities.
        durations_ns: GPU time of the group in each period that has it; the unit of spread.
    """

    name: str
    identity: Identity
    op: str | None
    module: str | None
    region: str | None
    shapes: Any
    dtypes: Any
    activities: tuple[int, ...]
    per_step: tuple[tuple[int, ...], ...]
    durations_ns: tuple[int, ...]

    @property
    def median_ns(self) -> float:
        """Median GPU time per period."""
        return stats.median(self.durations_ns) or 0.0

    @property
    def mean_ns(self) -> float:
        """Mean GPU time per period."""
        return stats.mean(self.durations_ns) or 0.0

    @property
    def count(self) -> float:
        """Kernels per period (median over the periods that have the group)."""
        return stats.median([len(s) for s in self.per_step if s]) or 0.0


def periods(run: Run) -> tuple[Ints, ...]:
    """The activities of each step; of the whole trace, as one period, where there are no steps with activities."""
    steps = tuple(step.activities for step in run.steps if len(step.activities))
    return steps or ((np.arange(len(run.activities)),) if len(run.activities) else ())


@lru_cache(maxsize=2)
def groups(run: Run) -> tuple[Group, ...]:
    """Every kernel group of the run, in the order in which the first period launches them."""
    kernels = [run.kernels(period) for period in periods(run)]
    if aligned(run, kernels):
        members: list[list[Sequence[int]]] = [[[int(k)] for k in row] for row in zip(*kernels, strict=True)]
        return tuple(_group(run, row) for row in members)
    keyed: dict[Hashable, list[list[int]]] = {}
    for position, period in enumerate(kernels):
        for kernel in period.tolist():
            slots = keyed.setdefault(_key(run, kernel), [[] for _ in kernels])
            slots[position].append(kernel)
    return tuple(_group(run, slots) for slots in keyed.values())


def aligned(run: Run, kernels: Sequence[Ints]) -> bool:
    """Whether every period launches the same kernels in the same order."""
    if not kernels:
        return False
    names = run.trace.columns.name[run.activities.row]
    first = names[kernels[0]]
    return all(np.array_equal(names[period], first) for period in kernels[1:])


def _key(run: Run, kernel: int) -> Hashable:
    activities, columns = run.activities, run.trace.columns
    op, row = int(activities.op[kernel]), int(activities.row[kernel])
    name = int(columns.name[row])
    if op == ROOT:
        return (name,)
    op_row = int(run.host.row[op])
    return (name, int(columns.name[op_row]), int(columns.dims[op_row]), int(activities.module[kernel]) == ROOT)


def _group(run: Run, per_step: Sequence[Sequence[int]]) -> Group:
    every = sorted(kernel for step in per_step for kernel in step)
    first = run.activity(every[0])
    lengths = run.activities.end_ns - run.activities.start_ns
    return Group(
        name=first.name,
        identity=first.identity,
        op=first.op,
        module=first.module,
        region=first.region,
        shapes=first.shapes,
        dtypes=first.dtypes,
        activities=tuple(every),
        per_step=tuple(tuple(step) for step in per_step),
        durations_ns=tuple(int(lengths[list(step)].sum()) for step in per_step if step),
    )
