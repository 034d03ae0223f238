"""Several kernels that became one: by the ops that the one lists, by what its epilogue holds, or by order alone."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from foretrace.diff.rows import Row

_SILENT = frozenset({"unknown", "other"})
_REACH = 2
"""Matched kernels that may lie between a kernel and the one that took it in."""


@dataclass(frozen=True)
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
        at = bisect_left(self._paired, i)
        return self.pairs[self._paired[at - 1]] + 0.5 if at else -0.5

    def in_reach(self, i: int, j: int) -> bool:
        """Whether few enough matched kernels lie between where a row of ``before`` would be and one of ``after``."""
        low, high = sorted((self.expected(i), float(j)))
        return bisect_left(self._partners, high) - bisect_left(self._partners, low) <= _REACH

    @cached_property
    def _paired(self) -> list[int]:
        return sorted(self.pairs)

    @cached_property
    def _partners(self) -> list[int]:
        return sorted(self.pairs.values())

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
    them and right behind. One product before may hold both projections already, packed.
    """
    for j in place.unmatched()[1]:
        holder = place.after[j]
        for products in dict.fromkeys((holder.products, min(holder.products, 1))):
            nearest = _nearest_in_reach(place, j, _runs(place, products * holder.count) if products else ())
            if nearest is not None:
                place = place.absorbing({j: nearest}, inferred=True)
                break
    return place


def by_flops(place: Place) -> Place:
    """Products of ``before`` right behind what a gated kernel of ``after`` stands for, where its FLOPs hold them."""
    back = {j: i for i, j in place.pairs.items()}
    for j, holder in enumerate(place.after):
        mine = (*place.into_after.get(j, ()), *([back[j]] if j in back else []))
        if not holder.holds_several or not mine:
            continue
        free, at = set(place.unmatched()[0]), max(mine) + 1
        more: list[int] = []
        while at in free and place.before[at].work.op_class == "gemm":
            more.append(at)
            at += 1
            if _do_as_much([place.before[i] for i in (*mine, *more)], holder):
                while at in free and place.before[at].identity.helper_of:
                    more.append(at)
                    at += 1
                place = place.absorbing({j: (*place.into_after.get(j, ()), *more)}, inferred=True)
                break
    return place


def _do_as_much(rows: Sequence[Row], holder: Row) -> bool:
    """Whether the products among ``rows`` have the FLOPs of ``holder``; of a gated one without shapes two thirds."""
    matrix = [row for row in rows if row.is_matrix and not row.identity.helper_of]
    known = sum(row.work.flops * row.count for row in matrix if row.work.flops is not None)
    unknown = [row for row in matrix if row.work.flops is None]
    whole = (holder.work.flops or 0) * holder.count
    if len(unknown) == 1 and unknown[0].products > 1:
        return 0 < whole == known * 3
    return not unknown and 0 < whole == known


def _runs(place: Place, wanted: float) -> Iterator[tuple[int, ...]]:
    """Every run of equally large products of ``before`` with ``wanted`` launches, with the pointwise work at them.

    That is the work between them and right behind, with helpers of the products. A row may stand for many launches.
    """
    free = set(place.unmatched()[0])
    rows = place.before
    plain = [i for i in sorted(free) if rows[i].work.op_class == "gemm" and _is_alone(rows[i])]
    for at in range(len(plain)):
        launches, end = 0.0, at
        while end < len(plain) and launches < wanted:
            launches += rows[plain[end]].count
            end += 1
        if launches != wanted:
            continue
        products, behind = plain[at:end], plain[end - 1] + 1
        while behind in free and (rows[behind].work.op_class == "pointwise" or rows[behind].identity.helper_of):
            behind += 1
        members = range(products[0], behind)
        others = [rows[i] for i in members if i not in products and not rows[i].identity.helper_of]
        sizes = {(rows[i].work.flops, rows[i].work.out_elements) for i in products}
        pointwise = others and all(row.work.op_class == "pointwise" for row in others)
        if pointwise and len(sizes) == 1 and free.issuperset(members):
            yield tuple(members)


def _is_alone(row: Row) -> bool:
    return not row.products and not row.identity.helper_of


def by_order(place: Place) -> Place:
    """Neighbouring rows of ``before`` that a kernel of ``after`` without a list of ops stands for, by their places."""
    left, free = place.unmatched()
    silent = [j for j in free if _may_stand_for_others(place.after[j])]
    taken: dict[int, list[int]] = {j: [] for j in silent}
    for i in left:
        claims = [j for j in silent if _fits(place.before[i], place.after[j])]
        nearest = _nearest(place, i, claims) if claims else None
        if nearest is not None and place.in_reach(i, nearest):
            taken[nearest].append(i)
    whole = {j: rows for j, rows in taken.items() if _is_all_of_it([place.before[i] for i in rows], place.after[j])}
    return place.absorbing(whole, inferred=True)


def _is_inside(row: Row, ops: frozenset[str]) -> bool:
    """Whether ``ops`` hold all that a row does: its fused list, or any op of its chain (``_to_copy`` ▸ ``copy``)."""
    if row.identity.fused_ops:
        return bool(row.work.ops) and row.work.ops <= ops
    return bool((row.chain | row.work.ops) & ops)


def _new_extras(place: Place, back: Mapping[int, int], j: int) -> frozenset[str]:
    """What a matrix kernel of ``after`` does besides its product and its match in ``before`` does not."""
    extras = place.after[j].extras
    return extras - place.before[back[j]].extras if j in back else frozenset()


def _nearest_in_reach(place: Place, j: int, runs: Iterable[tuple[int, ...]]) -> tuple[int, ...] | None:
    """The run whose first row would be nearest to ``j``, unless too many matched kernels lie between."""
    nearest = min(runs, key=lambda run: (abs(place.expected(run[0]) - j), run), default=None)
    return nearest if nearest is not None and place.in_reach(nearest[0], j) else None


def _nearest(place: Place, i: int, claims: Sequence[int]) -> int:
    expected = place.expected(i)
    return min(claims, key=lambda j: (abs(j - expected), -j))


def _may_stand_for_others(row: Row) -> bool:
    """Kernels whose name lists no ops and that are written by hand, or do the whole of attention."""
    return not row.identity.fused_ops and (row.work.op_class in _SILENT or row.work.op_class == "attention")


def _is_all_of_it(rows: Sequence[Row], other: Row) -> bool:
    """Without a softmax among them no kernels are what attention is made of, whatever their order."""
    return other.work.op_class != "attention" or any(
        row.work.op_class == "softmax" or any("softmax" in op for op in row.work.ops | row.chain) for row in rows
    )


def _fits(row: Row, other: Row) -> bool:
    """Attention takes in what it is made of; a hand-written kernel what has a tensor as large as one of its own."""
    if other.work.op_class == "attention":
        return True
    sizes = {row.work.elements, other.work.elements}
    return None in sizes or len(sizes) == 1
