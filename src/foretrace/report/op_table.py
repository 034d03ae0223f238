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
    """Operators by self time (without the ops inside them), mean of the steps or whole trace; ``None``: no ops."""
    host = run.host
    ops = host.kind == Kind.OPERATOR
    if run.steps:
        inside = np.zeros(len(host), dtype=np.bool_)
        for step in run.steps:
            inside |= (host.start_ns >= step.start_ns) & (host.start_ns < step.end_ns)
        ops &= inside
    if not ops.any():
        return None
    steps = len(run.steps) or 1
    names = run.trace.columns.name[host.row[ops]]
    calls = np.bincount(names)
    self_ns = np.bincount(names, weights=host.self_ns[ops])
    whole = self_ns.sum()
    ranked = sorted(np.flatnonzero(calls).tolist(), key=lambda code: -self_ns[code])
    rows = [
        {
            "op": run.trace.tables.name[code],
            "calls": float(calls[code]) / steps,
            "self_ns": float(self_ns[code]) / steps,
            "share": float(self_ns[code] / whole) if whole else None,
        }
        for code in ranked[:_TOP]
    ]
    rest = ranked[_TOP:]
    more = f"and {len(rest):,} more: {units.duration(self_ns[rest].sum() / steps)}" if rest else None
    where = (
        f"in one step (mean of {steps})" if steps > 1 else "in the one step" if run.steps else "over the whole trace"
    )
    return Table(_COLUMNS, rows, title=f"On the CPU, {where}", more=more)
