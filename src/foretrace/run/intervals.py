"""Interval arithmetic over integer nanoseconds; every array has shape [n] and needs no order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]


def merge(start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """The union as disjoint intervals in order of time; touching intervals become one."""
    if len(start) == 0:
        return start, end
    order = np.argsort(start, kind="stable")
    start, end = start[order], end[order]
    reach = np.maximum.accumulate(end)
    opens = np.concatenate([[True], start[1:] > reach[:-1]])
    first = np.flatnonzero(opens)
    last = np.append(first[1:], len(start)) - 1
    return start[first], reach[last]


def union_ns(start: Ints, end: Ints) -> int:
    """Length of the union."""
    merged_start, merged_end = merge(start, end)
    return int((merged_end - merged_start).sum())


def gaps(start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """The holes between the first start and the last end."""
    merged_start, merged_end = merge(start, end)
    return merged_end[:-1], merged_start[1:]


def clip(start: Ints, end: Ints, low: int, high: int) -> tuple[Ints, Ints]:
    """The parts inside [low, high); intervals outside are dropped."""
    start, end = np.maximum(start, low), np.minimum(end, high)
    inside = start < end
    return start[inside], end[inside]


def covered_each_ns(start: Ints, end: Ints, cover: tuple[Ints, Ints]) -> Ints:
    """How much of each interval lies inside the union of ``cover``, [n]."""
    first, after = merge(*cover)
    before = np.concatenate([[0], np.cumsum(after - first)])

    def until(times: Ints) -> Ints:
        at = np.searchsorted(first, times, side="right")
        inside = np.minimum(times - first[at - 1], (after - first)[at - 1]) if len(first) else np.zeros_like(times)
        return np.where(at > 0, before[at - 1] + inside, 0)

    found: Ints = until(end) - until(start)
    return found


def covered_ns(points: tuple[Ints, Ints], cover: tuple[Ints, Ints]) -> int:
    """How much of the union of ``points`` lies inside the union of ``cover``."""
    union = union_ns(*points) + union_ns(*cover)
    both = union_ns(np.concatenate([points[0], cover[0]]), np.concatenate([points[1], cover[1]]))
    return union - both
