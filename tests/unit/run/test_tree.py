"""Nesting of slices that nest, and of slices that do not."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from foretrace.run.tree import ROOT, nearest, nest, self_times

Slice = tuple[int, int, int, bool, bool]
"""Thread, start, length, whether it is a frame, whether it is an annotation."""

slices = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 40), st.integers(0, 30), st.booleans(), st.booleans()), max_size=25
)


def nested(given_slices: list[Slice]) -> tuple[np.ndarray, ...]:
    """Threads, starts, corrected ends and parents, in the order of `nest`."""
    ordered = sorted(given_slices, key=lambda s: (s[0], s[1], -s[2]))
    thread, start, length = (np.array([s[i] for s in ordered], dtype=np.int64) for i in range(3))
    frame, annotation = (np.array([s[i] for s in ordered], dtype=np.bool_) for i in (3, 4))
    parents, ends = nest(thread, start, start + length, frame=frame, annotation=annotation & ~frame)
    return thread, start, ends, parents


@given(slices)
def test_children_lie_inside_their_parents(given_slices: list[Slice]) -> None:
    """Any slices, nested or overlapping: parents come first, on the same thread, and hold their children whole."""
    thread, start, ends, parents = nested(given_slices)
    for child in np.flatnonzero(parents != ROOT):
        parent = parents[child]
        assert parent < child
        assert thread[parent] == thread[child]
        assert start[parent] <= start[child] <= ends[child] <= ends[parent]


@given(slices)
def test_siblings_do_not_overlap(given_slices: list[Slice]) -> None:
    """On one thread, no nanosecond belongs to two children of one parent, or to two roots."""
    thread, start, ends, parents = nested(given_slices)
    seen: set[tuple[int, int, int]] = set()
    for i in range(len(start)):
        own = {(int(thread[i]), int(parents[i]), point) for point in range(start[i], ends[i])}
        assert not own & seen
        seen |= own


@given(slices)
def test_self_times_are_whole_and_never_negative(given_slices: list[Slice]) -> None:
    """They add up to the time of the roots."""
    _, start, ends, parents = nested(given_slices)
    own = self_times(parents, start, ends)
    assert (own >= 0).all()
    assert own.sum() == (ends - start)[parents == ROOT].sum()


@given(slices)
def test_ends_only_move_back(given_slices: list[Slice]) -> None:
    """A cut slice is shorter than the file says, never longer."""
    ordered = sorted(given_slices, key=lambda s: (s[0], s[1], -s[2]))
    _, start, ends, _ = nested(given_slices)
    assert (ends <= np.array([s[1] + s[2] for s in ordered], dtype=np.int64)).all()
    assert (ends >= start).all()


@given(slices, st.data())
def test_nearest_is_the_first_wanted_on_the_way_up(given_slices: list[Slice], data: st.DataObject) -> None:
    """As walking up from every slice finds it."""
    *_, parents = nested(given_slices)
    wanted = np.array(data.draw(st.lists(st.booleans(), min_size=len(parents), max_size=len(parents))), dtype=np.bool_)
    for slice_, found in enumerate(nearest(parents, wanted).tolist()):
        walk = slice_
        while walk != ROOT and not wanted[walk]:
            walk = int(parents[walk])
        assert found == walk


def test_a_frame_that_opens_an_annotation_ends_where_it_begins() -> None:
    """`record_function.__enter__` returns at once: the annotation is no child cut short by it."""
    frame_then_annotation = [(0, 0, 10, True, False), (0, 8, 50, False, True)]
    _, _, ends, parents = nested(frame_then_annotation)
    assert (ends.tolist(), parents.tolist()) == ([8, 58], [ROOT, ROOT])


@given(slices)
def test_the_quick_way_and_a_stack_agree(given_slices: list[Slice]) -> None:
    """Without annotations, parents and ends are those of a stack, thread by thread, nested well or not."""
    plain = [(thread, start, length, False, False) for thread, start, length, _, _ in given_slices]
    thread, start, ends, parents = nested(plain)
    wanted = np.array([s[1] + s[2] for s in sorted(plain, key=lambda s: (s[0], s[1], -s[2]))], dtype=np.int64)
    expected_parents: list[int] = []
    expected_ends: list[int] = []
    stack: list[int] = []
    for i in range(len(start)):
        while stack and (thread[stack[-1]] != thread[i] or expected_ends[stack[-1]] <= start[i]):
            stack.pop()
        expected_parents.append(stack[-1] if stack else ROOT)
        expected_ends.append(min(int(wanted[i]), expected_ends[stack[-1]]) if stack else int(wanted[i]))
        stack.append(i)
    assert parents.tolist() == expected_parents
    assert ends.tolist() == expected_ends
