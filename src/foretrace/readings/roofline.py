"""How far from the hardware limit: achieved FLOP/s and bytes/s of every kernel against the device's ceilings.

The roofline model: Williams, Waterman, Patterson, *Roofline: an insightful visual performance model for multicore
architectures* (CACM 52(4), 2009). Rates are means over the steps: all the work over all the time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from foretrace.devices import find
from foretrace.readings.base import Answer, Column, Reading
from foretrace.readings.costs import MATRIX, Cost, ceiling_ns, cost, total
from foretrace.readings.lines import Line, event, lines, longest
from foretrace.units import flop_rate, percent, rate, significant

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from foretrace.devices import Device
    from foretrace.run import Run

ASK = "How far from the hardware limit?"

MOST_OF_PEAK, MOST_OF_BANDWIDTH = 1.1, 4.0
"""Shares of the ceilings that nothing real exceeds: peaks are those of the highest clock, while L2 gives small tensors
two to three times the memory's bandwidth."""

_COLUMNS = (
    Column("kernel", "kernel"),
    Column("op", "op"),
    Column("mean_ns", "µs", "ns"),
    Column("of_limit", "of limit", "share"),
    Column("bound", "bound"),
    Column("flops_per_s", "FLOP/s", "flop_rate"),
    Column("bytes_per_s", "B/s", "byte_rate"),
    Column("intensity", "FLOP/B", "ratio"),
    Column("work", "work"),
)


@dataclass(frozen=True, slots=True)
class Rates:
    """What one line of kernels achieved: work over time, ``None`` where the work is not known."""

    line: Line
    cost: Cost
    flops_per_s: float | None
    bytes_per_s: float | None
    of_limit: float | None

    @property
    def intensity(self) -> float | None:
        """FLOPs a byte."""
        both = self.flops_per_s is not None and self.bytes_per_s
        return self.flops_per_s / self.bytes_per_s if both and self.flops_per_s and self.bytes_per_s else None


def rates(run: Run, line: Line, helpers: Sequence[int] = ()) -> Rates:
    """Work of all kernels of the line over their time and that of their ``helpers``."""
    activities = run.activities
    index = list(line.activities)
    timed = [*index, *helpers]
    took = float((activities.end_ns[timed] - activities.start_ns[timed]).sum())
    flops, moved = total(run, index)
    limit = ceiling_ns(run, index)
    return Rates(
        line,
        cost(run, index[0]),
        flops / took * 1e9 if flops is not None and took else None,
        moved / took * 1e9 if moved is not None and took else None,
        limit / took if limit is not None and took else None,
    )


def too_fast(run: Run) -> str:
    """A sentence where kernels beat their limit by more than caches and clocks explain; empty where none does."""
    device = run.device
    if device is None:
        return ""
    for r in (rates(run, line) for line in lines(run)):
        peak = device.peak(r.cost.dtype) if r.cost.dtype else None
        over_peak = peak and r.flops_per_s and r.flops_per_s > MOST_OF_PEAK * peak
        bandwidth = device.memory_bytes_per_s
        over_memory = bandwidth and r.bytes_per_s and r.bytes_per_s > MOST_OF_BANDWIDTH * bandwidth
        if over_peak or over_memory:
            times = significant(r.of_limit or 0.0)
            beyond = f"{r.line.identity.short} would run at {times} times what {device.name} can do"
            own = [find(str(entry.get("name")), entry) for entry in run.device_properties]
            if device not in own and any(own):
                return f" The limits given are another device's: {beyond}, and the trace is of {run.device_name}."
            return f" The times or the shapes of this file cannot be right: {beyond}."
    return ""


def answer(run: Run) -> Answer | None:
    """A line for each kernel with its rates; ``None`` where no kernel was recorded."""
    every = lines(run)
    if not every:
        return None
    found = [rates(run, line) for line in every]
    shown = longest([r.line for r in found if r.flops_per_s is not None or r.bytes_per_s is not None])
    rows = tuple(_row(run, r) for r in found if r.line in shown)
    sentence, verdict = _sentence(run, found)
    return Answer("roofline", ASK, sentence, verdict, rows, _COLUMNS)


