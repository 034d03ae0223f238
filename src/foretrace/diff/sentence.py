"""The answer in two or three sentences: the verdict first, then what changed."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from foretrace.diff.rows import bare
from foretrace.diff.statistics import FEWEST_STEPS
from foretrace.units import duration, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from foretrace.diff.records import Change, Side, Status, Steps, Transfer

_MOST = 0.5
_MOSTLY_IDLE = 0.5
"""Below this share of GPU time in a step the host decides how long it takes."""
_NAMED = 3
"""Kinds of fusion that are named; those of others are counted."""


def sentence(
    steps: Steps,
    changes: Sequence[Change],
    transfers: Sequence[Transfer],
    why_not: Sequence[str],
    sides: tuple[Side, Side],
    *,
    judged: bool,
) -> str:
    """What `Diff.sentence` says."""
    parts = [
        _verdict(steps, why_not, sides, judged=judged),
        *_waited(changes, steps),
        *_changes(changes),
        *_copied(transfers, steps),
        *_host_bound(steps, sides),
        *_left_out(sides),
    ]
    return " ".join(parts)


def duration_pair(before_ns: float, after_ns: float) -> str:
    """``233 → 206 µs``; both units where they differ."""
    before, after = duration(before_ns), duration(after_ns)
    same_unit = before.rpartition(" ")[2] == after.rpartition(" ")[2]
    return f"{before.rpartition(' ')[0] if same_unit else before} → {after}"


def signed_percent(ratio: float) -> str:
    """``−12 %``, ``+0.3 %``, ``0.0 %``: the change that a ratio means."""
    if 0 < ratio < 0.01:  # noqa: PLR2004 - a hundredth is left: as many digits as keep it from reading −100 %
        return f"−{100 * (1 - ratio):.{math.ceil(-math.log10(ratio)) - 2}f} %"
    change = round(100 * (ratio - 1), 1)
    if abs(change) >= 10:  # noqa: PLR2004 - two digits say enough
        change = float(round(change))
        return f"{'+' if change > 0 else '−'}{abs(change):.0f} %"
    return f"{'+' if change > 0 else '−' if change < 0 else ''}{abs(change):.1f} %"


def _verdict(steps: Steps, why_not: Sequence[str], sides: tuple[Side, Side], *, judged: bool) -> str:
    per = "a step" if any(side.steps for side in sides) else "in all"
    if not (steps.before_ns or steps.after_ns):
        bare = steps.before_bare_ns is not None and steps.after_bare_ns is not None
        was, now = (steps.before_bare_ns, steps.after_bare_ns) if bare else (steps.before_wall_ns, steps.after_wall_ns)
        wall = f"{duration_pair(was or 0.0, now or 0.0)} {per}{' without the profiler' if bare else ''}"
        return (
            f"{_not_comparable(why_not, judged=judged)}Neither run has GPU work to compare; on the host it is "
            f"{wall}, without a verdict."
        )
    times = f"{duration_pair(steps.before_ns or 0.0, steps.after_ns or 0.0)} {per}"
    if steps.ratio is not None:
        times += f" ({signed_percent(steps.ratio)})"
    if not judged:
        return f"{_not_comparable(why_not, judged=False)}On the GPU {times}, without a verdict."
    if steps.significant:
        return f"{_not_comparable(why_not, judged=True)}{steps.verdict.capitalize()} on the GPU: {times}."
    return (
        f"{_not_comparable(why_not, judged=True)}Inconclusive on the GPU: {times}, {_why_inconclusive(steps, sides)}."
    )


def _not_comparable(why_not: Sequence[str], *, judged: bool) -> str:
    if not why_not:
        return ""
    return f"{'Compared anyway' if judged else 'Not comparable'}: {'; '.join(why_not)}. "


def _why_inconclusive(steps: Steps, sides: tuple[Side, Side]) -> str:
    floor = f"{100 * steps.floor:g} %"
    if steps.interval is not None and max(steps.interval[1], 1 / steps.interval[0]) <= 1 + steps.floor:
        return f"within the {floor} by which two runs differ anyway"
    fewest = min(side.steps for side in sides)
    if not fewest:
        return "and a trace without steps has no spread to judge by"
    if fewest < FEWEST_STEPS:
        return f"and {plural(fewest, 'step')} a side cannot tell ({FEWEST_STEPS} could)"
    return f"not clearly more than the {floor} by which two runs differ anyway"


def _changes(changes: Sequence[Change]) -> Iterator[str]:
    yield from _merged([c for c in changes if c.status in {"fused", "split"}])
    count = Counter(change.status for change in changes)
    phrases: tuple[tuple[Status, str], ...] = (
        ("same", "the same byte for byte"),
        ("variant", "replaced by another for the same work"),
        ("added", "added"),
        ("removed", "removed"),
    )
    said = [f"{'is' if count[s] == 1 else 'are'} {phrase}" for s, phrase in phrases if count[s]]
    numbers = [count[s] for s, _ in phrases if count[s]]
    if said:
        first, *rest = zip(numbers, said, strict=True)
        yield ", ".join([f"{plural(first[0], 'kernel')} {first[1]}", *(f"{n} {phrase}" for n, phrase in rest)]) + "."
    for status, how in (("same", "though its kernel is the same"), ("variant", "as {new} instead of {old}")):
        moved = [
            c
            for c in changes
            if c.status == status and c.significant and not (c.waits or {"count", "shapes"} & c.fields.keys())
        ]
        if moved:
            yield _largest(max(moved, key=lambda c: abs(c.change_ns)), how)


def _merged(merged: Sequence[Change]) -> Iterator[str]:
    """Fusions and splits, those that are alike in one sentence, the largest first."""
    alike: dict[tuple[object, ...], list[Change]] = {}
    for change in merged:
        ops, single = _sides(change)
        key = (change.status, single, frozenset(Counter(ops).items()), change.inferred, change.change_ns > 0)
        alike.setdefault(key, []).append(change)
    groups = sorted(alike.values(), key=lambda group: -abs(sum(change.change_ns for change in group)))
    for group in groups[:_NAMED]:
        first, times = group[0], len(group)
        ops, single = _sides(first)
        names = _joined([_times(name, n) for name, n in Counter(ops).items()])
        who = f"One kernel, {single}," if times == 1 else f"{times} kernels, {single}, each"
        verb = ("does" if times == 1 else "do") if first.status == "fused" else "did"
        how = ", as their order suggests" if first.inferred else ""
        yield f"{who} {verb} the work of {names}{how}: {_effect(group)}."
    rest = sum(len(group) for group in groups[_NAMED:])
    if rest:
        yield f"{rest} more are fused or split."


def _sides(change: Change) -> tuple[list[str], str]:
    """The ops of the side with several kernels, and the other side's kernel."""
    fused = change.status == "fused"
    many, single = (change.before_op, change.after_short) if fused else (change.after_op, change.before_short)
    return [bare(op) if op else "another kernel" for op in many], single[0]


