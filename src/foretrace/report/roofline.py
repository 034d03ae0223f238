"""The roofline plot of a run: the device's ceilings, and where its kernels lie below them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from foretrace.readings.lines import event, lines
from foretrace.readings.roofline import rates

if TYPE_CHECKING:
    from foretrace.readings.roofline import Rates
    from foretrace.run import Run


@dataclass(frozen=True, slots=True)
class Point:
    """Kernels in the roofline plot: FLOPs a byte, FLOP/s, their share of the kernel time, and one of their events."""

    label: str
    op: str | None
    intensity: float
    flops_per_s: float
    share: float
    bound: str
    event: int


@dataclass(frozen=True, slots=True)
class Roofline:
    """The plot: the memory's slope, a roof for each type that matrix kernels use, and the points.

    ``without`` counts the lines of kernels that have no place in it: their FLOPs or bytes are not known, or are zero.
    """

    device: str
    bytes_per_s: float
    roofs: tuple[tuple[str, float], ...]
    points: tuple[Point, ...]
    without: int


def roofline_of(run: Run) -> Roofline | None:
    """``None`` without a device whose bandwidth is known, or without any kernel whose work is."""
    if run.device is None or not run.device.memory_bytes_per_s:
        return None
    found = [rates(run, line) for line in lines(run)]
    whole = sum(r.line.total_ns for r in found)
    placed = [(r, point) for r in found if (point := _point(run, r, whole)) is not None]
    if not placed:
        return None
    dtypes = dict.fromkeys(r.cost.dtype for r, _ in placed if r.cost.dtype)
    roofs = [(dtype, run.device.peak(dtype)) for dtype in dtypes]
    return Roofline(
        device=run.device.name,
        bytes_per_s=run.device.memory_bytes_per_s,
        roofs=tuple((dtype, peak) for dtype, peak in roofs if peak),
        points=tuple(point for _, point in placed),
        without=len(found) - len(placed),
    )


def _point(run: Run, r: Rates, whole_ns: int) -> Point | None:
    if not r.intensity or not r.flops_per_s:
        return None
    share = r.line.total_ns / whole_ns if whole_ns else 0.0
    at = event(run, r.line.activities[0])
    return Point(r.line.identity.short, r.line.op, r.intensity, r.flops_per_s, share, r.cost.bound, at)
