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
    parents, ends = _well_nested(thread, start, end), end.copy()
    outlives = (parents != ROOT) & (end > end[parents])
    for odd in np.unique(thread[outlives]).tolist():
        first, last = np.searchsorted(thread, [odd, odd + 1])
        part = slice(first, last)
        found, cut = _walk(start[part], end[part], frame[part], annotation[part])
        parents[part] = np.where(found != ROOT, found + first, ROOT)
        ends[part] = cut
    return parents, ends


def _well_nested(thread: Ints, start: Ints, end: Ints) -> Ints:
    """Parents where no slice outlives its parent; elsewhere the first slice of a thread that does gets that parent.

    The slices that have begun and not ended when one begins are its ancestors, so their number is its depth; its parent
    is the last slice before it that is one level up. A walk with a stack takes 0.5 s for 400,000 slices, this 0.1 s.
    """
    order = np.arange(len(start))
    lane = np.cumsum(np.diff(thread, prepend=thread[:1]) != 0)
    span = int(end.max(initial=0) - start.min(initial=0)) + 1
    begins, finishes = start + lane * span, end + lane * span  # one thread after the other: no two overlap
    over = np.searchsorted(np.sort(finishes), begins, side="right")
    # slices of no length end where they begin: those not yet begun, itself among them, are not over
    empty = np.concatenate([[0], np.cumsum(finishes == begins)])
    over -= empty[np.searchsorted(begins, begins, side="right")] - empty[order]
    depth = order - over
    parents = np.full(len(start), ROOT, dtype=np.int64)
    above = np.flatnonzero(depth == 0)
    for level in range(1, int(depth.max(initial=0)) + 1):
        here = np.flatnonzero(depth == level)
        parents[here] = above[np.searchsorted(above, here) - 1]
        above = here
    return parents


def _walk(start: Ints, end: Ints, frame: NDArray[np.bool_], annotation: NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """Parents and corrected ends of one thread's slices, by a stack."""
    parents = np.full(len(start), ROOT, dtype=np.int64)
    ends = end.copy()
    stack: list[int] = []
    stack_ends: list[int] = []
    is_frame = frame.tolist()
    slices = zip(start.tolist(), end.tolist(), annotation.tolist(), strict=True)
    for i, (s, e, opens) in enumerate(slices):
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
