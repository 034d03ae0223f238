"""Do two runs do the same work on the same machine? If not, their times say nothing about the change."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from foretrace.units import significant

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from foretrace.diff.rows import Row
    from foretrace.run import Run


def why_not(
    before: Run, after: Run, rows: Sequence[Row], other_rows: Sequence[Row], *, matched: bool
) -> tuple[str, ...]:
    """Every reason against a verdict; none when the runs are comparable as far as they say.

    Args:
        before: The run to compare with.
        after: The run that is judged.
        rows: The kernels of ``before``.
        other_rows: Those of ``after``.
        matched: Whether any kernel of one side does what some of the other do.
    """
    stated = [
        ("other device", before.device_name, after.device_name),
        ("other torch version", _torch(before), _torch(after)),
        ("other world size", before.world_size, after.world_size),
        ("other dtype", _dtype(rows), _dtype(other_rows)),
    ]
    reasons = [f"{what}: {a} before, {b} after" for what, a, b in stated if a is not None and b is not None and a != b]
    ranks = {before.world_size, after.world_size}
    if None in ranks and max((size for size in ranks if size), default=1) > 1:
        sides = ["unknown" if size is None else size for size in (before.world_size, after.world_size)]
        reasons.append(f"other world size: {sides[0]} before, {sides[1]} after")
    if bool(len(before.activities)) != bool(len(after.activities)):
        has, has_not = ("before", "after") if len(before.activities) else ("after", "before")
        reasons.append(f"the {has}-run works on a GPU, the {has_not}-run has no GPU activity")
    reasons += _shapes(rows, other_rows)
    if not (matched or reasons) and _other_amount(rows, other_rows):
        reasons.append("other work: no kernel of either run does what one of the other does")
    return tuple(reasons)


def _other_amount(rows: Sequence[Row], other_rows: Sequence[Row]) -> bool:
    """Whether the matrix kernels of both sides, attention among them, are known to differ in their FLOPs."""
    sides = [[row for row in side if row.is_matrix and not row.identity.helper_of] for side in (rows, other_rows)]
    known = all(row.work.flops is not None for side in sides for row in side)
    totals = {sum((row.work.flops or 0) * row.count for row in side) for side in sides}
    return known and all(sides) and len(totals) > 1


def _torch(run: Run) -> str | None:
    version = run.environment.versions.get("torch") if run.environment else None
    return version if isinstance(version, str) else None


def _dtype(rows: Sequence[Row]) -> str | None:
    """The element type of most of the arithmetic: of matrix kernels where there are any."""
    matrix = [row for row in rows if row.is_matrix and row.dtype]
    spent: Counter[str] = Counter()
    for row in matrix or rows:
        if row.dtype:
            spent[row.dtype] += int(row.median_ns)
    return min(spent, key=lambda dtype: (-spent[dtype], dtype), default=None)


def _shapes(rows: Sequence[Row], other_rows: Sequence[Row]) -> Iterator[str]:
    """No product of one side has the size of one of the other, alone or with its neighbours of the same depth.

    The second half keeps a split or merged projection (gate and up in one GEMM) comparable. A kernel that holds several
    products has no size of its own: there all FLOPs together tell.
    """
    one, other = _products(rows), _products(other_rows)
    if one and other:
        depths, other_depths = _by_depth(one), _by_depth(other)
        alike = bool(one & other) or any(other_depths.get(depth) == total for depth, total in depths.items())
        every = (*rows, *other_rows)
        if any(row.holds_several for row in every):
            alike = (
                alike or _total(one) == _total(other) or any(row.products and row.work.flops is None for row in every)
            )
        if not alike:
            yield f"other shapes: {_flops(one)} a step in matrix products before, {_flops(other)} after"
        return
    one, other = _by_flops(rows), _by_flops(other_rows)
    if one and other:  # what a graph replays has FLOPs, where they can be inferred, and no sizes
        several = any(row.holds_several or row.products for row in (*rows, *other_rows))
        if not (one & other or several or _total(one) == _total(other)):
            yield f"other shapes: {_flops(one)} a step in matrix products before, {_flops(other)} after"
        return
    largest, other_largest = (max(_sizes(side), default=None) for side in (rows, other_rows))
    if not one and not other and largest and other_largest and largest != other_largest:
        yield f"other shapes: the largest tensor has {largest:,} elements before, {other_largest:,} after"


def _products(rows: Iterable[Row]) -> Counter[tuple[int, int]]:
    """How often each (elements of the result, FLOPs) of a GEMM occurs in a step."""
    found: Counter[tuple[int, int]] = Counter()
    for row in rows:
        if row.work.op_class == "gemm" and row.work.flops and row.work.out_elements:
            found[row.work.out_elements, row.work.flops] += round(row.count)
    return found


def _by_flops(rows: Iterable[Row]) -> Counter[tuple[int, int]]:
    """The same without the elements, which are not known where shapes are not recorded."""
    found: Counter[tuple[int, int]] = Counter()
    for row in rows:
        if row.work.op_class == "gemm" and row.work.flops:
            found[0, row.work.flops] += round(row.count)
    return found


def _by_depth(products: Counter[tuple[int, int]]) -> dict[int, int]:
    """Elements of all results with the same K (FLOPs are 2·M·N·K)."""
    totals: Counter[int] = Counter()
    for (elements, flops), count in products.items():
        totals[flops // (2 * elements)] += elements * count
    return dict(totals)


def _total(products: Counter[tuple[int, int]]) -> int:
    return sum(flops * count for (_, flops), count in products.items())


def _flops(products: Counter[tuple[int, int]]) -> str:
    return f"{significant(_total(products) / 1e9)} GFLOP"


def _sizes(rows: Iterable[Row]) -> Iterator[int]:
    return (row.work.elements for row in rows if row.work.elements)
