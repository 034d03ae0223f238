"""What kernels cost at least on a device, which limit decides, and at which batch size that changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foretrace.devices import Device

LATENCY_NS = 2_000
"""A kernel takes about 2 µs whatever it does: launch on the device, first loads, drain."""

EAGER_NS = 8_000
VIEW_NS = 1_500
COMPILED_NS = 4_000
GRAPH_NS = 40_000
"""Host time without a profiler, as rules of thumb: a kernel with its dispatch chain in eager code; an op that launches
nothing (18 of them take 41 µs profiled in the recorded eager MLP); a kernel in compiled code; the lookup, guards and
prologue of a compiled graph."""

MATRIX = frozenset({"gemm", "conv", "attention"})
"""Classes that run on matrix units; everything else meets the vector units' fp32 peak."""

_MOST_TIMES = 1 << 20


@dataclass(frozen=True, slots=True)
class Load:
    """The work of one kernel and what of it grows with the batch.

    Attributes:
        flops: Arithmetic operations, or ``None``.
        fixed_bytes: Bytes of weights and of the optimizer's state.
        growing_bytes: Bytes of activations; ``None`` when the bytes are not known.
        peak_dtype: Type whose peak the arithmetic meets.
        grows: Whether it depends on the batch at all.
    """

    flops: int | None
    fixed_bytes: int
    growing_bytes: int | None
    peak_dtype: str | None
    grows: bool = True

    @property
    def moved_bytes(self) -> int | None:
        """All bytes."""
        return None if self.growing_bytes is None else self.fixed_bytes + self.growing_bytes


def load(
    op_class: str, flops: int | None, moved: int | None, weights: int, dtype: str | None, *, grows: bool = True
) -> Load:
    """The load of a kernel; arithmetic outside matrix units meets the fp32 peak (fp64 its own)."""
    peak = dtype if op_class in MATRIX else "f64" if dtype == "f64" else "f32"
    fixed = min(weights, moved) if moved is not None else 0
    return Load(flops, fixed, None if moved is None else moved - fixed, peak, grows)


def floor(of: Load, device: Device | None, times: float = 1.0) -> tuple[int | None, str | None]:
    """The least time in ns and what decides it, at ``times`` the batch.

    Both are ``None`` without a device; where the bytes are not known the time holds still and nothing is said of why.
    """
    if device is None:
        return None, None
    compute, memory = _compute_ns(of, device, times), _memory_ns(of, device, times)
    if memory is None:
        return round(max(compute or 0.0, LATENCY_NS)), None
    decides = max((LATENCY_NS, "latency"), (memory, "memory"), (compute or 0.0, "compute"))
    return round(decides[0]), decides[1]


def _compute_ns(of: Load, device: Device | None, times: float) -> float | None:
    peak = device.peak(of.peak_dtype) if device is not None else None
    if of.flops is None or not peak:
        return None
    return of.flops * (times if of.grows else 1.0) / peak * 1e9


def _memory_ns(of: Load, device: Device | None, times: float) -> float | None:
    if of.growing_bytes is None or device is None or not device.memory_bytes_per_s:
        return None
    moved = of.fixed_bytes + of.growing_bytes * (times if of.grows else 1.0)
    return moved / device.memory_bytes_per_s * 1e9


def host_ns(kernels: int, views: int, graphs: int) -> int:
    """Host time of one call: eager when ``graphs`` is 0."""
    if graphs:
        return kernels * COMPILED_NS + graphs * GRAPH_NS
    return kernels * EAGER_NS + views * VIEW_NS


def regime(loads: Sequence[Load], device: Device | None, host: int) -> str:
    """Overhead-bound when the host needs longer than the device's floors; else by what most of the floors are."""
    total = _total(loads, device, 1.0)
    if total is None:
        return "unknown"
    if total < host:
        return "overhead-bound"
    shares = {"compute": 0, "memory": 0, "latency": 0}
    for one in loads:
        ns, decides = floor(one, device)
        shares[decides or "latency"] += ns or 0
    return "compute-bound" if shares["compute"] > shares["memory"] else "memory-bound"


def flips_at(loads: Sequence[Load], device: Device | None, host: int, batch: int | None) -> int | None:
    """The batch at which floors and host time are equal, by scaling what grows with it; ``None`` where none is."""
    now = _total(loads, device, 1.0)
    if now is None or not batch or not any(one.grows for one in loads):
        return None
    low, high = (1.0, float(_MOST_TIMES)) if now < host else (1.0 / batch, 1.0)
    below, above = _total(loads, device, low), _total(loads, device, high)
    if below is None or above is None or below >= host or above < host:
        return None
    for _ in range(60):
        middle = (low + high) / 2
        total = _total(loads, device, middle)
        low, high = (middle, high) if total is not None and total < host else (low, middle)
    return max(1, round(batch * high))


def _total(loads: Sequence[Load], device: Device | None, times: float) -> float | None:
    floors = [floor(one, device, times)[0] for one in loads]
    return float(sum(ns for ns in floors if ns is not None)) if floors and None not in floors else None
