"""Which call launched which activity: by category and correlation, never by a list of API names."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from foretrace.run import ranks
from foretrace.run.categories import Kind
from foretrace.run.tree import ROOT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from foretrace.run.model import Host
    from foretrace.trace import Trace

    Ints = NDArray[np.int64]


def link(trace: Trace, host: Host, rows: Ints) -> Ints:
    """For every activity row the slice of its launch, or `ROOT`; [len(rows)].

    An id counts within its rank only, and 0 means none. Where several calls carry one id, see `_choose`.
    """
    launches, low, high = candidates(trace, host, rows)
    found = np.full(len(rows), ROOT, dtype=np.int64)
    single = high - low == 1
    found[single] = launches[low[single]]
    several = np.flatnonzero(high - low > 1)
    if len(several):
        homes = _homes(trace, host, rows[single], found[single])
        for i in several.tolist():
            found[i] = _choose(trace, host, int(rows[i]), launches[low[i] : high[i]], homes)
    return found


def candidates(trace: Trace, host: Host, rows: Ints) -> tuple[Ints, Ints, Ints]:
    """Launch slices, and for each activity row the bounds of those that carry its id: [calls], [rows], [rows].

    The calls of one id stand in order of time.
    """
    calls = np.flatnonzero(host.kind == Kind.LAUNCH)
    calls = calls[trace.columns.correlation[host.row[calls]] > 0]
    call_ids, wanted = trace.columns.correlation[host.row[calls]], trace.columns.correlation[rows]
    call_ranks, wanted_ranks = ranks.groups(trace, host.row[calls]), ranks.groups(trace, rows)
    low = np.zeros(len(rows), dtype=np.int64)
    high = np.zeros(len(rows), dtype=np.int64)
    ordered = []
    before = 0
    for rank in ranks.distinct(wanted_ranks):
        mine, ours = np.flatnonzero(wanted_ranks == rank), np.flatnonzero(call_ranks == rank)
        order = ours[np.lexsort((host.start_ns[calls[ours]], call_ids[ours]))]
        low[mine] = before + np.searchsorted(call_ids[order], wanted[mine], side="left")
        high[mine] = before + np.searchsorted(call_ids[order], wanted[mine], side="right")
        ordered.append(calls[order])
        before += len(order)
    return np.concatenate([*ordered, calls[:0]]), low, high


def _homes(trace: Trace, host: Host, rows: Ints, launches: Ints) -> dict[int, int]:
    """For each device process the host process that most of its unambiguous launches come from."""
    process = trace.columns.process
    pairs = Counter(zip(process[rows].tolist(), process[host.row[launches]].tolist(), strict=True))
    return {device: home for (device, home), _ in sorted(pairs.items(), key=lambda item: item[1])}


def _choose(trace: Trace, host: Host, row: int, calls: Ints, homes: dict[int, int]) -> int:
    """The launch of ``row`` among ``calls`` of the same id.

    The latest that starts before the activity, and the earliest when all start later (clocks of host and device may
    disagree by microseconds). Ids of several host processes are those of several ranks: then only calls of the
    process that the other activities of this device come from are meant, and none when that cannot be told.
    """
    processes = trace.columns.process[host.row[calls]]
    if (processes != processes[0]).any():
        calls = calls[processes == homes.get(int(trace.columns.process[row]), ROOT)]
        if not len(calls):
            return ROOT
    before = calls[host.start_ns[calls] <= trace.columns.start_ns[row]]
    return int(before[-1] if len(before) else calls[0])
