"""What the road's claims are held against: names and counts of one step, read off a run."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from foretrace import stats
from foretrace.run import ROOT, Kind

if TYPE_CHECKING:
    from foretrace.names import Identity
    from foretrace.run import Run, Step


@dataclass(frozen=True, slots=True)
class Launched:
    """One kernel of the step and how it came to be.

    Attributes:
        name: As in the file.
        identity: Its decoded name.
        op: The operator that launched it.
        call: The runtime or driver call.
        queries: Whether its operator asked for occupancy first.
        memsets: Sets that the operator launched before it.
    """

    name: str
    identity: Identity
    op: str | None
    call: str | None
    queries: bool
    memsets: int

    @property
    def is_gemm(self) -> bool:
        """Whether it multiplies matrices."""
        return self.identity.op_class == "gemm"


@dataclass(frozen=True, slots=True)
class Facts:
    """One rung's run, in the terms of the articles.

    Attributes:
        on_gpu: Whether the trace has a GPU at all; kernels are empty without.
        kernels: Kernels of the last step, in order.
        per_step: Number of kernels in each step.
        ops: CPU operators of the last step and how often each ran.
        memsets: Device sets in the last step.
        gpu_ns: Median GPU busy time of a step, ``None`` without a GPU.
        cpu_ns: Median time of the step's region on the host.
    """

    on_gpu: bool
    kernels: tuple[Launched, ...]
    per_step: tuple[int, ...]
    ops: Counter[str]
    memsets: int
    gpu_ns: float | None
    cpu_ns: float | None


def facts_of(run: Run) -> Facts:
    """Read the facts off a run with steps; the last step counts, the one farthest from any first use."""
    step = run.steps[-1]
    on_gpu = len(run.activities) > 0
    return Facts(
        on_gpu=on_gpu,
        kernels=tuple(_launched(run, int(kernel)) for kernel in run.kernels(step.activities)),
        per_step=tuple(len(run.kernels(s.activities)) for s in run.steps),
        ops=_ops(run, step),
        memsets=int((run.activities.kind[step.activities] == Kind.SET).sum()),
        gpu_ns=stats.median([run.busy_ns(s.activities) for s in run.steps]) if on_gpu else None,
        cpu_ns=stats.median(_region_times(run)),
    )


def _launched(run: Run, kernel: int) -> Launched:
    activity = run.activity(kernel)
    op = int(run.activities.op[kernel])
    inside = _below(run, op)
    kinds = run.activities.kind[np.isin(run.activities.launch, inside)]
    return Launched(
        name=activity.name,
        identity=activity.identity,
        op=activity.op,
        call=activity.launch,
        queries=any("Occupancy" in run.name(s) for s in inside if run.host.kind[s] == Kind.LAUNCH),
        memsets=int((kinds == Kind.SET).sum()) if not activity.graph else 0,
    )


def _below(run: Run, op: int) -> list[int]:
    """The slices whose innermost operator is ``op``."""
    return np.flatnonzero(run.host.op == op).tolist() if op != ROOT else []


def _ops(run: Run, step: Step) -> Counter[str]:
    host = run.host
    inside = (host.start_ns >= step.start_ns) & (host.start_ns < step.end_ns) & (host.kind == Kind.OPERATOR)
    return Counter(run.name(s) for s in np.flatnonzero(inside).tolist())


def _region_times(run: Run) -> list[int]:
    """Length of the outermost user region in each step, or of the step where it has none."""
    host, times = run.host, []
    for step in run.steps:
        inside = (host.start_ns >= step.start_ns) & (host.end_ns <= step.end_ns)
        regions = np.flatnonzero(inside & (host.region == np.arange(len(host))))
        lengths = host.end_ns[regions] - host.start_ns[regions]
        times.append(int(lengths.max()) if len(lengths) else step.dur_ns)
    return times
