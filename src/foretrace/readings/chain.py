"""How did this op reach the GPU?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from foretrace.readings.base import Answer, Column, Reading
from foretrace.readings.groups import groups
from foretrace.readings.host import launches_kernel
from foretrace.run import ROOT, Kind, Run
from foretrace.units import duration, plural

if TYPE_CHECKING:
    from foretrace.readings.groups import Group

ASK = "How did this op reach the GPU?"

_MOST_ROWS = 40
_COLUMNS = (
    Column("chain", "chain"),
    Column("calls", "runtime calls"),
    Column("kernel", "kernel"),
    Column("module", "module"),
    Column("median_ns", "µs", "ns"),
)


def answer(run: Run) -> Answer | None:
    """The dispatch chain of every kernel of the step, longest first in time: ops, the op's runtime calls, the kernel.

    Silent without kernels; ``unknown`` where no kernel has its launch in the file. At most 40 rows, the longest ones.
    """
    found = groups(run)
    if not found:
        return None
    known = [group for group in found if run.activities.launch[group.activities[0]] != ROOT]
    if not known:
        why = "the launches of all kernels lie outside this file"
        return Answer("chain", ASK, f"Unknown: {why}.", verdict="unknown")
    longest = max(known, key=lambda group: group.median_ns)
    rows = sorted(known, key=lambda group: -group.median_ns)[:_MOST_ROWS]
    order = {id(group): place for place, group in enumerate(known)}
    rows.sort(key=lambda group: order[id(group)])
    row = _row(run, longest)
    road = " → ".join([*run.activity(longest.activities[0]).chain, row["launch"], row["kernel"]])
    rest = f" The other {plural(len(known) - 1, 'kernel')} are in the table." if len(known) > 2 else ""  # noqa: PLR2004
    sentence = f"The longest kernel comes by {road} ({duration(longest.median_ns)})."
    return Answer("chain", ASK, sentence + rest, evidence=tuple(_row(run, g) for g in rows), columns=_COLUMNS)


def _row(run: Run, group: Group) -> dict[str, Any]:
    activity = run.activity(group.activities[0])
    launch = int(run.activities.launch[activity.index])
    return {
        "chain": " → ".join(activity.chain),
        "calls": " · ".join(_calls(run, launch)),
        "launch": activity.launch,
        "kernel": group.identity.short,
        "name": group.name,
        "module": activity.module,
        "graph": activity.graph,
        "count": group.count,
        "median_ns": group.median_ns,
        "event": activity.event,
    }


def _calls(run: Run, launch: int) -> list[str]:
    """The runtime calls of the innermost slice around a launch, in order, up to the launch."""
    host = run.host
    around = int(host.parent[launch])
    if around == ROOT:
        return [run.name(launch)]
    siblings = np.arange(around + 1, launch + 1)
    direct = siblings[(host.parent[siblings] == around) & (host.kind[siblings] == Kind.LAUNCH)]
    earlier = direct[launches_kernel(run)[direct]]
    since = int(earlier[-2]) + 1 if len(earlier) > 1 else 0  # calls before another kernel's launch belong to that one
    return [run.name(int(s)) for s in direct if s >= since]


READING = Reading("chain", ASK, answer)
