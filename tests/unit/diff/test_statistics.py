"""The verdict: when it is given, when it is withheld, and that it mirrors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretrace.diff.statistics import compare

TIMES = st.lists(st.integers(min_value=500, max_value=5_000_000), min_size=1, max_size=12)


def test_three_steps_that_lie_apart_by_more_than_the_floor_are_a_verdict() -> None:
    """Three steps a side suffice where all of one are beyond all of the other by more than 2 %: 98/95 is 3.2 %."""
    found = compare([100, 99, 98], [95, 94, 93])
    assert found.verdict == "faster"
    assert found.ratio == pytest.approx(94 / 99)


def test_three_steps_nearer_than_the_floor_are_inconclusive() -> None:
    """All of one side are beyond all of the other, but 98/97 is only 1 %: no verdict below five steps."""
    assert compare([100, 99, 98], [97, 96, 95]).verdict == "inconclusive"


def test_one_overlapping_step_of_three_withholds_the_verdict() -> None:
    """A median 10 % higher does not count where one of three steps is as quick as the others' slowest."""
    assert compare([100, 100, 100], [110, 110, 100]).verdict == "inconclusive"


def test_a_single_step_is_no_verdict() -> None:
    """One step has no spread, so even double the time says nothing."""
    assert compare([100], [200, 200, 200]).verdict == "inconclusive"


def test_five_steps_need_no_complete_separation() -> None:
    """With seven steps a side one slow outlier on the quick side does not hide a change of 10 %."""
    before = [100, 101, 99, 100, 100, 99, 115]
    assert compare(before, [110, 111, 109, 110, 110, 109, 110]).verdict == "slower"


def test_a_change_inside_the_floor_is_inconclusive_however_many_steps() -> None:
    """A steady 1 % over 50 steps is what two runs of the same thing differ by."""
    assert compare([1000] * 50, [1010] * 50).verdict == "inconclusive"


def test_a_measured_floor_replaces_the_default() -> None:
    """The same 1 % is a verdict where runs were measured to differ by 0.2 %."""
    assert compare([1000] * 50, [1010] * 50, floor=0.002).verdict == "slower"


def test_nothing_to_divide_by_is_unknown() -> None:
    """Without time on one side there is no ratio, no interval and no verdict."""
    found = compare([0, 0, 0], [5, 5, 5])
    assert (found.ratio, found.interval, found.verdict) == (None, None, "inconclusive")
    assert compare([], [5]).before_ns is None


def test_the_interval_is_the_same_every_time() -> None:
    """Resampling is seeded: two calls give the same interval, and it holds the ratio."""
    one, other = compare([100, 105, 110, 95, 100], [120, 125, 118, 130, 121]), None
    other = compare([100, 105, 110, 95, 100], [120, 125, 118, 130, 121])
    assert one == other
    assert one.interval is not None
    assert one.interval[0] <= 1.21 <= one.interval[1]


@given(TIMES, TIMES)
def test_exchanging_the_sides_mirrors_everything(before: list[int], after: list[int]) -> None:
    """Verdict, ratio and interval of (a, b) are those of (b, a) turned over."""
    there, back = compare(before, after), compare(after, before).mirrored()
    assert there.verdict == back.verdict
    assert there.ratio == pytest.approx(back.ratio)
    assert there.interval == pytest.approx(back.interval)


@given(TIMES)
def test_steps_against_themselves_are_inconclusive(times: list[int]) -> None:
    """The ratio is 1 and there is no verdict, whatever the steps."""
    found = compare(times, times)
    assert (found.ratio, found.verdict) == (1.0, "inconclusive")
