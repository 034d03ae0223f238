"""Matched rows as changes: status, differing fields, time with its interval, and a few words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from foretrace import stats
from foretrace.diff.identity import arch_in_words, differing_fields, in_words
from foretrace.diff.records import Change
from foretrace.diff.rows import other_size
from foretrace.diff.statistics import compare
from foretrace.ops import launches_nothing
from foretrace.units import duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foretrace.diff.align import Match
    from foretrace.diff.records import Status
    from foretrace.diff.rows import Row
    from foretrace.diff.statistics import Comparison


def change_of(
    match: Match, before: Sequence[Row], after: Sequence[Row], *, capability: tuple[int, int] | None, judged: bool
) -> Change:
    """One match as a change.

    Args:
        match: Positions in ``before`` and ``after``.
        before: All rows of the before-run.
        after: All rows of the after-run.
        capability: Compute capability of the after-run's device.
        judged: Whether times may be compared at all.
    """
    old, new = [before[i] for i in match.before], [after[j] for j in match.after]
    status = _status(old, new)
    fields = _fields(old, new)
    times = _compared(old, new)
    single = (new if status in {"fused", "added"} else old)[0]
    if status in {"same", "variant"}:
        single = min((old[0], new[0]), key=lambda row: not (row.op or "").startswith("aten::"))
    return Change(
        status=status,
        before=tuple(row.name for row in old),
        after=tuple(row.name for row in new),
        fields=fields,
        before_ns=_typical(_sums(old)),
        after_ns=_typical(_sums(new)),
        op=single.op,
        ratio=times.ratio,
        interval=times.interval,
        significant=judged and times.significant,
        op_class=single.work.op_class,
        before_op=tuple(row.op for row in old),
        after_op=tuple(row.op for row in new),
        module=next((row.module for row in (*old, *new) if row.module), None),
        inferred=match.inferred,
        uneven=not (all(_sums(old)) and all(_sums(new))),
        says=_says(status, old, new, fields, times, capability=capability, judged=judged),
        before_short=tuple(row.identity.short for row in old),
        after_short=tuple(row.identity.short for row in new),
    )


def _status(old: Sequence[Row], new: Sequence[Row]) -> Status:
    if not old or not new:
        return "added" if new else "removed"
    if len(old) > 1 or len(new) > 1:
        return "fused" if len(old) >= len(new) else "split"
    return "same" if old[0].name == new[0].name else "variant"


def _fields(old: Sequence[Row], new: Sequence[Row]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if len(old) == len(new) == 1:
        fields = {name: list(pair) for name, pair in differing_fields(old[0].identity, new[0].identity).items()}
        if other_size(old[0], new[0]):
            fields["shapes"] = [old[0].shapes, new[0].shapes]
        if old[0].count != new[0].count:
            fields["count"] = [old[0].count, new[0].count]
    elif old and new:
        listed = {op for row in (*old, *new) for op in row.identity.fused_ops or ()}
        origins = sorted(op for op in listed if launches_nothing(f"aten::{op}"))
        fields = {"origins": origins} if origins else {}
    return fields


def _compared(old: Sequence[Row], new: Sequence[Row]) -> Comparison:
    return compare(_sums(old), _sums(new))


def _typical(times_ns: Sequence[int]) -> float | None:
    """The median of the steps; the mean where some step does not run it, so that rare kernels do not vanish."""
    return stats.median(times_ns) if all(times_ns) else stats.mean(times_ns)


def _sums(rows: Sequence[Row]) -> list[int]:
    return [sum(step) for step in zip(*(row.times_ns for row in rows), strict=True)]


def _says(
    status: Status,
    old: Sequence[Row],
    new: Sequence[Row],
    fields: dict[str, Any],
    times: Comparison,
    *,
    capability: tuple[int, int] | None,
    judged: bool,
) -> str | None:
    if status == "same":
        return _says_same(new[0], fields, times if judged else None)
    if status == "variant":
        return in_words(old[0].identity, new[0].identity, fields, capability)
    if status in {"fused", "split"}:
        change = (_typical(_sums(new)) or 0.0) - (_typical(_sums(old)) or 0.0)
        effect = f"saves {duration(-change)}" if change < 0 else f"costs {duration(change)}"
        return f"{len(old)} → {len(new)} kernels, {effect}"
    helped = (*old, *new)[0].identity.helper_of
    if helped:
        return f"helper of a {helped}, which {'splits' if new else 'no longer splits'} K"
    return arch_in_words(new[0].identity, capability) if new else None


def _says_same(row: Row, fields: dict[str, Any], times: Comparison | None) -> str | None:
    if "shapes" in fields:
        return "the same kernel at another shape"
    if "count" in fields:
        was, now = fields["count"]
        return f"the same kernel, {now:.3g} instead of {was:.3g} times a step"
    if times is None or not times.significant:
        return None
    waits = " (its time includes waiting for other ranks)" if row.work.op_class == "collective" else ""
    return f"same kernel, {times.verdict}{waits}"
