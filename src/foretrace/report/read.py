"""The record of ``foretrace read``, schema ``foretrace.read/1``: every key is a promise of the JSON.

The rows of all activities are only made here. The view for people is built from the run and its answers instead,
because a record of every kernel costs tens of microseconds and a long trace has a hundred thousand.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from foretrace.readings.costs import costs
from foretrace.report.facts import Totals, TraceFacts, totals, trace_facts
from foretrace.report.selection import EVERYTHING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foretrace.names import Identity
    from foretrace.readings import Answer
    from foretrace.readings.costs import Cost
    from foretrace.report.selection import Selection
    from foretrace.run import Run

SCHEMA: Literal["foretrace.read/1"] = "foretrace.read/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivityRow:
    """One kernel, copy or set; ``event`` is its position in ``traceEvents``."""

    kind: str
    name: str
    stream: int | None
    start_ns: int
    dur_ns: int
    launch: str | None
    graph: bool
    op: str | None
    chain: tuple[str, ...]
    region: str | None
    shapes: Any
    dtypes: Any
    identity: Identity
    flops: int | None
    bytes: int | None
    bound: str | None
    module: str | None
    event: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsideRow(ActivityRow):
    """An activity that belongs to no step, with the reason."""

    why: str


@dataclass(frozen=True, slots=True)
class StepRow:
    """One step and the activities whose launch starts inside it."""

    name: str
    index: int
    start_ns: int
    dur_ns: int
    kernels: int
    gpu_busy_ns: int
    activities: tuple[ActivityRow, ...]


@dataclass(frozen=True, slots=True)
class ReadRecord:
    """Everything that ``foretrace read --format json`` says."""

    schema: str
    trace: TraceFacts
    selection: Selection
    totals: Totals
    steps: tuple[StepRow, ...]
    outside_steps: tuple[OutsideRow, ...]
    answers: tuple[Answer, ...]


def read_record(run: Run, answers: Sequence[Answer], selection: Selection = EVERYTHING) -> ReadRecord:
    """The record of ``run``, of which ``selection`` says which part of its file it is."""
    cost = costs(run).of
    outside = np.flatnonzero(run.activities.step < 0).tolist()
    return ReadRecord(
        schema=SCHEMA,
        trace=trace_facts(run),
        selection=selection,
        totals=totals(run),
        steps=tuple(
            StepRow(
                name=step.name,
                index=step.index,
                start_ns=step.start_ns,
                dur_ns=step.dur_ns,
                kernels=len(run.kernels(step.activities)),
                gpu_busy_ns=run.busy_ns(step.activities),
                activities=tuple(ActivityRow(**_row(run, i, cost(i))) for i in step.activities.tolist()),
            )
            for step in run.steps
        ),
        outside_steps=tuple(OutsideRow(**_row(run, i, cost(i)), why=run.why_outside(i) or "") for i in outside),
        answers=tuple(answers),
    )


def _row(run: Run, index: int, cost: Cost) -> dict[str, Any]:
    activity = run.activity(index)
    return {
        **{name: getattr(activity, name) for name in _COPIED},
        "flops": cost.flops,
        "bytes": activity.moved_bytes if activity.moved_bytes is not None else cost.moved_bytes,
        "bound": cost.bound if activity.kind == "kernel" else None,
    }


_COPIED = tuple(f.name for f in fields(ActivityRow) if f.name not in {"flops", "bytes", "bound"})
