"""The figures that every report of a run opens with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from foretrace.run import ROOT, Kind
from foretrace.run.intervals import gaps, union_ns

if TYPE_CHECKING:
    from foretrace.run import Run


@dataclass(frozen=True, slots=True)
class TraceFacts:
    """The file: where it is and what it says of itself; ``base_ns`` is text because it does not fit a double."""

    path: str
    device: str | None
    torch: str | None
    rank: int | None
    world_size: int | None
    base_ns: str
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts and integer nanoseconds over every kernel, copy and set.

    Attributes:
        kernels, copies, sets: How many of each.
        kernel_ns: Sum of the kernels' durations.
        busy_ns: Length of the union of all activities, of whichever GPU.
        span_ns: First start to last end.
        linked, orphans: Activities whose launch is, and is not, in the file.
        streams: Device streams that ran something.
        overlap_ns: Sum of all durations less their union.
        gaps, gap_ns, max_gap_ns: Holes between activities; ``gap_ns`` = ``span_ns`` − ``busy_ns``.
    """

    kernels: int
    copies: int
    sets: int
    kernel_ns: int
    busy_ns: int
    span_ns: int
    linked: int
    orphans: int
    streams: int
    overlap_ns: int
    gaps: int
    gap_ns: int
    max_gap_ns: int


def trace_facts(run: Run) -> TraceFacts:
    """What the file of ``run`` is."""
    versions = run.environment.versions if run.environment else {}
    torch = versions.get("torch")
    return TraceFacts(
        path=run.trace.path,
        device=run.device_name,
        torch=torch if isinstance(torch, str) else None,
        rank=run.rank,
        world_size=run.world_size,
        base_ns=str(run.trace.base_ns),
        notes=tuple(note.text for note in run.notes),
    )


def totals(run: Run) -> Totals:
    """The totals of ``run``; all zero where nothing ran on a device."""
    a = run.activities
    length = a.end_ns - a.start_ns
    kernel = a.kind == Kind.KERNEL
    linked = int(np.count_nonzero(a.launch != ROOT))
    hole_start, hole_end = gaps(a.start_ns, a.end_ns)
    holes = hole_end - hole_start
    busy = union_ns(a.start_ns, a.end_ns)
    return Totals(
        kernels=int(np.count_nonzero(kernel)),
        copies=int(np.count_nonzero(a.kind == Kind.COPY)),
        sets=int(np.count_nonzero(a.kind == Kind.SET)),
        kernel_ns=int(length[kernel].sum()),
        busy_ns=busy,
        span_ns=int(a.end_ns.max() - a.start_ns.min()) if len(a) else 0,
        linked=linked,
        orphans=len(a) - linked,
        streams=len(np.unique(np.stack([a.device, a.stream])[:, a.stream >= 0], axis=1).T),
        overlap_ns=int(length.sum()) - busy,
        gaps=len(holes),
        gap_ns=int(holes.sum()),
        max_gap_ns=int(holes.max()) if len(holes) else 0,
    )
