"""What calls run on a CUDA device, and for how long, microseconds.

Each ``call(i)`` must use another set of buffers for consecutive ``i``, so that no call finds its data in a cache.
"""

from __future__ import annotations

import itertools
import random
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_WARM_UP = 3
# enough to push everything out of any L2 built so far (60 MB on an H200)
_FLUSH_ELEMENTS = 64 << 20
# 0.13 ms on an H200: with the flush enough for a host under the profiler to queue a call's kernels before they run, so
# that a kernel that starts ahead of its predecessor's end can do so on a slow host too
_AHEAD_CYCLES = 1 << 18


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
            torch.cuda._sleep(_AHEAD_CYCLES)  # type: ignore[no-untyped-call] # noqa: SLF001 - as PyTorch's own tests
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


def middle(times: list[float]) -> float:
    """The median, rounded to what a profiler can tell."""
    return round(median(times), 2)
