"""What every activity costs at least, and which ceiling of the device that cost meets.

The work is that of the innermost op that launched (`foretrace.ops`), of the pointers that a generated kernel was given
(`pointers`), or, inside a CUDA graph, of the same kernel elsewhere in the file (`graph_work`). An op that launched
several kernels gives its work to the one that is of its class; helpers and memsets get none of it.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from foretrace.ops import work
from foretrace.ops.bytes import tensor_bytes
from foretrace.readings.carriers import carriers, of_class, sharers
from foretrace.readings.flow import flow
from foretrace.readings.graph_work import Figures, infer
from foretrace.readings.groups import call_codes, fold
from foretrace.readings.pointers import Pointers, pointers
from foretrace.run import Kind, Run

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from foretrace.names import Identity

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

Bound: TypeAlias = Literal["overhead", "memory", "compute", "latency", "unknown"]
BOUNDS: tuple[Bound, ...] = ("unknown", "memory", "compute", "latency", "overhead")
"""`Costs.bound` holds positions in this tuple."""

LATENCY_NS = 2_000
"""A kernel takes about 2 µs whatever it does (launch on the device, first loads, drain)."""
MATRIX = frozenset({"gemm", "conv", "attention"})
"""Classes that run on matrix units; everything else meets the vector units' fp32 peak."""

_COPY = re.compile(r"Memcpy|CopyDevice|CopyHost")
_INSIDE = re.compile(r"Memcpy DtoD|CopyDeviceToDevice")

# the words of kernel names for the element types of the device catalogue
_PEAK_NAMES = {"fp8": "f8", "fp4": "f4", "int8": "i8"}


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
    tally = _Tally.empty(len(run.activities))
    _count_copies(run, tally)
    _count_ops(run, tally, carriers(run))
    _share_ops(run, tally)
    concluded = infer(run, _settled(run, tally))
    for kernel, figures in concluded.items():
        tally.put(np.array([kernel]), figures, inferred=True)
    dtypes = tuple(tally.dtypes)
    compute, memory = _times(run, tally, dtypes)
    bound = _bounds(run, compute, memory)
    sizes = {kernel: figures.sizes for kernel, figures in concluded.items() if figures.sizes}
    return Costs(tally.flops, tally.moved_bytes, tally.dtype, dtypes, compute, memory, bound, tally.inferred, sizes)


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


@dataclass(frozen=True, slots=True)
class _Tally:
    """The work found so far, filled in place while `costs` counts; ``dtype`` holds codes of ``dtypes``."""

    flops: Ints
    moved_bytes: Ints
    dtype: Ints
    inferred: NDArray[np.bool_]
    dtypes: dict[str | None, int]

    @classmethod
    def empty(cls, count: int) -> _Tally:
        """Nothing known of ``count`` activities."""
        unknown, zero = np.full(count, -1, dtype=np.int64), np.zeros(count, dtype=np.int64)
        return cls(unknown, unknown.copy(), zero, zero.astype(np.bool_), {None: 0})

    def put(self, activities: Ints, figures: Figures, *, inferred: bool) -> None:
        """``figures`` for every one of ``activities``."""
        self.flops[activities] = figures.flops
        self.moved_bytes[activities] = figures.moved_bytes
        self.dtype[activities] = self.dtypes.setdefault(figures.dtype, len(self.dtypes))
        self.inferred[activities] = inferred


def _settled(run: Run, tally: _Tally) -> dict[int, Figures]:
    """Kernel names (codes) that have one and the same recorded work throughout the file."""
    if not run.activities.in_graph.any():
        return {}
    names = run.trace.columns.name[run.activities.row]
    counted = np.flatnonzero((run.activities.kind == Kind.KERNEL) & (tally.moved_bytes >= 0))
    rows = np.stack([names, tally.flops, tally.moved_bytes, tally.dtype], axis=1)[counted]
    works: dict[int, list[Figures]] = {}
    for name, flops, moved, dtype in np.unique(rows, axis=0).tolist():
        works.setdefault(name, []).append(Figures(flops, moved, tuple(tally.dtypes)[dtype]))
    return {name: figures[0] for name, figures in works.items() if len(figures) == 1}


def _known(ns: float) -> float | None:
    return None if np.isnan(ns) else ns


def _count_copies(run: Run, tally: _Tally) -> None:
    """Copies and sets say themselves what they move; a copy inside the device reads and writes as much."""
    activities, columns = run.activities, run.trace.columns
    moved = columns.moved_bytes[activities.row]
    own = np.isin(activities.kind, (Kind.COPY, Kind.SET)) & (moved >= 0)
    twice = np.where(_named(run, _INSIDE), 2, 1)
    tally.moved_bytes[own] = (moved * twice)[own]
    tally.flops[own] = 0


def _count_ops(run: Run, tally: _Tally, kernels: Ints) -> None:
    """The work of each different call, once, to all of its kernels."""
    if not len(kernels):
        return
    concrete = run.trace.columns.concrete[run.host.row[run.activities.op[kernels]]].astype(np.int64)
    code = fold(call_codes(run, kernels), concrete)
    overwriting = {int(c) for c in code[np.isin(kernels, sorted(flow(run).overwriting))]}
    order = np.argsort(code, kind="stable")
    for same in np.split(kernels[order], np.flatnonzero(np.diff(code[order])) + 1):
        first = int(same[0])
        found = _pointed(run, first)
        if found is None:
            tally.put(same, _recorded(run, first), inferred=False)
            continue
        if int(code[np.searchsorted(kernels, first)]) in overwriting:
            found = _with_write(run, same, found)
        peak = found.dtype if run.identity(first).op_class in MATRIX else "f32"
        tally.put(same, Figures(_or(found.flops), _or(found.moved_bytes), peak), inferred=True)


