"""Which kernel of one run does the work of which kernel of the other.

In this order: the heaviest common subsequence of equal work; equal work that moved; many into one by the ops inside a
generated kernel, and by the products that a gated one holds, to its last FLOP; the same op at another size; many into
one by their order, where a hand-written kernel says nothing.
Whatever is left was added or removed.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from foretrace.diff.absorb import Place, by_epilogue, by_flops, by_name, by_order
from foretrace.diff.scoring import same_op, same_work, weights

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foretrace.diff.rows import Row
    from foretrace.diff.scoring import Score


@dataclass(frozen=True, slots=True)
class Match:
    """Rows of both sides that do the same work, as positions; ``inferred`` when only their order says so."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    inferred: bool = False


def align(before: Sequence[Row], after: Sequence[Row]) -> tuple[Match, ...]:
    """Matches that hold every row of both sides exactly once."""
    pairs = dict(_common(before, after, same_work))
    pairs |= _moved(before, after, pairs)
    place = Place(before, after, pairs)
    place = by_name(place)
    place = by_name(place.mirrored()).mirrored()
    place = _same_ops(place, only_gated=True)
    place = by_epilogue(place)
    place = by_epilogue(place.mirrored()).mirrored()
    place = by_flops(place)
    place = by_flops(place.mirrored()).mirrored()
    place = _same_ops(place)
    place = by_order(place)
    place = by_order(place.mirrored()).mirrored()
    return _matches(place)


def _same_ops(place: Place, *, only_gated: bool = False) -> Place:
    """The same with pairs of the same op at another size or from another maker, in order."""
    left, free = place.unmatched()
    if only_gated:
        left = [i for i in left if place.before[i].products]
        free = [j for j in free if place.after[j].products]
    again = _common([place.before[i] for i in left], [place.after[j] for j in free], same_op)
    return place.with_pairs({left[i]: free[j] for i, j in again})


def _common(before: Sequence[Row], after: Sequence[Row], score: Score) -> list[tuple[int, int]]:
    """Pairs of the heaviest common subsequence (Needleman and Wunsch, 1970, without a cost for gaps)."""
    if not before or not after:
        return []
    weight = weights(before, after, score)
    n, m = weight.shape
    best = np.zeros((n + 1, m + 1), dtype=np.int32)
    for i in range(n):
        best[i + 1, 1:] = np.maximum(best[i, 1:], np.where(weight[i] > 0, best[i, :-1] + weight[i], 0))
        np.maximum.accumulate(best[i + 1], out=best[i + 1])
    pairs = []
    i, j = n, m
    while i and j:
        if best[i, j] == best[i - 1, j]:
            i -= 1
        elif best[i, j] == best[i, j - 1]:
            j -= 1
        else:
            i, j = i - 1, j - 1
            pairs.append((i, j))
    return pairs[::-1]


def _moved(before: Sequence[Row], after: Sequence[Row], pairs: dict[int, int]) -> dict[int, int]:
    """Equal work that runs at another place: the best match first, then the nearest."""
    left = [i for i in range(len(before)) if i not in pairs]
    taken = set(pairs.values())
    free = [j for j in range(len(after)) if j not in taken]
    if not left or not free:
        return {}
    weight = weights([before[i] for i in left], [after[j] for j in free], same_work)
    found: dict[int, int] = {}
    used: set[int] = set()
    candidates = sorted((-int(weight[a, b]), abs(int(a) - int(b)), int(a), int(b)) for a, b in np.argwhere(weight > 0))
    for _, _, a, b in candidates:
        if left[a] not in found and free[b] not in used:
            found[left[a]] = free[b]
            used.add(free[b])
    return found


def _matches(place: Place) -> tuple[Match, ...]:
    found: dict[int, Match] = {}
    for i, j in place.pairs.items():
        joined, split = place.into_after.get(j, ()), place.into_before.get(i, ())
        inferred = i in place.inferred[0] or j in place.inferred[1]
        found[j] = Match(tuple(sorted((i, *joined))), tuple(sorted((j, *split))), inferred)
    for j, members in place.into_after.items():
        found.setdefault(j, Match(tuple(sorted(members)), (j,), j in place.inferred[1]))
    for i, members in place.into_before.items():
        if i not in place.pairs:
            found[min(members)] = Match((i,), tuple(sorted(members)), i in place.inferred[0])
    removed, added = place.unmatched()
    alone = [*(Match((i,), ()) for i in removed), *(Match((), (j,)) for j in added)]
    return (*found.values(), *alone)


def in_order(matches: Sequence[Match]) -> tuple[Match, ...]:
    """Matches in the order of the after-run; removed rows behind the match of their nearest forerunner."""
    anchors = sorted((i, min(match.after)) for match in matches if match.after for i in match.before)

    def place(match: Match) -> tuple[float, ...]:
        if match.after:
            return (float(min(match.after)),)
        at = bisect_left(anchors, (match.before[0], 0))
        return (anchors[at - 1][1] + 0.5 if at else -0.5, *match.before)

    return tuple(sorted(matches, key=place))
