"""What every activity does: FLOPs and bytes, counted once.

The work is that of the innermost op that launched (`foretrace.ops`), of the pointers that a generated kernel was given
(`pointers`), or, inside a CUDA graph, concluded (`graph_work`). An op that launched several kernels gives its work to
the one that is of its class; helpers and memsets get none of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from foretrace.names import copy_way
from foretrace.ops import work
from foretrace.ops.bytes import tensor_bytes
from foretrace.readings.carriers import carriers, sharers
from foretrace.readings.flow import flow
from foretrace.readings.graph_work import Figures, infer
from foretrace.readings.groups import call_codes, fold
from foretrace.readings.pointers import Pointers, custom_pointwise, pointers
from foretrace.run import Kind, Run
from foretrace.run.recorded import extent

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from foretrace.names import Identity

    Ints = NDArray[np.int64]

_MOST_WORK = 1 << 60
"""A thousand petaFLOPs or petabytes in one kernel: the shapes cannot be right."""
MATRIX = frozenset({"gemm", "conv", "attention"})
"""Classes that run on matrix units; everything else meets the vector units' fp32 peak."""

# the words of kernel names for the element types of the device catalogue
_PEAK_NAMES = {"fp8": "f8", "fp4": "f4", "int8": "i8"}


@dataclass(frozen=True, slots=True)
class Tally:
    """The work of every activity, [activities]: −1 where unknown; ``dtype`` holds codes of ``dtypes``.

    ``dtype`` is the type whose peak applies; ``sizes`` are (M, N, K) of products in graphs, where they were concluded.
    """

    flops: Ints
    moved_bytes: Ints
    dtype: Ints
    inferred: NDArray[np.bool_]
    dtypes: dict[str | None, int]
    sizes: dict[int, tuple[int, int, int]]

    @classmethod
    def empty(cls, count: int) -> Tally:
        """Nothing known of ``count`` activities."""
        unknown, zero = np.full(count, -1, dtype=np.int64), np.zeros(count, dtype=np.int64)
        return cls(unknown, unknown.copy(), zero, zero.astype(np.bool_), {None: 0}, {})

    def put(self, activities: Ints, figures: Figures, *, inferred: bool) -> None:
        """``figures`` for every one of ``activities``."""
        self.flops[activities] = figures.flops
        self.moved_bytes[activities] = figures.moved_bytes
        self.dtype[activities] = self.dtypes.setdefault(figures.dtype, len(self.dtypes))
        self.inferred[activities] = inferred


def count(run: Run) -> Tally:
    """Count the work of a run."""
    tally = Tally.empty(len(run.activities))
    _count_copies(run, tally)
    _count_ops(run, tally, carriers(run))
    _share_ops(run, tally)
    concluded: dict[Figures, list[int]] = {}
    for kernel, figures in infer(run, _settled(run, tally)).items():
        concluded.setdefault(figures, []).append(kernel)
    for figures, kernels in concluded.items():
        tally.put(np.array(kernels), figures, inferred=True)
        if figures.sizes:
            tally.sizes.update(dict.fromkeys(kernels, figures.sizes))
    return tally


def _settled(run: Run, tally: Tally) -> dict[int, Figures]:
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


def _count_copies(run: Run, tally: Tally) -> None:
    """Copies and sets say themselves what they move; a copy inside the device reads and writes as much."""
    activities, columns = run.activities, run.trace.columns
    moved = columns.moved_bytes[activities.row]
    own = np.isin(activities.kind, (Kind.COPY, Kind.SET)) & (moved >= 0)
    twice = np.where(inside_device(run), 2, 1)
    tally.moved_bytes[own] = (moved * twice)[own]
    tally.flops[own] = 0


def _count_ops(run: Run, tally: Tally, kernels: Ints) -> None:
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


def _share_ops(run: Run, tally: Tally) -> None:
    """The work of an op that launched one kernel several times, shared by the blocks of each launch: inferred."""
    crowds = sharers(run)
    if not crowds:
        return
    blocks = block_counts(run)
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
    """The tensors of a generated kernel or of a custom pointwise one; ``None`` where the table knows the op."""
    identity = run.identity(kernel)
    shapes, dtypes, concrete, strides = _arguments(run, kernel)
    if identity.family == "inductor":
        return pointers(identity, shapes, dtypes, concrete, strides)
    known = work(run.name(int(run.activities.op[kernel])), shapes, dtypes, concrete, strides) is not None
    return None if known else custom_pointwise(identity, shapes, dtypes, strides)


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
    bandwidth = run.device.memory_bytes_per_s if run.device else None
    too_much = bandwidth is not None and moved > bandwidth * took / 1e9
    return found if too_much else replace(found, moved_bytes=moved)


def _or(value: int | None) -> int:
    """−1 for an unknown work, and for one that no device would finish: sums of it would leave 64 bits."""
    return -1 if value is None or value >= _MOST_WORK else value


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


def inside_device(run: Run) -> NDArray[np.bool_]:
    """Copies from the device's memory to itself, [activities]."""
    return _copies(run, ("DtoD",))


def over_host_link(run: Run) -> NDArray[np.bool_]:
    """Copies between the host's memory and a device's, [activities]."""
    return _copies(run, ("HtoD", "DtoH"))


def _copies(run: Run, ways: tuple[str, ...]) -> NDArray[np.bool_]:
    codes = [code for code, name in enumerate(run.trace.tables.name) if copy_way(name) in ways]
    named: NDArray[np.bool_] = (run.activities.kind == Kind.COPY) & np.isin(
        run.trace.columns.name[run.activities.row], codes
    )
    return named


@lru_cache(maxsize=2)
def block_counts(run: Run) -> Ints:
    """Thread blocks of every activity's grid, −1 where the file has none, [activities]."""
    codes, inverse = np.unique(run.trace.columns.grid[run.activities.row], return_inverse=True)
    grids = [extent(run.trace.tables.decoded(int(code))) for code in codes]
    return np.array([-1 if grid is None else math.prod(grid) for grid in grids], dtype=np.int64)[inverse]
