"""What ran in one call, in the terms of a guess: the kernels and copies of a typical period of a run."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from foretrace import stats
from foretrace.ops import work
from foretrace.readings.autotuning import benchmarked
from foretrace.readings.costs import cost
from foretrace.readings.groups import periods
from foretrace.run import ROOT, Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from foretrace.names import Identity
    from foretrace.run import Run

    Ints = NDArray[np.int64]

_GRAPH = re.compile(r"Torch-Compiled Region: (\d+)/\d+")
_ADDS_BIAS = frozenset({"addmm", "_addmm_activation", "addmv"})
_NO_BIAS = frozenset({"mm", "bmm", "mv", "matmul"})


@dataclass(frozen=True, slots=True)
class Seen:
    """One kernel, copy or set that ran.

    Attributes:
        name, identity, kind: As in the run.
        op_class: The class that its name says, else that of its op; ``unknown`` when neither is known.
        op, module: Where it comes from, or ``None``.
        shapes: Sizes of its op's tensors, nested for lists, or ``None``.
        bias: Whether a GEMM adds a bias; ``None`` when nothing says so.
        dur_ns: Median over the periods that ran the same.
        floor_ns: The least time that the run's device needs for its work, or ``None``.
    """

    name: str
    identity: Identity
    kind: str
    op_class: str
    op: str | None
    module: str | None
    shapes: tuple[Any, ...] | None
    bias: bool | None
    dur_ns: float
    floor_ns: float | None


@dataclass(frozen=True, slots=True)
class Observation:
    """One call's worth of a run.

    Attributes:
        work: Kernels and copies, in the order of their launches.
        sets: Memory sets that an op with a kernel of its own asked for.
        graphs: Different compiled graphs that ran.
        alike: In how many of ``of`` periods exactly this ran.
        of: Periods of the run.
    """

    work: tuple[Seen, ...]
    sets: tuple[Seen, ...]
    graphs: int
    alike: int
    of: int

    @property
    def copies(self) -> int:
        """Copies by the copy engine among the work."""
        return sum(one.kind == "copy" for one in self.work)


def observe(run: Run) -> Observation:
    """What a typical period ran: the sequence of kernels that most steps share, the last one where all differ.

    Without steps the user's regions are the periods if they all have one name, else the whole trace is one.
    """
    found = [_launched(run, period) for period in _periods(run)]
    if not found:
        return Observation((), (), _graphs(run, None), 0, 0)
    names = [tuple(run.activities.kind[p].tolist()) + tuple(map(run.activity_name, p.tolist())) for p in found]
    common, alike = Counter(reversed(names)).most_common(1)[0]  # of equally common ones the later
    chosen = [period for period, name in zip(found, names, strict=True) if name == common]
    seen = [_seen(run, [int(kernel) for kernel in column]) for column in np.stack(chosen, axis=1)]
    helped = {one.op for one in seen if one.kind == "kernel"}
    sets = [one for one in seen if one.kind == "set" and one.op in helped]
    rest = [one for one in seen if one not in sets]
    return Observation(tuple(rest), tuple(sets), _graphs(run, chosen[-1]), alike, len(found))


def _periods(run: Run) -> tuple[Ints, ...]:
    """Activities of each step; else of each region where all regions have one name; else all of them."""
    regions = run.activities.region
    if any(len(step.activities) for step in run.steps) or not len(regions) or (regions == ROOT).any():
        return periods(run)
    slices = np.unique(regions)
    if len({run.name(int(region)) for region in slices}) > 1:
        return periods(run)
    return tuple(np.flatnonzero(regions == region) for region in slices)


def _launched(run: Run, period: Ints) -> Ints:
    """The period's own activities in the order of their launches, without an autotuner's trials."""
    own = period[~benchmarked(run)[period]]
    launch, starts = run.activities.launch[own], run.activities.start_ns[own]
    asked = np.where(launch != ROOT, run.host.start_ns[launch], starts) if len(run.host) else starts
    ordered: Ints = own[np.lexsort((starts, asked))]
    return ordered


def _seen(run: Run, activities: Sequence[int]) -> Seen:
    first = run.activity(activities[0])
    lengths = [int(run.activities.end_ns[a] - run.activities.start_ns[a]) for a in activities]
    done = work(first.op, None, None) if first.op else None
    named = first.identity.op_class
    return Seen(
        name=first.name,
        identity=first.identity,
        kind=first.kind,
        op_class=done.op_class if named in {"unknown", "other"} and done is not None else named,
        op=first.op,
        module=first.module,
        shapes=tensor_sizes(first.shapes),
        bias=_bias(first.identity, first.op),
        dur_ns=stats.median(lengths) or 0.0,
        floor_ns=cost(run, activities[0]).floor_ns,
    )


def tensor_sizes(shapes: Any) -> tuple[Any, ...] | None:  # noqa: ANN401 - as the file has them
    """Recorded sizes without those of scalars: ``[[8, 4], [], [[2], [3]]]`` → ``((8, 4), ((2,), (3,)))``."""
    if not isinstance(shapes, list | tuple):
        return None
    return tuple(_sizes(sizes) for sizes in shapes if isinstance(sizes, list | tuple) and sizes)


def _sizes(value: Any) -> Any:  # noqa: ANN401 - as the file has them
    return tuple(_sizes(item) for item in value) if isinstance(value, list | tuple) else value


def _bias(identity: Identity, op: str | None) -> bool | None:
    """Whether a GEMM adds a bias, by its name first and by its op where the name is silent."""
    if identity.epilogue is not None:
        return "bias" in identity.epilogue
    base = (op or "").removeprefix("aten::")
    return True if base in _ADDS_BIAS else False if base in _NO_BIAS else None


def _graphs(run: Run, period: Ints | None) -> int:
    """Different compiled graphs that were called within the period's time (anywhere without one)."""
    host = run.host
    codes = [code for code, name in enumerate(run.trace.tables.name) if name.startswith("Torch-Compiled Region")]
    called = np.isin(run.trace.columns.name[host.row], codes) & (host.kind == Kind.OPERATOR)
    if period is not None and len(period) and run.steps and run.activities.step[period[0]] >= 0:
        step = run.steps[int(run.activities.step[period[0]])]
        called &= (host.start_ns >= step.start_ns) & (host.start_ns < step.end_ns)
    matches = (_GRAPH.match(run.name(int(region))) for region in np.flatnonzero(called))
    return len({match[1] if match else "" for match in matches})
