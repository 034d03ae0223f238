"""Which annotations are the user's regions, and which region a launch belongs to."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from foretrace.run.model import MODULE_PREFIX
from foretrace.run.ranks import distinct
from foretrace.run.tree import ROOT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from foretrace.run.model import Host
    from foretrace.trace import Trace

    Ints = NDArray[np.int64]

# annotations that PyTorch writes itself: steps, modules, optimizers, wrappers, collectives, compiled calls and phases
_TORCH_OWN = re.compile(
    r"ProfilerStep#\d+$|nn\.Module: |Optimizer\.|DistributedDataParallel\.|FSDP::|FullyShardedDataParallel\."
    r"|nccl:|gloo:|c10d::|record_param_comms|## Call CompiledF|Torch-Compiled Region|TorchDynamo |Pregraph bytecode"
    r"|AOTDispatcher |CompiledFunction|enumerate\(DataLoader\)|Iteration Start|PyTorch Profiler"
    r"|.*_data: (compile_id|fn_name|kernel_name)="
)


def user_names(trace: Trace) -> list[int]:
    """Codes of the annotation names that are regions of the user's own."""
    return [i for i, name in enumerate(trace.tables.name) if not _TORCH_OWN.match(name)]


def module_names(trace: Trace) -> list[int]:
    """Codes of the names that are scopes of an ``nn.Module``."""
    return [i for i, name in enumerate(trace.tables.name) if name.startswith(MODULE_PREFIX)]


def of_launches(host: Host, launch: Ints, step_slices: Sequence[int]) -> Ints:
    """The region slice of each launch: around it on its thread, else around it in time on a thread with steps.

    Backward launches run on autograd's thread, outside every annotation of the thread that asked for them.
    """
    if not len(host):
        return np.full(len(launch), ROOT, dtype=np.int64)
    region = np.where(launch != ROOT, host.region[launch], ROOT)
    elsewhere = np.flatnonzero((region == ROOT) & (launch != ROOT))
    scopes = np.array(distinct(host.region[host.region != ROOT]), dtype=np.int64)
    scopes = scopes[np.isin(host.thread[scopes], host.thread[list(step_slices)])]
    if len(elsewhere) and len(scopes):
        region[elsewhere] = _around(host, scopes, host.start_ns[launch[elsewhere]])
    return region


def _around(host: Host, scopes: Ints, at: Ints) -> Ints:
    """The innermost of ``scopes`` (of one thread, well nested) that contains each time, or `ROOT`."""
    scopes = scopes[np.argsort(host.start_ns[scopes], kind="stable")]
    last = np.searchsorted(host.start_ns[scopes], at, side="right") - 1
    found = np.where(last >= 0, scopes[last], ROOT)
    while True:  # whatever has ended by then gives way to the scope around it
        ended = (found != ROOT) & (host.end_ns[found] <= at)
        if not ended.any():
            return found
        outer = host.parent[found[ended]]
        found[ended] = np.where(outer != ROOT, host.region[outer], ROOT)
