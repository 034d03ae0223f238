"""The table of a trace without a GPU: operators by the time that they themselves took on the CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from foretrace import units
from foretrace.readings import Column
from foretrace.report.document import Table
from foretrace.run import Kind

if TYPE_CHECKING:
    from foretrace.run import Run

_TOP = 12

_COLUMNS = (
    Column("op", "op"),
    Column("calls", "calls", "count"),
    Column("self_ns", "self µs", "ns"),
    Column("share", "of ops", "share"),
)


def op_table(run: Run) -> Table | None:
    """Operators by self time (without the ops inside them), of a step or of the whole trace; ``None``: no ops.

    Times are medians over the steps; means, which add up, where some step does not call an op of another one.
    """
    host = run.host
    ops = np.flatnonzero(host.kind == Kind.OPERATOR)
    starts = host.start_ns[ops]
    parts = [ops[(starts >= step.start_ns) & (starts < step.end_ns)] for step in run.steps] or [ops]
    if not any(len(part) for part in parts):
        return None
    width = len(run.trace.tables.name)
    names = [run.trace.columns.name[host.row[part]] for part in parts]
    calls = np.array([np.bincount(found, minlength=width) for found in names])
    self_ns = np.array(
        [np.bincount(found, host.self_ns[part], width) for found, part in zip(names, parts, strict=True)]
    )
    seen = np.flatnonzero(calls.any(axis=0))
    steady = bool(calls[:, seen].all())
    typical = np.median if steady else np.mean
    calls, self_ns = typical(calls, axis=0), typical(self_ns, axis=0)
    whole = float(self_ns[seen].sum())
    ranked = sorted(seen.tolist(), key=lambda code: -self_ns[code])
    rows = [
        {
            "op": run.trace.tables.name[code],
            "calls": float(calls[code]),
            "self_ns": float(self_ns[code]),
            "share": float(self_ns[code] / whole) if whole else None,
        }
        for code in ranked[:_TOP]
    ]
    rest = ranked[_TOP:]
    more = f"and {len(rest):,} more: {units.duration(self_ns[rest].sum())}" if rest else None
    return Table(_COLUMNS, rows, title=f"On the CPU, {_of(len(run.steps), steady=steady)}", more=more)


def _of(steps: int, *, steady: bool) -> str:
    if steps > 1:
        return f"in one step ({'medians' if steady else 'means'} of {steps} steps)"
    return "in the one step" if steps else "over the whole trace"