def _times(name: str, count: int) -> str:
    if count == 1:
        return name
    return f"{count} other kernels" if name == "another kernel" else f"{count} {name}"


def _effect(group: Sequence[Change]) -> str:
    change_ns, one = sum(change.change_ns for change in group), len(group) == 1
    if not change_ns:
        return "it costs the same" if one else "they cost the same"
    verb = "save" if change_ns < 0 else "cost"
    if group[0].status == "split":
        verb = f"the split{'' if one else 's'} {verb}"
    return f"{verb}{'s' if one else ''} {duration(abs(change_ns))}{'' if one else ' in all'}"


def _largest(change: Change, how: str) -> str:
    what = change.op if change.op and "::" in change.op else change.before_short[0]
    if change.module:
        what += f" in {change.module}"
    told = how.format(new=change.after_short[0], old=change.before_short[0])
    direction = "more" if change.change_ns > 0 else "less"
    return f"One {what} takes {duration(abs(change.change_ns))} {direction}, {told}."


def _waited(changes: Sequence[Change], steps: Steps) -> Iterator[str]:
    """Where collectives make most of the difference, it may be another rank's."""
    busy_ns = (steps.after_ns or 0.0) - (steps.before_ns or 0.0)
    collective_ns = sum(change.change_ns for change in changes if change.waits)
    least_ns = steps.floor * max(steps.before_ns or 0.0, steps.after_ns or 0.0)
    if abs(busy_ns) > least_ns and collective_ns / busy_ns > _MOST:
        yield (
            "Most of that is time in collectives, which includes waiting for other ranks: `foretrace fleet` tells them "
            "apart."
        )


def _copied(transfers: Sequence[Transfer], steps: Steps) -> Iterator[str]:
    """The copy or set whose time changes most, where that is more than two runs differ by anyway."""
    largest = max(transfers, key=lambda t: abs(t.after_ns - t.before_ns), default=None)
    if largest is None:
        return
    change_ns = largest.after_ns - largest.before_ns
    if abs(change_ns) > steps.floor * max(steps.before_ns or 0.0, steps.after_ns or 0.0):
        yield f"{largest.name} takes {duration(abs(change_ns))} {'more' if change_ns > 0 else 'less'}."


def _host_bound(steps: Steps, sides: tuple[Side, Side]) -> Iterator[str]:
    """Where the GPU is idle for most of both steps, its verdict is not the one about how long they take."""
    bare = steps.before_bare_ns is not None and steps.after_bare_ns is not None
    was, now = (steps.before_bare_ns, steps.after_bare_ns) if bare else (steps.before_wall_ns, steps.after_wall_ns)
    if not (was and now and steps.before_ns and steps.after_ns):
        return
    if max(steps.before_ns / was, steps.after_ns / now) < _MOSTLY_IDLE:
        how = "without the profiler" if bare else "while profiled"
        what = "steps" if any(side.steps for side in sides) else "runs"
        yield (
            f"The GPU idles for most of both {what}, so the host decides how long they take: "
            f"{duration_pair(was, now)} {how}."
        )


def _left_out(sides: tuple[Side, Side]) -> Iterator[str]:
    for side in sides:
        if side.left_out:
            yield f"Left out of {side.label}: {_joined(side.left_out)} ({side.left_out_why})."
        if side.trials:
            yield f"Set apart in {side.label}: {plural(side.trials, 'trial run')} of the autotuner."


def _joined(words: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1]))) if words else ""
