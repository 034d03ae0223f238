"""Times of a call on a CUDA device: its kernels', the whole call's, and inside a CUDA graph; microseconds.

``call(i)`` must use another set of buffers for consecutive ``i``, so that no call finds its data in a cache.
"""

from __future__ import annotations

import itertools
import random
import time
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_WARM_UP = 3
# enough to push everything out of any L2 built so far (60 MB on an H200)
_FLUSH_ELEMENTS = 64 << 20
# a few ms on an H200, in which the host queues ten calls; and half a second, in which it queues anything that it can
_SLEEP_CYCLES = 1 << 23
_MAX_SLEEP_CYCLES = 1 << 30


class _Kernel(NamedTuple):
    start_ns: int
    duration_ns: int
    name: str


class Launched(NamedTuple):
    """What one call ran on the device."""

    busy_us: float
    """The time in which a kernel, copy or set ran; it counts once where two overlap, as one that starts early does."""
    kernels: list[tuple[str, float]]
    """Each one's name and own time, µs, in order."""


def launched(calls: Sequence[Callable[[int], object]], repeats: int = 15) -> list[list[Launched]]:
    """For each of ``calls``, what ``repeats`` of it ran, the L2 flushed before each; read by the profiler.

    They take turns call by call, in another order each time: the clock of a GPU at its power limit falls while it
    works, and must favour none of them.
    """
    found = _profile(calls, repeats)
    return [[Launched(_busy(each) / 1000, [(k.name, k.duration_ns / 1000) for k in each]) for each in f] for f in found]


def kernel_names(call: Callable[[int], object]) -> list[str]:
    """The kernels, copies and sets of one call, in order."""
    return [name for name, _ in launched([call], 1)[0][0].kernels]


def _busy(kernels: list[_Kernel]) -> int:
    busy = end = 0
    for start, duration, _ in kernels:
        busy += max(0, start + duration - max(start, end))
        end = max(end, start + duration)
    return busy


def _profile(calls: Sequence[Callable[[int], object]], repeats: int) -> list[list[list[_Kernel]]]:
    """Each call's device activities, found between two one-element kernels that nothing else launches."""
    flush = torch.ones(_FLUSH_ELEMENTS, device="cuda")
    mark = torch.ones(1, device="cuda")
    for i, call in itertools.product(range(_WARM_UP), calls):
        mark.neg_()
        call(i)
    dice = random.Random(0)  # noqa: S311 - an order, so that nobody always follows the same one
    turns = [(i, which) for i in range(repeats) for which in dice.sample(range(len(calls)), len(calls))]
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for i, which in turns:
            # a read, so that no written line is left whose write-back would slow the call
            flush.amax()
            mark.neg_()
            calls[which](i)
            mark.neg_()
        torch.cuda.synchronize()
    assert profile.profiler is not None
    events = [e for e in profile.profiler.kineto_results.events() if "CUDA" in str(e.device_type())]
    between: list[list[_Kernel]] = [[]]
    for kernel in sorted(_Kernel(e.start_ns(), e.duration_ns(), e.name()) for e in events):
        if "neg_kernel" in kernel.name:
            between.append([])
        else:
            between[-1].append(kernel)
    found: list[list[list[_Kernel]]] = [[] for _ in calls]
    for (_, which), kernels in zip(turns, between[1::2], strict=True):
        found[which].append(kernels)
    return found


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


def middle(times: list[float]) -> float:
    """The median, rounded to what a profiler can tell."""
    return round(median(times), 2)
