"""The kernels of a run as a person counts them: the same launch in every step is one group with one time a step.

Steps that launch the same kernels in the same order are aligned by position, so that two GEMMs with one name stay two
rows (gate and up). Otherwise, and where a step has very many kernels, they are grouped by name, op and arguments.
An autotuner's trial runs are never in a group with the model's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from foretrace import stats
from foretrace.readings.autotuning import benchmarked
from foretrace.run import ROOT, Kind, Run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from foretrace.names import Identity

    Ints = NDArray[np.int64]

MOST_ALIGNED = 1_000
"""Kernels a step above which nobody reads them one by one: larger steps are grouped by kind of call."""


@dataclass(frozen=True, slots=True)
class Group:
    """One kernel of the step, over all steps.

    Attributes:
        name: The kernel's name in the file.
        identity: Its decoded name.
        op, module, region: Where it comes from, or ``None``.
        shapes, dtypes: The op's inputs as recorded, or ``None``.
        activities: Every activity of the group, period by period, in order of time.
        counts: How many of them each period has.
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
    counts: tuple[int, ...]
    durations_ns: tuple[int, ...]

    @property
    def per_step(self) -> tuple[tuple[int, ...], ...]:
        """The group's kernels in each period."""
        ends = accumulate(self.counts)
        return tuple(self.activities[end - n : end] for end, n in zip(ends, self.counts, strict=True))

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
        """Kernels per period: the median, or the mean where most periods have none."""
        return stats.median(self.counts) or stats.mean(self.counts) or 0.0


def periods(run: Run) -> tuple[Ints, ...]:
    """The activities of each step; of the whole trace, as one period, where there are no steps with activities."""
    steps = tuple(step.activities for step in run.steps if len(step.activities))
    return steps or ((np.arange(len(run.activities)),) if len(run.activities) else ())


def busy_in_periods_ns(run: Run) -> int:
    """GPU busy time of all `periods`: what shares of a step's work are taken of, as other work may lie outside."""
    return sum(run.busy_ns(period) for period in periods(run))


@lru_cache(maxsize=2)
def kernels_of_periods(run: Run) -> tuple[Ints, ...]:
    """The kernels of each of the `periods`."""
    kernel = run.activities.kind == Kind.KERNEL
    return tuple(period[kernel[period]] for period in periods(run))


@lru_cache(maxsize=2)
def groups(run: Run) -> tuple[Group, ...]:
    """Every kernel group of the run, in the order in which the first period launches them."""
    kernels = kernels_of_periods(run)
    if aligned(run, kernels) and len(kernels[0]) <= MOST_ALIGNED:
        ones = np.ones(len(kernels), dtype=np.int64)
        return tuple(_group(run, row, ones) for row in np.stack(kernels, axis=1))
    return keyed(run, kernels)


def keyed(run: Run, kernels: Sequence[Ints]) -> tuple[Group, ...]:
    """Groups by name, op and arguments, in order of first launch; ``kernels`` are those of each period."""
    every = np.concatenate([*kernels, np.empty(0, dtype=np.int64)]).astype(np.int64)
    if not len(every):
        return ()
    period = np.repeat(np.arange(len(kernels)), [len(k) for k in kernels])
    code = call_codes(run, every)
    _, first, code = np.unique(code, return_index=True, return_inverse=True)
    order = np.lexsort((every, period, code))
    every, period, code = every[order], period[order], code[order]
    bounds = np.flatnonzero(np.diff(code, prepend=-1, append=len(first)))
    spans = list(pairwise(bounds.tolist()))
    in_order = [slice(*spans[i]) for i in np.argsort(first, kind="stable").tolist()]
    return tuple(_group(run, every[some], np.bincount(period[some], minlength=len(kernels))) for some in in_order)


def aligned(run: Run, kernels: Sequence[Ints]) -> bool:
    """Whether every period launches the same kernels in the same order."""
    if not kernels:
        return False
    names = run.trace.columns.name[run.activities.row]
    first = names[kernels[0]]
    return all(np.array_equal(names[period], first) for period in kernels[1:])


def call_codes(run: Run, activities: Ints) -> Ints:
    """A number for each kind of call: kernel name, op, its arguments' shapes, types, strides; [len(activities)]."""
    columns, op = run.trace.columns, run.activities.op[activities]
    linked = op != ROOT
    rows = run.host.row[op[linked]]
    names, trials = columns.name[run.activities.row[activities]], benchmarked(run)[activities]
    codes = [names.astype(np.int64), trials.astype(np.int64)]
    for column in (columns.name, columns.dims, columns.types, columns.strides):
        values = np.full(len(activities), -1, dtype=np.int64)
        values[linked] = column[rows]
        codes.append(values)
    return fold(*codes)


def fold(*columns: Ints) -> Ints:
    """One number for each different row of equally long integer columns (values from −1 up), [n]."""
    code = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        width = int(column.max(initial=-1)) + 2
        code = np.unique(code * width + column + 1, return_inverse=True)[1]
    return code


def _group(run: Run, kernels: Ints, counts: Ints) -> Group:
    """The group of ``kernels``, of which each period has as many as ``counts`` says, in order of the periods."""
    first = run.activity(int(kernels.min()))
    lengths = run.activities.end_ns[kernels] - run.activities.start_ns[kernels]
    ends = np.cumsum(counts)
    sums = np.concatenate([[0], np.cumsum(lengths)])
    spent = sums[ends] - sums[ends - counts]
    return Group(
        name=first.name,
        identity=first.identity,
        op=first.op,
        module=first.module,
        region=first.region,
        shapes=first.shapes,
        dtypes=first.dtypes,
        activities=tuple(kernels.tolist()),
        counts=tuple(counts.tolist()),
        durations_ns=tuple(spent[counts > 0].tolist()),
    )
