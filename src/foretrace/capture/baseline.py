"""The step before it is profiled: its first call, its warm-up, and its time without the profiler."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from foretrace.capture import accelerator, timing

if TYPE_CHECKING:
    from collections.abc import Generator

    import torch

    from foretrace.capture.progress import Progress
    from foretrace.capture.scopes import ModuleScopes
    from foretrace.capture.timing import Synchronize, Timing

WARM_CALLS = 3
"""Runs after the first and before any clock: CUDA graphs record in the second and replay from the third."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """What was measured before the profiler started.

    Attributes:
        first_call_ns: The first run: compilation, lazy initialisation and the run itself.
        compile_cache_hits: Graphs that Inductor took from its cache during the first run.
        unprofiled: The step's time; ``None`` when it was not asked for.
        scope_overhead_ns: What the modules' scopes add to it; ``None`` without scopes.
    """

    first_call_ns: int | None = None
    compile_cache_hits: int | None = None
    unprofiled: Timing | None = None
    scope_overhead_ns: int | None = None


UNKNOWN = Baseline()
"""Of a step that was profiled without one."""


def measure(
    device: torch.device,
    synchronize: Synchronize,
    *,
    timed: bool,
    scopes: ModuleScopes | None,
    progress: Progress,
) -> Generator[None, None, Baseline]:
    """Warm the step up and time it; the consumer runs the step once a value.

    Args:
        device: Where the step runs.
        synchronize: Waits for ``device``.
        timed: Whether to time it after the warm-up.
        scopes: Installed last and left installed, so that their cost is the difference of two timings.
        progress: Told what is being done.

    Returns:
        The measurements.
    """
    progress("first call", 0, 0)
    hits_before = _cache_hits()
    first_call_ns = yield from timing.one_call(synchronize)
    hits = _cache_hits() - hits_before
    warm: list[int] = []
    for done in range(WARM_CALLS):
        progress("warming up", done, WARM_CALLS)
        warm.append((yield from timing.one_call(synchronize)))
    accelerator.reset_peak_memory(device)
    if not timed:
        return Baseline(first_call_ns, hits)
    call_ns = min(warm)
    progress("timing without the profiler", 0, 0)
    blocks = yield from timing.host_blocks(call_ns, synchronize)
    device_samples = yield from timing.device_calls(call_ns, device)
    unprofiled = timing.summary(blocks, device_samples, call_ns)
    if scopes is None:
        return Baseline(first_call_ns, hits, unprofiled)
    progress("timing the module scopes", 0, 0)
    scopes.install()
    scoped = timing.summary((yield from timing.host_blocks(call_ns, synchronize)), (), call_ns)
    return Baseline(first_call_ns, hits, unprofiled, scoped.host_ns - unprofiled.host_ns)


def _cache_hits() -> int:
    dynamo = sys.modules.get("torch._dynamo.utils")  # absent until something is compiled
    return int(dynamo.counters["inductor"]["fxgraph_cache_hit"]) if dynamo else 0
