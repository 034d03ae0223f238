"""Times of a call for ``fused_mlp.py``: the whole call's, inside a CUDA graph, and the memory that it holds.

``call(i)`` must use another set of buffers for consecutive ``i``, so that no call finds its data in a cache.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

_WARM_UP = 3
# a few ms on an H200, in which the host queues ten calls; and half a second, in which it queues anything that it can
_SLEEP_CYCLES = 1 << 23
_MAX_SLEEP_CYCLES = 1 << 30


def call_times(call: Callable[[int], object], repeats: int = 15, inner: int = 10) -> list[float]:
    """Wall time a call, µs: ``inner`` calls in a row, then one synchronize; the host's share is in it."""
    times = []
    for i in range(_WARM_UP):
        call(i)
    for _ in range(repeats):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for i in range(inner):
            call(i)
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) / inner * 1e6)
    return times


def graph_times(call: Callable[[int], object], repeats: int = 15, inner: int = 10) -> list[float]:
    """Time a call inside one CUDA graph of ``inner`` calls, µs: kernels and the gaps between them, no host."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    with torch.cuda.stream(stream):
        for i in range(_WARM_UP):
            call(i)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(inner):
            call(i)
    graph.replay()
    times = []
    for _ in range(repeats):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record()
        graph.replay()
        stop.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(stop) / inner * 1000)
    return times


def burst_times(call: Callable[[int], object], repeats: int = 15, inner: int = 10) -> list[float]:
    """``graph_times`` for a call that is a CUDA graph itself and cannot be captured: GPU time a call, µs, no host.

    The host queues ``inner`` calls while the GPU sleeps; events give the time from the start of the first to the end of
    the last. What lies between two calls counts, so also the gap between two graphs.

    Raises:
        RuntimeError: The GPU woke before the last call was queued, however long it slept: a call waits for the GPU.
    """
    for i in range(_WARM_UP):
        call(i)
    times: list[float] = []
    cycles = _SLEEP_CYCLES
    while len(times) < repeats:
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()
        torch.cuda._sleep(cycles)  # type: ignore[no-untyped-call] # noqa: SLF001 - as PyTorch's own tests delay a stream
        start.record()
        for i in range(inner):
            call(i)
        stop.record()
        asleep = not start.query()  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()
        if asleep:
            times.append(start.elapsed_time(stop) / inner * 1000)
        elif cycles < _MAX_SLEEP_CYCLES:
            cycles *= 2
        else:
            raise RuntimeError(f"the host did not queue {inner} calls ahead of a GPU that slept {cycles} cycles")
    return times


def peak_bytes(call: Callable[[int], object], forget: Callable[[], object]) -> int:
    """The most memory that a call holds beyond what was left when ``forget`` had dropped the last one's results."""
    call(0)
    forget()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    call(0)
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before
