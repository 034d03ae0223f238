"""Two runs side by side: what changed, and whether it was worth it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from foretrace import stats
from foretrace.diff import host
from foretrace.diff.align import Match, align, in_order
from foretrace.diff.changes import change_of
from foretrace.diff.comparable import why_not
from foretrace.diff.counted import counted
from foretrace.diff.labels import labels
from foretrace.diff.records import Diff, Side, Steps, Transfer
from foretrace.diff.rows import rows_of
from foretrace.diff.sentence import sentence
from foretrace.diff.statistics import RUN_TO_RUN, compare
from foretrace.run import Kind, Run
from foretrace.trace import compile_log

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foretrace.diff.counted import Counted
    from foretrace.diff.rows import Row


def diff(before: Run, after: Run, *, anyway: bool = False) -> Diff:
    """Say what changed from ``before`` to ``after``.

    Kernels are matched by their work, so that reordering, renaming and other numbers of steps do no harm. Swapping the
    runs gives the mirrored answer.

    Args:
        before: The run to compare with.
        after: The run that is judged.
        anyway: Give a verdict although the runs are not comparable.
    """
    was, now = counted(before), counted(after)
    rows, other_rows = rows_of(was.run, now.run)
    matches = _matches(rows, other_rows)
    matched = any(match.before and match.after for match in matches)
    reasons = why_not(was.run, now.run, rows, other_rows, matched=matched)
    if was.has_steps != now.has_steps:
        divided, whole = ("before", "after") if was.has_steps else ("after", "before")
        reasons += (f"the {divided}-run is divided into steps, the {whole}-run is not",)
    judged = anyway or not reasons
    capability = _capability(after)
    changes = tuple(change_of(match, rows, other_rows, capability=capability, judged=judged) for match in matches)
    steps = _steps(was, now, judged=judged)
    names = labels(before, after)
    sides = _side(before, was, names[0]), _side(after, now, names[1])
    transfers = _transfers(was.run, now.run)
    return Diff(
        comparable=not reasons,
        why_not=reasons,
        steps=steps,
        changes=changes,
        transfers=transfers,
        cpu_ops=host.cpu_ops(was.run, now.run),
        launches=host.launch_calls(was.run, now.run),
        syncs=host.syncs(was.run, now.run),
        regions=host.regions(was.run, now.run),
        before=sides[0],
        after=sides[1],
        sentence=sentence(steps, changes, transfers, reasons, sides, judged=judged),
    )


def _matches(rows: Sequence[Row], other_rows: Sequence[Row]) -> tuple[Match, ...]:
    """`align`, always in the same direction: where two alignments are equally good, both directions take one."""
    key, other_key = ([(row.name, row.work.shapes) for row in side] for side in (rows, other_rows))
    if key <= other_key:
        return in_order(align(rows, other_rows))
    return in_order([Match(match.after, match.before, match.inferred) for match in align(other_rows, rows)])


def _steps(was: Counted, now: Counted, *, judged: bool) -> Steps:
    busy = compare(was.busy_ns, now.busy_ns)
    if not judged:
        busy = replace(busy, verdict="inconclusive")
    return Steps(
        before_ns=busy.before_ns,
        after_ns=busy.after_ns,
        ratio=busy.ratio,
        interval=busy.interval,
        significant=busy.significant,
        verdict=busy.verdict,
        floor=RUN_TO_RUN,
        before_kernel_ns=stats.median(was.kernel_ns),
        after_kernel_ns=stats.median(now.kernel_ns),
        before_wall_ns=stats.median(was.wall_ns),
        after_wall_ns=stats.median(now.wall_ns),
        before_bare_ns=_bare_ns(was.run),
        after_bare_ns=_bare_ns(now.run),
    )


def _bare_ns(run: Run) -> float | None:
    return run.environment.unprofiled.host_ns if run.environment else None


def _side(run: Run, part: Counted, label: str) -> Side:
    torch = run.environment.versions.get("torch") if run.environment else None
    return Side(
        path=run.trace.path,
        label=label,
        device=run.device_name,
        torch=torch if isinstance(torch, str) else None,
        world_size=run.world_size,
        steps=len(part.run.steps) if part.has_steps else 0,
        left_out=part.left_out,
        left_out_why=part.why,
        trials=part.trials,
        trial_ns=part.trial_ns,
        compiled_calls=host.compiled_calls(part.run),
        compile_log=compile_log.beside(run.trace.path),
        repairs=run.repairs,
    )


def _transfers(before: Run, after: Run) -> tuple[Transfer, ...]:
    was, now = _copies_and_sets(before), _copies_and_sets(after)
    none = (0.0, 0.0)
    rows = ((name, was.get(name, none), now.get(name, none)) for name in dict.fromkeys([*was, *now]))
    return tuple(Transfer(name, a[0], b[0], a[1], b[1]) for name, a, b in rows)


def _copies_and_sets(run: Run) -> dict[str, tuple[float, float]]:
    """Name → medians over steps of the number and the time of its copies or sets."""
    a = run.activities
    found: dict[str, list[list[int]]] = {}
    for position, step in enumerate(run.steps):
        for index in step.activities[np.isin(a.kind[step.activities], (Kind.COPY, Kind.SET))].tolist():
            times = found.setdefault(run.activity_name(index), [[] for _ in run.steps])
            times[position].append(int(a.end_ns[index] - a.start_ns[index]))
    return {
        name: (stats.median([len(step) for step in times]) or 0.0, stats.median([sum(step) for step in times]) or 0.0)
        for name, times in found.items()
    }


def _capability(run: Run) -> tuple[int, int] | None:
    """Compute capability of the run's device, as its header says."""
    for properties in run.device_properties:
        major, minor = properties.get("computeMajor"), properties.get("computeMinor")
        if isinstance(major, int) and isinstance(minor, int):
            return major, minor
    return None
