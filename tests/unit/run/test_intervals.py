"""Interval arithmetic against counting every nanosecond."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from foretrace.run.intervals import clip, covered_each_ns, covered_ns, gaps, merge, union_ns

interval = st.tuples(st.integers(0, 60), st.integers(0, 25)).map(lambda pair: (pair[0], pair[0] + pair[1]))
intervals = st.lists(interval, max_size=12)

Pairs = list[tuple[int, int]]


def arrays(pairs: Pairs) -> tuple[np.ndarray, np.ndarray]:
    """Starts and ends as the functions take them."""
    table = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def points(pairs: Pairs) -> set[int]:
    """Every nanosecond inside one of the intervals."""
    return {point for start, end in pairs for point in range(start, end)}


def listed(starts: np.ndarray, ends: np.ndarray) -> Pairs:
    """Arrays as pairs."""
    return list(zip(starts.tolist(), ends.tolist(), strict=True))


@given(intervals)
def test_the_union_counts_each_nanosecond_once(pairs: Pairs) -> None:
    """Whatever overlaps, repeats or is empty."""
    assert union_ns(*arrays(pairs)) == len(points(pairs))


@given(intervals)
def test_merged_intervals_are_apart_in_order_and_cover_the_same(pairs: Pairs) -> None:
    """Disjoint, not touching, and the same nanoseconds."""
    merged = listed(*merge(*arrays(pairs)))
    assert points(merged) == points(pairs)
    assert all(end < start for (_, end), (start, _) in itertools.pairwise(merged))


@given(intervals)
def test_gaps_are_what_no_interval_covers_in_between(pairs: Pairs) -> None:
    """Between the first start and the last end."""
    holes = points(listed(*gaps(*arrays(pairs))))
    span = set(range(min(s for s, _ in pairs), max(e for _, e in pairs))) if pairs else set()
    assert holes == span - points(pairs)


@given(intervals, st.integers(0, 80), st.integers(0, 80))
def test_clipping_keeps_what_lies_inside(pairs: Pairs, low: int, high: int) -> None:
    """No empty interval is left."""
    inside = listed(*clip(*arrays(pairs), low, high))
    assert points(inside) == {point for point in points(pairs) if low <= point < high}
    assert all(start < end for start, end in inside)


@given(intervals, intervals)
def test_cover_is_the_common_part(some: Pairs, others: Pairs) -> None:
    """Nanoseconds in both unions."""
    assert covered_ns(arrays(some), arrays(others)) == len(points(some) & points(others))


@given(intervals, intervals)
def test_the_part_of_each_that_is_covered(some: Pairs, others: Pairs) -> None:
    """One by one, though they overlap, in any order."""
    found = covered_each_ns(*arrays(some), arrays(others))
    assert found.tolist() == [len(points([one]) & points(others)) for one in some]