def _sentence(run: Run, found: Sequence[Rates]) -> tuple[str, str | None]:
    known = [r for r in found if r.bytes_per_s is not None or r.flops_per_s is not None]
    if not known:
        return "Unknown: the trace holds no shapes to compute work from (record_shapes=True records them).", "unknown"
    if run.device is None:
        name = run.device_name or "this device"
        text = f"Unknown: no ceilings are known for {name} (--device-spec takes them); the rates stand alone."
        return text, "unknown"
    parts = [*_matrix(run.device, known), *_memory(run.device, known)]
    all_ns = sum(r.line.total_ns for r in found if r.line.identity.op_class != "collective")
    small = sum(r.line.total_ns for r in known if r.cost.bound == "latency")
    if small > all_ns / 50:
        parts.append(f"{percent(small, all_ns)} of kernel time is in kernels too small to come near any limit")
    unknown = all_ns - sum(r.line.total_ns for r in known)
    if unknown > all_ns / 50:
        parts.append(f"the work behind {percent(unknown, all_ns)} of kernel time is not known")
    sentence = "; ".join(parts) or "The work of the kernels is known only in part"
    return f"{sentence[0].upper()}{sentence[1:]}.{too_fast(run)}", None


def _matrix(device: Device, known: Sequence[Rates]) -> Iterator[str]:
    for dtype in dict.fromkeys(r.cost.dtype for r in known if r.cost.bound == "compute"):
        peak = device.peak(dtype) if dtype else None
        some = [r for r in known if r.cost.bound == "compute" and r.cost.dtype == dtype and r.flops_per_s]
        if peak is None or not some:
            continue
        speeds = [r.flops_per_s for r in some if r.flops_per_s]
        matrix = all(r.line.identity.op_class in MATRIX for r in some)
        noun = "GEMMs and the like" if not matrix else _noun(some)
        shares = _between([s / peak * 100 for s in speeds])
        ridge = significant(peak / device.memory_bytes_per_s) if device.memory_bytes_per_s else None
        beyond = f", beyond the ridge at {ridge} FLOP/B" if ridge else ""
        label = " (sizes inferred)" if any(r.cost.inferred for r in some) else ""
        yield (
            f"{noun} reach {_between([s / 1e12 for s in speeds])} TFLOP/s, {shares} % of {dtype}'s "
            f"{flop_rate(peak, 1e9)}{beyond}{label}"
        )


def _noun(some: Sequence[Rates]) -> str:
    classes = {r.line.identity.op_class for r in some}
    return {"gemm": "GEMMs", "conv": "convolutions", "attention": "attention kernels"}.get(
        next(iter(classes)) if len(classes) == 1 else "", "matrix kernels"
    )


def _memory(device: Device, known: Sequence[Rates]) -> Iterator[str]:
    some = [r for r in known if r.cost.bound == "memory" and r.bytes_per_s]
    if not some or not device.memory_bytes_per_s:
        return
    speeds = [r.bytes_per_s for r in some if r.bytes_per_s]
    peak = device.memory_bytes_per_s
    cached = " (above 100 %: part of it came from L2)" if max(speeds) > peak else ""
    yield (
        f"memory-bound kernels move {_between([s / 1e12 for s in speeds])} TB/s, "
        f"{_between([s / peak * 100 for s in speeds])} % of {rate(peak, 1e9)}{cached}"
    )


def _between(values: Sequence[float]) -> str:
    """``691`` or ``690 to 758``."""
    low, high = significant(min(values)), significant(max(values))
    return low if low == high else f"{low} to {high}"


def _row(run: Run, r: Rates) -> dict[str, Any]:
    return {
        "kernel": r.line.identity.short,
        "op": r.line.op,
        "shapes": r.line.groups[0].shapes,
        "count": r.line.count,
        "mean_ns": round(r.line.mean_ns),
        "flops": r.cost.flops,
        "bytes": r.cost.moved_bytes,
        "peak_dtype": r.cost.dtype,
        "bound": r.cost.bound,
        "floor_ns": round(r.cost.floor_ns) if r.cost.floor_ns is not None else None,
        "of_limit": r.of_limit,
        "flops_per_s": r.flops_per_s or None,
        "bytes_per_s": r.bytes_per_s,
        "intensity": r.intensity,
        "work": "inferred" if r.cost.inferred else "recorded",
        "event": event(run, r.line.activities[0]),
    }


READING = Reading("roofline", ASK, answer)
