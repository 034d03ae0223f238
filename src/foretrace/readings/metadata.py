"""Which ops launch nothing?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from foretrace.readings.base import Answer, Column, Reading
from foretrace.readings.host import (
    a_step,
    by_name,
    cpu_computing,
    events,
    in_compile,
    in_scope,
    launches_something,
    per_step,
    spoken,
)
from foretrace.run import Kind, Run
from foretrace.units import duration, plural

if TYPE_CHECKING:
    from numpy.typing import NDArray

ASK = "Which ops launch nothing?"

_CPU, _NOTHING = "computes on the CPU", "views and bookkeeping"
_COLUMNS = (
    Column("op", "op"),
    Column("count", "a step", "count"),
    Column("self_ns", "CPU µs", "ns"),
    Column("kind", "what it does"),
)


def answer(run: Run) -> Answer | None:
    """Operators of the steps with no launch in their subtree: how many, and their own CPU time.

    An op inside another counts beside it, each with its self time, so no nanosecond counts twice. Ops that the table
    of ops knows to compute, and that launched nothing, ran on the CPU; they stand apart. Figures are medians over
    steps; ops of a compilation are left out. A trace without GPU work raises no such question.
    """
    counted = (run.host.kind == Kind.OPERATOR) & in_scope(run) & ~in_compile(run)
    quiet = np.flatnonzero(counted & ~launches_something(run))
    if not len(run.activities) or not len(quiet):
        return None
    pairs = [(_row(run, members), members) for members in by_name(run, quiet)]
    pairs.sort(key=lambda pair: -pair[0]["self_ns"])
    rows, groups = [row for row, _ in pairs], [members for _, members in pairs]
    parts = []
    for kind, singular, several in (
        (_NOTHING, "launches nothing", "launch nothing"),
        (_CPU, "computes on the CPU and launches nothing", "compute on the CPU and launch nothing"),
    ):
        chosen = [i for i, row in enumerate(rows) if row["kind"] == kind]
        if chosen:
            members = np.concatenate([groups[i] for i in chosen])
            count = round(per_step(run, members))
            cpu = duration(per_step(run, members, run.host.self_ns[members]))
            names = spoken([rows[i]["op"] for i in chosen], most=2)
            says = singular if count == 1 else several
            parts.append(f"{plural(count, 'op')} {a_step(run)} {says} ({names}): {cpu} of CPU.")
    return Answer("metadata", ASK, " ".join(parts), evidence=tuple(rows), columns=_COLUMNS)


def _row(run: Run, members: NDArray[np.int64]) -> dict[str, Any]:
    first = int(members[0])
    return {
        "op": run.name(first),
        "count": per_step(run, members),
        "self_ns": per_step(run, members, run.host.self_ns[members]),
        "kind": _CPU if cpu_computing(run)[members].any() else _NOTHING,
        "event": events(run, members[:1])[0],
    }


READING = Reading("metadata", ASK, answer)
