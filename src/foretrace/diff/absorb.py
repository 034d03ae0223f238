"""Several kernels that became one: by the ops that the one lists, by what its epilogue holds, or by order alone."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from foretrace.diff.rows import Row

_SILENT = frozenset({"unknown", "other"})
_REACH = 2
"""Matched kernels that may lie between a kernel and the one that took it in."""


@dataclass(frozen=True, slots=True)
class Place:
    """What is known so far of two sequences of rows; positions everywhere.

    Attributes:
        before, after: The rows.
        pairs: One to one, before → after.
        into_after: Rows of ``before`` taken in by a row of ``after``, by that row.
        into_before: The same the other way round.
        inferred: Rows of (before, after) that took others in by order alone.
    """

    before: Sequence[Row]
    after: Sequence[Row]
    pairs: Mapping[int, int]
    into_after: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    into_before: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    inferred: tuple[frozenset[int], frozenset[int]] = (frozenset(), frozenset())

    def mirrored(self) -> Place:
        """The same with the sides exchanged."""
        pairs = {j: i for i, j in self.pairs.items()}
        return Place(self.after, self.before, pairs, self.into_before, self.into_after, self.inferred[::-1])

    def with_pairs(self, more: Mapping[int, int]) -> Place:
        """The same with more pairs."""
        return replace(self, pairs={**self.pairs, **more})

    def unmatched(self) -> tuple[list[int], list[int]]:
        """Rows of both sides that have no part in anything yet."""
        one = set(self.pairs) | set(self.into_before) | {i for rows in self.into_after.values() for i in rows}
        other = (
            set(self.pairs.values()) | set(self.into_after) | {j for rows in self.into_before.values() for j in rows}
        )
        return (
            [i for i in range(len(self.before)) if i not in one],
            [j for j in range(len(self.after)) if j not in other],
        )

    def expected(self, i: int) -> float:
        """Where in ``after`` a row of ``before`` would be: just behind the match of its nearest paired forerunner."""
        anchors = sorted(self.pairs)
        at = bisect_left(anchors, i)
        return self.pairs[anchors[at - 1]] + 0.5 if at else -0.5

    def absorbing(self, taken: Mapping[int, Iterable[int]], *, inferred: bool) -> Place:
        """The same with ``taken``: row of after → rows of before."""
        into = {j: tuple(rows) for j, rows in taken.items() if rows}
        marked = self.inferred[1] | (set(into) if inferred else set())
        return replace(self, into_after={**self.into_after, **into}, inferred=(self.inferred[0], frozenset(marked)))


def by_name(place: Place) -> Place:
    """Rows of ``before`` whose op is listed in the name of a generated kernel of ``after``, the nearest one.

    A template's list names neighbours too, and an epilogue belongs to a kernel that is matched already; both are asked
    only for what no other kernel claims.
    """
    left, free = place.unmatched()
    plain = [j for j in free if not place.after[j].is_matrix and place.after[j].identity.fused_ops]
    back = {j: i for i, j in place.pairs.items()}
    taken: dict[int, list[int]] = {j: [] for j in plain}
    for i in left:
        row = place.before[i]
        if row.is_matrix:
            continue
        claims = [j for j in plain if _is_inside(row, place.after[j].work.ops)]
        if not claims:
            claims = [
                j
                for j, other in enumerate(place.after)
                if other.is_matrix and _is_inside(row, _new_extras(place, back, j))
            ]
        if claims:
            taken.setdefault(_nearest(place, i, claims), []).append(i)
    return place.absorbing(taken, inferred=False)


def by_epilogue(place: Place) -> Place:
    """Products of ``before``, and pointwise kernels, that one product of ``after`` stands for, by their places.

    Its name says how many products it holds and that its epilogue does what follows them: the pointwise kernels between
    them and right behind.
    """
    for j in place.unmatched()[1]:
        if place.after[j].products:
            nearest = _nearest_in_reach(place, j, list(_runs(place, place.after[j])))
            if nearest is not None:
                place = place.absorbing({j: nearest}, inferred=True)
    return place


def _runs(place: Place, holder: Row) -> Iterator[tuple[int, ...]]:
    """Every run of as many equally large products of ``before`` as ``holder`` holds, with the pointwise work at them.

    That is the work between them and right behind. A row may stand for many launches a step, so launches are counted.
    """
    left = place.unmatched()[0]
    free = set(left)
    plain = [i for i in left if place.before[i].work.op_class == "gemm" and not place.before[i].products]
    for at in range(len(plain)):
        launches, end = 0.0, at
        while end < len(plain) and launches < holder.products * holder.count:
            launches += place.before[plain[end]].count
            end += 1
        if launches != holder.products * holder.count:
            continue
        products, last = plain[at:end], plain[end - 1]
        behind = last + 1
        while behind in free and place.before[behind].work.op_class == "pointwise":
            behind += 1
        members = [i for i in range(products[0], behind) if i in free]
        others = [place.before[i] for i in members if i not in products]
        sizes = {(place.before[i].work.flops, place.before[i].work.out_elements) for i in products}
        if others and len(sizes) == 1 and all(row.work.op_class == "pointwise" for row in others):
            yield tuple(members)


def by_order(place: Place) -> Place:
    """Neighbouring rows of ``before`` that a kernel of ``after`` without a list of ops stands for, by their places."""
    left, free = place.unmatched()
    silent = [j for j in free if _may_stand_for_others(place.after[j])]
    taken: dict[int, list[int]] = {j: [] for j in silent}
    for i in left:
        claims = [j for j in silent if _fits(place.before[i], place.after[j])]
        nearest = _nearest(place, i, claims) if claims else None
        if nearest is not None and _in_reach(place, i, nearest):
            taken[nearest].append(i)
    return place.absorbing(taken, inferred=True)


def _is_inside(row: Row, ops: frozenset[str]) -> bool:
    """Whether ``ops`` hold all that a row does: its fused list, or any op of its chain (``_to_copy`` ▸ ``copy``)."""
    if row.identity.fused_ops:
        return bool(row.work.ops) and row.work.ops <= ops
    return bool((row.chain | row.work.ops) & ops)


def _new_extras(place: Place, back: Mapping[int, int], j: int) -> frozenset[str]:
    """What a matrix kernel of ``after`` does besides its product and its match in ``before`` does not."""
    extras = place.after[j].extras
    return extras - place.before[back[j]].extras if j in back else frozenset()


def _nearest_in_reach(place: Place, j: int, runs: Sequence[tuple[int, ...]]) -> tuple[int, ...] | None:
    """The run whose first row would be nearest to ``j``, unless too many matched kernels lie between."""
    nearest = min(runs, key=lambda run: (abs(place.expected(run[0]) - j), run), default=None)
    return nearest if nearest is not None and _in_reach(place, nearest[0], j) else None


def _in_reach(place: Place, i: int, j: int) -> bool:
    low, high = sorted((place.expected(i), float(j)))
    anchors = sorted(place.pairs.values())
    return bisect_left(anchors, high) - bisect_left(anchors, low) <= _REACH


def _nearest(place: Place, i: int, claims: Sequence[int]) -> int:
    expected = place.expected(i)
    return min(claims, key=lambda j: (abs(j - expected), -j))


def _may_stand_for_others(row: Row) -> bool:
    """Kernels whose name lists no ops and that are written by hand, or do the whole of attention."""
    return not row.identity.fused_ops and (row.work.op_class in _SILENT or row.work.op_class == "attention")


def _fits(row: Row, other: Row) -> bool:
    """Attention takes in what it is made of; a hand-written kernel what has a tensor as large as one of its own."""
    if other.work.op_class == "attention":
        return True
    sizes = {row.work.elements, other.work.elements}
    return None in sizes or len(sizes) == 1