def _share_ops(run: Run, tally: _Tally) -> None:
    """The work of an op that launched one kernel several times, shared by the blocks of each launch: inferred."""
    crowds = sharers(run)
    if not crowds:
        return
    blocks = _block_counts(run)
    codes = call_codes(run, np.array([crowd[0] for crowd in crowds]))
    figures: dict[int, Figures] = {}
    for crowd, code in zip(crowds, codes.tolist(), strict=True):
        if code not in figures:
            figures[code] = _recorded(run, int(crowd[0]))
        whole, part = figures[code], blocks[crowd] / max(int(blocks[crowd].sum()), 1)
        if (blocks[crowd] <= 0).any():
            continue
        tally.put(crowd, Figures(-1, -1, whole.dtype), inferred=True)
        for column, value in ((tally.flops, whole.flops), (tally.moved_bytes, whole.moved_bytes)):
            if value >= 0:
                column[crowd] = np.rint(part * value).astype(np.int64)


def _pointed(run: Run, kernel: int) -> Pointers | None:
    """The pointers of a generated kernel, ``None`` for any other."""
    identity = run.identity(kernel)
    return pointers(identity, *_arguments(run, kernel)) if identity.family == "inductor" else None


def _recorded(run: Run, kernel: int) -> Figures:
    """The work of the op that launched a kernel."""
    identity = run.identity(kernel)
    shapes, dtypes, concrete, strides = _arguments(run, kernel)
    op = run.name(int(run.activities.op[kernel]))
    done = work(op, shapes, _named_lists(dtypes, shapes, identity.in_dtype), concrete, strides)
    if done is None:
        return Figures(-1, -1, None)
    return Figures(_or(done.flops), _or(done.moved_bytes), _peak_dtype(done.op_class, done.dtype, identity))


def _arguments(run: Run, kernel: int) -> tuple[Any, Any, Any, Any]:
    op = int(run.activities.op[kernel])
    shapes, dtypes, concrete, strides = (run.op_argument(op, c) for c in ("dims", "types", "concrete", "strides"))
    return shapes, dtypes, concrete, strides


def _with_write(run: Run, kernels: Ints, found: Pointers) -> Pointers:
    """The first pointer counted again, as a result, unless the memory could not have moved that much in the time."""
    again = tensor_bytes(found.tensors[0])
    if again is None or found.moved_bytes is None:
        return found
    moved = found.moved_bytes + again
    took = float((run.activities.end_ns - run.activities.start_ns)[kernels].mean())
    bandwidth = _per_ns(run.device.memory_bytes_per_s if run.device else None)
    return found if moved > bandwidth * took else replace(found, moved_bytes=moved)


def _or(value: int | None) -> int:
    return -1 if value is None else value


def _named_lists(dtypes: object, shapes: object, kind: str | None) -> list[object] | None:
    """Types with those of tensor lists filled in from the kernel's name, which the file does not repeat."""
    if not isinstance(dtypes, list) or not isinstance(shapes, list):
        return None
    return [
        [kind] * len(sizes) if dtype == "TensorList" and kind and isinstance(sizes, list) else dtype
        for dtype, sizes in zip(dtypes, shapes, strict=False)
    ]


def _peak_dtype(op_class: str, dtype: str | None, identity: Identity) -> str | None:
    if op_class not in MATRIX:
        return "f64" if dtype == "f64" else "f32"
    named = identity.in_dtype
    return _PEAK_NAMES.get(named, named) if named else dtype


def _times(run: Run, tally: _Tally, dtypes: Sequence[str | None]) -> tuple[Floats, Floats]:
    device = run.device
    peaks = np.array([_per_ns(device.peak(d) if device and d else None) for d in dtypes])
    bandwidth = _per_ns(device.memory_bytes_per_s if device else None)
    compute = np.where(tally.flops >= 0, tally.flops / peaks[tally.dtype], np.nan)
    compute[tally.flops == 0] = 0.0 if device else np.nan
    memory = np.where(tally.moved_bytes >= 0, tally.moved_bytes / bandwidth, np.nan)
    memory[_named(run, _COPY) & ~_named(run, _INSIDE)] = np.nan  # a link's ceiling, not the memory's
    return compute, memory


def _named(run: Run, pattern: re.Pattern[str]) -> NDArray[np.bool_]:
    codes = [code for code, name in enumerate(run.trace.tables.name) if pattern.match(name)]
    return np.isin(run.trace.columns.name[run.activities.row], codes)


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
    blocks = _block_counts(run)
    return (blocks >= 0) & (2 * blocks < (sms or 0))


@lru_cache(maxsize=2)
def _block_counts(run: Run) -> Ints:
    """Thread blocks of every activity's grid, −1 where the file has none, [activities]."""
    codes, inverse = np.unique(run.trace.columns.grid[run.activities.row], return_inverse=True)
    counts = [_blocks(run.trace.tables.decoded(int(code))) for code in codes]
    return np.array([-1 if count is None else count for count in counts], dtype=np.int64)[inverse]


def _blocks(grid: object) -> int | None:
    if not isinstance(grid, list) or not grid or not all(isinstance(size, int) for size in grid):
        return None
    return math.prod(grid)
