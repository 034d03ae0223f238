"""Where a stretch of time went: GPU busy, or idle and why; every nanosecond has exactly one row.

When the GPU falls idle, the launch of what it runs next has begun or it has not. If it has, the call is still running
or the work is on its way. If not, the host was late, and what the launching threads did meanwhile is the cause.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from foretrace.readings.calls import Call, calls
from foretrace.readings.host import compile_scopes, cpu_computing, matching
from foretrace.readings.unseen import on_launching_threads, unseen
from foretrace.run import ROOT, Kind, Run
from foretrace.run.categories import kind_of
from foretrace.run.intervals import clip, covered_ns, merge

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Intervals = tuple[Ints, Ints]

BUSY = "busy"
LATE = "launch-bound: call not begun"
RUNNING = "launch-bound: call running"
QUEUED = "launch-bound: on its way"
AFTER = "after the last launch"
CPU = "computing on the CPU"
UNKNOWN = "not attributed"

_DATA = re.compile(r"enumerate\(DataLoader\)|.*dataloader\.py.*__next__")
_LAZY = re.compile(r"Lazy Function Loading|Runtime Triggered Module Loading|.*Module Loading")


@dataclass(frozen=True, slots=True)
class Gaps:
    """The holes of GPU activity in a stretch, in order of time, [n] each.

    Attributes:
        start, end: Nanoseconds.
        following: The activity that ends the gap, or −1 after the last one.
        late: The launch of that activity had not begun when the gap began.
        running: That launch call had begun and not returned.
        linked: Whether its launch is in the file.
    """

    start: Ints
    end: Ints
    following: Ints
    late: NDArray[np.bool_]
    running: NDArray[np.bool_]
    linked: NDArray[np.bool_]

    @property
    def lengths(self) -> Ints:
        """Nanoseconds of each gap."""
        return self.end - self.start


def gaps(run: Run, low: int, high: int) -> Gaps:
    """The holes between ``low`` and ``high``."""
    a = run.activities
    busy_start, busy_end = merge(*clip(a.start_ns, a.end_ns, low, high))
    start, end = np.append(low, busy_end), np.append(busy_start, high)
    real = start < end
    start, end = start[real], end[real]
    following = np.searchsorted(a.start_ns, end, side="left")
    following = np.where((following < len(a)) & (end < high), following, ROOT)
    launch = np.where(following != ROOT, a.launch[following] if len(a) else ROOT, ROOT)
    linked = launch != ROOT
    launched = np.where(linked, run.host.start_ns[launch] if len(run.host) else 0, high)
    returned = np.where(linked, run.host.end_ns[launch] if len(run.host) else 0, high)
    late = linked & (launched >= start)
    return Gaps(start, end, following, late, linked & ~late & (returned > start), linked)


@lru_cache(maxsize=2)
def _causes(run: Run) -> tuple[tuple[str, Intervals], ...]:
    """What may keep the host from launching, in order of precedence; intervals of the launching threads."""
    host, kind = run.host, calls(run)
    here = on_launching_threads(run)

    def of(mask: NDArray[np.bool_]) -> Intervals:
        return merge(host.start_ns[mask & here], host.end_ns[mask & here])

    scopes = host.kind != Kind.LAUNCH
    return (
        ("profiler overhead", _overhead(run, lazy=False)),
        ("first use of a kernel", _overhead(run, lazy=True)),
        ("compile", of(compile_scopes(run))),
        ("data loading", of(matching(run, _DATA) & scopes)),
        (CPU, of(cpu_computing(run))),
        ("synchronize", of(kind == Call.WAIT)),
        ("copies", of(kind == Call.COPY)),
        ("allocator", of(np.isin(kind, (Call.ALLOCATE, Call.FREE)))),
        (UNKNOWN, unseen(run)),
    )


def _overhead(run: Run, *, lazy: bool) -> Intervals:
    """The profiler's own events: loading a kernel for the first time, or (``lazy`` false) everything else."""
    columns, tables = run.trace.columns, run.trace.tables
    kinds = [code for code, category in enumerate(tables.category) if kind_of(category) == Kind.OVERHEAD]
    names = [code for code, name in enumerate(tables.name) if bool(_LAZY.match(name)) == lazy]
    chosen = np.isin(columns.category, kinds) & np.isin(columns.name, names) & (columns.dur_ns > 0)
    return merge(columns.start_ns[chosen], columns.start_ns[chosen] + columns.dur_ns[chosen])


def breakdown(run: Run, low: int, high: int) -> dict[str, int]:
    """Nanoseconds of [low, high) by cause; they add up to ``high − low``."""
    a = run.activities
    found = gaps(run, low, high)
    length = found.lengths
    last = found.following == ROOT
    parts = {
        BUSY: high - low - int(length.sum()),
        RUNNING: int(length[found.running].sum()),
        QUEUED: int(length[found.linked & ~found.late & ~found.running].sum()),
        UNKNOWN: int(length[~found.linked & ~last].sum()),
    }
    for chosen, rest in ((found.late, LATE), (last, AFTER)):
        points = found.start[chosen], found.end[chosen]
        cover: Intervals = (np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
        before = 0
        for cause, intervals in _causes(run):
            cover = merge(*(np.concatenate(pair) for pair in zip(cover, intervals, strict=True)))
            so_far = covered_ns(points, cover)
            parts[cause] = parts.get(cause, 0) + so_far - before
            before = so_far
        parts[rest] = int(length[chosen].sum()) - before
    assert len(a) == 0 or sum(parts.values()) == high - low, "a breakdown adds up to its window"
    return parts


def unseen_ns(run: Run, low: int, high: int) -> int:
    """How long of [low, high) the GPU waits while the host records nothing, nanoseconds."""
    found = gaps(run, low, high)
    before_orphans = found.lengths[~found.linked & (found.following != ROOT)]
    return breakdown(run, low, high)[UNKNOWN] - int(before_orphans.sum())
