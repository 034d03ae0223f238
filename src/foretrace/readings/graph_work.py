"""What the kernels of a CUDA graph compute, concluded: a graph's nodes carry no op and no shapes.

Two ways, both a conclusion and no record. A kernel whose name has one and the same work everywhere else in the file is
taken to do that work here too. Else, where a graph is a chain of matrix products with generated pointwise kernels
between them and has one static input, the sizes follow from that input and from the pointwise kernels' grids; the last
product is taken to come back to the input's width, as a residual block does. Anything else stays unknown.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from foretrace.ops.args import Args
from foretrace.ops.dtypes import dtype_bytes
from foretrace.run import ROOT, Kind, Run

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from foretrace.names import Identity

    Ints = NDArray[np.int64]

# Elements a block of Inductor's two configurations for long 1-D pointwise kernels, by threads (`triton_heuristics.py`:
# 1024 with one warp for 256 elements, 512 with one for 64), and the shortest loop that gets them.
_ELEMENTS_A_BLOCK = {128: 1_024, 256: 512}
_LONG_LOOP = 131_072
_COPIES = frozenset({"aten::_foreach_copy_", "aten::copy_"})


class Figures(NamedTuple):
    """Work of one kernel: FLOPs, bytes (−1 where unknown), the type whose peak applies, and a product's (M, N, K)."""

    flops: int
    moved_bytes: int
    dtype: str | None
    sizes: tuple[int, int, int] | None = None


def infer(run: Run, known: Mapping[int, Figures]) -> dict[int, Figures]:
    """Activity → work, for kernels inside graphs.

    Args:
        run: The run.
        known: Name code → work, for kernels outside graphs that have one work throughout the file.
    """
    columns, rows = run.trace.columns, run.activities.row
    found: dict[int, Figures] = {}
    chains: dict[bytes, list[Figures | None]] = {}
    for launch, kernels in _graphs(run):
        names, grids = columns.name[rows[kernels]], columns.grid[rows[kernels]]
        key = names.tobytes() + grids.tobytes()  # the same kernels with the same blocks: the same graph
        if key not in chains:
            chained = _chain(run, launch, kernels) if not known.keys() >= set(names.tolist()) else {}
            chains[key] = [
                known.get(name) or chained.get(kernel)
                for name, kernel in zip(names.tolist(), kernels.tolist(), strict=True)
            ]
        worked = zip(kernels.tolist(), chains[key], strict=True)
        found |= {kernel: figures for kernel, figures in worked if figures is not None}
    return found


def static_copies(run: Run) -> Ints:
    """Ops that copy into a graph's fixed addresses: in the call that launches the graph, before it."""
    host, activities = run.host, run.activities
    launches = np.unique(activities.launch[activities.in_graph & (activities.launch != ROOT)])
    parents = host.parent[launches]
    parents = parents[parents != ROOT]
    callers = np.union1d(parents, host.op[parents])
    codes = [code for code, name in enumerate(run.trace.tables.name) if name in _COPIES]
    copies = np.flatnonzero(np.isin(run.trace.columns.name[host.row], codes) & (host.kind == Kind.OPERATOR))
    found: Ints = copies[np.isin(host.parent[copies], callers[callers != ROOT])]
    return found


def static_inputs(run: Run, launch: int) -> list[tuple[tuple[int, ...], str | None]]:
    """(shape, short type) of the tensors copied into a graph's fixed addresses by the call that then launched it."""
    host = run.host
    parent = int(host.parent[launch])
    if parent == ROOT:
        return []
    around = int(host.op[parent]) if host.op[parent] != ROOT else parent
    before = np.arange(around + 1, launch)  # slices are in order of their start within a thread
    siblings = before[np.isin(host.parent[before], (around, parent))]
    return [tensor for slice_ in siblings.tolist() if run.name(slice_) in _COPIES for tensor in _copied(run, slice_)]


def _graphs(run: Run) -> Iterator[tuple[int, Ints]]:
    """Each graph launch with its kernels, in order of their start."""
    activities = run.activities
    inside = np.flatnonzero(activities.in_graph & (activities.launch != ROOT) & (activities.kind == Kind.KERNEL))
    launch = activities.launch[inside]
    order = np.argsort(launch, kind="stable")
    if len(order):
        for kernels in np.split(inside[order], np.flatnonzero(np.diff(launch[order])) + 1):
            yield int(activities.launch[kernels[0]]), kernels


def _copied(run: Run, op: int) -> list[tuple[tuple[int, ...], str | None]]:
    """(shape, short type) of what a copy writes: its first argument, one tensor or a list of them."""
    dims, types = run.op_argument(op, "dims"), run.op_argument(op, "types")
    if not dims or not types or not isinstance(dims[0], list):
        return []
    is_list = types[0] == "TensorList"
    args = Args(dims[0], ["?"] * len(dims[0]), (), ()) if is_list else Args(dims[:1], types[:1], (), ())
    return [(tensor.shape, tensor.dtype) for tensor in args.all_tensors()]


def _chain(run: Run, launch: int, kernels: Ints) -> dict[int, Figures]:
    """The work of a chain of products, or nothing where the graph is no such chain."""
    inputs = static_inputs(run, launch)
    identities = {kernel: run.identity(kernel) for kernel in kernels.tolist()}
    if len(inputs) != 1 or len(inputs[0][0]) < 2:  # noqa: PLR2004 - rows and columns
        return {}
    *leading, width = inputs[0][0]
    rows, depth = math.prod(leading), width
    found: dict[int, Figures] = {}
    waiting: list[int] = []
    for kernel, identity in identities.items():
        if identity.op_class == "gemm" and not identity.split_k:
            waiting.append(kernel)
            continue
        points = _points(run, kernel, identity)
        if points is None or not waiting or points % rows:
            return {}
        columns = points // rows
        found |= {product: _product(identities[product], rows, columns, depth) for product in waiting}
        moved = (len(waiting) + 1) * points * _width(identities[waiting[0]])
        found[kernel] = Figures(-1, moved, "f32")
        waiting, depth = [], columns
    if len(waiting) > 1 or not found:
        return {}
    found |= {product: _product(identities[product], rows, width, depth) for product in waiting}
    return found if _possible(run, found) else {}


def _points(run: Run, kernel: int, identity: Identity) -> int | None:
    """Elements of a generated 1-D pointwise kernel, from its grid and block; ``None`` where they do not say."""
    if not identity.name.startswith("triton_poi_"):
        return None
    grid, block = run.launch_shape(kernel)
    if not grid or not block or grid[1:] != [1, 1]:
        return None
    points = grid[0] * _ELEMENTS_A_BLOCK.get(block[0], 0)
    return points if points >= _LONG_LOOP else None


def _width(identity: Identity) -> int:
    return dtype_bytes(identity.in_dtype or "") or 0


def _product(identity: Identity, m: int, n: int, k: int) -> Figures:
    moved = (m * k + k * n + m * n) * _width(identity)
    return Figures(2 * m * n * k, moved, identity.in_dtype, (m, n, k))


def _possible(run: Run, found: Mapping[int, Figures]) -> bool:
    """Whether no product would beat its peak: sizes that need more are not these sizes."""
    for kernel, figures in found.items():
        peak = run.device.peak(figures.dtype) if run.device and figures.dtype else None
        took = int(run.activities.end_ns[kernel] - run.activities.start_ns[kernel])
        if peak is None or figures.moved_bytes <= 0 or figures.flops > peak * took / 1e9:
            return False
    return True
