"""Nesting of host slices: for every slice its parent on the same thread, with children kept inside parents."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

ROOT = -1
"""The parent of a slice that no other slice of its thread encloses."""


def nest(
    thread: Ints, start: Ints, end: Ints, *, frame: NDArray[np.bool_], annotation: NDArray[np.bool_]
) -> tuple[Ints, Ints]:
    """Parents and corrected ends of slices sorted by (thread, start, −end), each [n].

    A slice belongs to the innermost slice of its thread that has begun and not ended when it begins. One that outlives
    its parent (public traces have them) is cut at the parent's end, so that self times are never negative. Except: an
    annotation is opened inside a Python frame (``record_function.__enter__``, ``Profiler.step``) that returns at once;
    there the frame is cut where the annotation begins.
    """
    parents = np.full(len(start), ROOT, dtype=np.int64)
    ends = end.copy()
    stack: list[int] = []
    stack_ends: list[int] = []
    current = None
    is_frame = frame.tolist()
    slices = zip(thread.tolist(), start.tolist(), end.tolist(), annotation.tolist(), strict=True)
    for i, (t, s, e, opens) in enumerate(slices):
        if t != current:
            current = t
            stack.clear()
            stack_ends.clear()
        while stack and stack_ends[-1] <= s:
            stack.pop()
            stack_ends.pop()
        while opens and stack and stack_ends[-1] < e and is_frame[stack[-1]]:
            ends[stack.pop()] = s
            stack_ends.pop()
        if stack:
            parents[i] = stack[-1]
            if e > stack_ends[-1]:
                e = stack_ends[-1]  # noqa: PLW2901 - the cut end is what the children see
                ends[i] = e
        stack.append(i)
        stack_ends.append(e)
    return parents, ends


def self_times(parents: Ints, start: Ints, end: Ints) -> Ints:
    """Duration less the durations of direct children, [n]; children lie inside and do not overlap."""
    own = end - start
    has_parent = parents != ROOT
    children = np.bincount(parents[has_parent], weights=own[has_parent], minlength=len(own))
    return own - children.astype(np.int64)


def nearest(parents: Ints, wanted: NDArray[np.bool_]) -> Ints:
    """For every slice the innermost ancestor-or-self in ``wanted``, or `ROOT`; parents come before children."""
    found = np.where(wanted, np.arange(len(parents)), ROOT)
    pending = np.flatnonzero((found == ROOT) & (parents != ROOT))
    up = parents.copy()
    while len(pending):
        above = up[pending]
        hit = found[above] != ROOT
        found[pending[hit]] = found[above[hit]]
        pending, above = pending[~hit], above[~hit]
        up[pending] = up[above]
        pending = pending[up[pending] != ROOT]
    return found
