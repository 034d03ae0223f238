"""What every activity costs at least, and which ceiling of the device that cost meets."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from foretrace.readings.carriers import of_class
from foretrace.readings.counting import MATRIX as MATRIX  # noqa: PLC0414 - part of what this module offers
from foretrace.readings.counting import Tally, block_counts, count, inside_device
from foretrace.run import Kind, Run

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

Bound: TypeAlias = Literal["overhead", "memory", "compute", "latency", "unknown"]
BOUNDS: tuple[Bound, ...] = ("unknown", "memory", "compute", "latency", "overhead")
"""`Costs.bound` holds positions in this tuple."""

LATENCY_NS = 2_000
"""A kernel takes about 2 µs whatever it does (launch on the device, first loads, drain)."""


@dataclass(frozen=True, slots=True)
class Cost:
    """One activity's cost; unknown is ``None``.

    Attributes:
        flops, moved_bytes: The work.
        dtype: Short type whose peak applies.
        compute_ns, memory_ns: The work at the device's peaks.
        floor_ns: The largest of both and about 2 µs of kernel latency.
        bound: What decides the floor.
        inferred: Whether the work was concluded and not recorded.
    """

    flops: int | None
    moved_bytes: int | None
    dtype: str | None
    compute_ns: float | None
    memory_ns: float | None
    floor_ns: float | None
    bound: Bound
    inferred: bool


@dataclass(frozen=True, slots=True)
class Costs:
    """`Cost` of every activity as arrays, [activities]: −1 or NaN where unknown, codes into ``dtypes`` and `BOUNDS`.

    ``sizes`` has (M, N, K) of the products inside graphs, as far as they could be inferred.
    """

    flops: Ints
    moved_bytes: Ints
    dtype: Ints
    dtypes: tuple[str | None, ...]
    compute_ns: Floats
    memory_ns: Floats
    bound: Ints
    inferred: NDArray[np.bool_]
    sizes: Mapping[int, tuple[int, int, int]]

    def of(self, activity: int) -> Cost:
        """The cost of one activity."""
        compute, memory = (_known(float(times[activity])) for times in (self.compute_ns, self.memory_ns))
        known = [ns for ns in (compute, memory) if ns is not None]
        flops, moved = int(self.flops[activity]), int(self.moved_bytes[activity])
        return Cost(
            flops=flops if flops >= 0 else None,
            moved_bytes=moved if moved >= 0 else None,
            dtype=self.dtypes[int(self.dtype[activity])],
            compute_ns=compute,
            memory_ns=memory,
            floor_ns=max(*known, float(LATENCY_NS)) if known else None,
            bound=BOUNDS[int(self.bound[activity])],
            inferred=bool(self.inferred[activity]),
        )


@lru_cache(maxsize=2)
def costs(run: Run) -> Costs:
    """The costs of every activity of a run."""
    tally = count(run)
    dtypes = tuple(tally.dtypes)
    compute, memory = _times(run, tally, dtypes)
    bound = _bounds(run, compute, memory)
    inferred, sizes = tally.inferred, tally.sizes
    return Costs(tally.flops, tally.moved_bytes, tally.dtype, dtypes, compute, memory, bound, inferred, sizes)


def ceiling_ns(run: Run, activities: Iterable[int]) -> float | None:
    """Time of several activities at their nearer peaks, without latency; ``None`` as soon as one is not known."""
    every, index = costs(run), np.fromiter(activities, dtype=np.int64)
    nearer = np.fmax(every.compute_ns[index], every.memory_ns[index])
    known = ~np.isnan(every.memory_ns[index]) | (every.compute_ns[index] > 0)
    return float(nearer.sum()) if len(index) and known.all() else None


def cost(run: Run, activity: int) -> Cost:
    """The cost of one activity."""
    return costs(run).of(activity)


def total(run: Run, activities: Iterable[int]) -> tuple[int | None, int | None]:
    """FLOPs and bytes of several activities together; ``None`` as soon as one of them is not known."""
    index = np.fromiter(activities, dtype=np.int64)
    every = costs(run)
    flops, moved = every.flops[index], every.moved_bytes[index]
    return (
        int(flops.sum()) if len(index) and (flops >= 0).all() else None,
        int(moved.sum()) if len(index) and (moved >= 0).all() else None,
    )


def _known(ns: float) -> float | None:
    return None if np.isnan(ns) else ns


def _times(run: Run, tally: Tally, dtypes: Sequence[str | None]) -> tuple[Floats, Floats]:
    device = run.device
    peaks = np.array([_per_ns(device.peak(d) if device and d else None) for d in dtypes])
    bandwidth = _per_ns(device.memory_bytes_per_s if device else None)
    compute = np.where(tally.flops >= 0, tally.flops / peaks[tally.dtype], np.nan)
    compute[tally.flops == 0] = 0.0 if device else np.nan
    memory = np.where(tally.moved_bytes >= 0, tally.moved_bytes / bandwidth, np.nan)
    over_a_link = (run.activities.kind == Kind.COPY) & ~inside_device(run)
    memory[over_a_link] = np.nan  # the link's ceiling is not the memory's
    return compute, memory


def _per_ns(per_second: float | None) -> float:
    return per_second / 1e9 if per_second else np.nan


def _bounds(run: Run, compute: Floats, memory: Floats) -> Ints:
    """Latency below about 2 µs of work or with less than half of the SMs in use, else the nearer ceiling.

    Half of a roofline decides nothing, except for kernels off the matrix units: their arithmetic hides behind memory.
    """
    known = ~np.isnan(memory) & (~np.isnan(compute) | ~of_class(run, *MATRIX))
    floor = np.fmax(compute, memory)
    bound = np.zeros(len(floor), dtype=np.int64)
    bound[known] = BOUNDS.index("memory")
    with np.errstate(invalid="ignore"):
        bound[known & (compute > memory)] = BOUNDS.index("compute")
        bound[known & ((floor < LATENCY_NS) | _few_blocks(run))] = BOUNDS.index("latency")
    return bound


def _few_blocks(run: Run) -> NDArray[np.bool_]:
    """Kernels with fewer blocks than half of the device's SMs, [activities]."""
    sms = run.device.sms if run.device else None
    blocks = block_counts(run)
    return (blocks >= 0) & (2 * blocks < (sms or 0))
