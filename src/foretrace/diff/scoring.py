"""How well two kernels match: by their work first, then by their names, then by where they run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from foretrace.diff.rows import Row, other_size

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from numpy.typing import NDArray

Score: TypeAlias = Callable[[Row, Row], int]

_SAME_WORK, _SAME_NAME, _SAME_REGION = 4, 2, 1
_UNKNOWN = -1


def same_work(x: Row, y: Row) -> int:
    """The score of two rows that do the same to as many elements; 0 when they do other work."""
    a, b = x.work, y.work
    same_name = x.name == y.name
    if x.is_matrix and y.is_matrix:
        sized = None not in {a.flops, b.flops} or None not in {a.out_elements, b.out_elements}
        alike = same_name or (a.op_class == b.op_class and sized)
    else:
        alike = same_name or (bool(a.ops) and a.ops == b.ops)
    if not alike or x.products != y.products or other_size(x, y):
        return 0
    return _SAME_WORK + _SAME_NAME * same_name + _SAME_REGION * (x.region == y.region)


def same_op(x: Row, y: Row) -> int:
    """The score of two rows of the same op or kernel, whatever their shapes."""
    alike = x.name == y.name or (bool(x.work.ops) and x.work.ops == y.work.ops and x.products == y.products)
    return _SAME_WORK + _SAME_NAME * (x.name == y.name) if alike else 0


def weights(before: Sequence[Row], after: Sequence[Row], score: Score) -> NDArray[np.int32]:
    """Scores of all pairs, [before, after].

    Each different pair of kinds is scored once, and only where the sizes do not rule it out: a long step has
    thousands of kinds, nearly all of another size than a given one.
    """
    (firsts, kinds), (others, other_kinds) = _kinds(before), _kinds(after)
    table = np.zeros((len(firsts), len(others)), dtype=np.int32)
    for a, b in np.argwhere(_possible(firsts, others, score)).tolist():
        table[a, b] = score(firsts[a], others[b])
    return table[np.ix_(kinds, other_kinds)]


def _kinds(rows: Sequence[Row]) -> tuple[list[Row], list[int]]:
    """A representative of each kind of row, and the kind of every row."""
    seen: dict[Hashable, int] = {}
    first: list[Row] = []
    kinds = []
    for row in rows:
        key = (row.name, row.work, row.region)
        if key not in seen:
            seen[key] = len(first)
            first.append(row)
        kinds.append(seen[key])
    return first, kinds


def _possible(firsts: Sequence[Row], others: Sequence[Row], score: Score) -> NDArray[np.bool_]:
    """Which pairs can have a score at all: the same name or ops and, for equal work, no other size."""
    names = _equal((row.name for row in firsts), (row.name for row in others))
    ops = _equal((row.work.ops for row in firsts), (row.work.ops for row in others))
    possible = names | ops
    if score is same_work:
        both = np.logical_and.outer([row.is_matrix for row in firsts], [row.is_matrix for row in others])
        flops, elements = (
            _agree(*([getattr(row.work, field) for row in side] for side in (firsts, others)))
            for field in ("flops", "elements")
        )
        possible &= np.where(both, flops, elements)
    return possible


def _equal(one: Iterable[Hashable], other: Iterable[Hashable]) -> NDArray[np.bool_]:
    codes: dict[Hashable, int] = {}
    left, right = ([codes.setdefault(value, len(codes)) for value in side] for side in (one, other))
    return np.equal.outer(np.array(left, dtype=np.int64), np.array(right, dtype=np.int64))


def _agree(one: Sequence[int | None], other: Sequence[int | None]) -> NDArray[np.bool_]:
    """Equal, or not known on one side."""
    left, right = (np.array([_UNKNOWN if v is None else v for v in side], dtype=np.float64) for side in (one, other))
    either: NDArray[np.bool_] = np.logical_or.outer(left == _UNKNOWN, right == _UNKNOWN)
    return either | np.equal.outer(left, right)
