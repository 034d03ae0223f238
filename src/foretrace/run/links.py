"""Which call launched which activity: by category and correlation, never by a list of API names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from foretrace.run.categories import Kind
from foretrace.run.tree import ROOT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from foretrace.run.model import Host
    from foretrace.trace import Trace

    Ints = NDArray[np.int64]


def link(trace: Trace, host: Host, rows: Ints) -> Ints:
    """For every activity row the slice of its launch, or `ROOT`; [len(rows)].

    Correlation 0 means none. Where several calls carry one id, the latest that starts before the activity is taken, and
    the earliest when all start later (clocks of host and device may disagree by microseconds).
    """
    columns = trace.columns
    launches = np.flatnonzero(host.kind == Kind.LAUNCH)
    ids = columns.correlation[host.row[launches]]
    real = ids > 0
    launches, ids = launches[real], ids[real]
    order = np.lexsort((host.start_ns[launches], ids))
    launches, ids = launches[order], ids[order]
    wanted = columns.correlation[rows]
    low = np.searchsorted(ids, wanted, side="left")
    high = np.searchsorted(ids, wanted, side="right")
    found = np.full(len(rows), ROOT, dtype=np.int64)
    single = (high - low == 1) & (wanted > 0)
    found[single] = launches[low[single]]
    for i in np.flatnonzero((high - low > 1) & (wanted > 0)).tolist():
        candidates = launches[low[i] : high[i]]
        before = candidates[host.start_ns[candidates] <= columns.start_ns[rows[i]]]
        found[i] = before[-1] if len(before) else candidates[0]
    return found
