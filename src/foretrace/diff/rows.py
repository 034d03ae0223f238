"""The kernels of one step as rows that can be told apart and matched: name, work, time in each step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from foretrace import stats
from foretrace.ops import SEVERAL_PRODUCTS, launches_nothing, short_dtype, work
from foretrace.readings.costs import MATRIX, cost
from foretrace.readings.groups import MOST_ALIGNED, aligned, groups, keyed, periods
from foretrace.readings.pointers import pointers
from foretrace.run import ROOT

if TYPE_CHECKING:
    from foretrace.names import Identity
    from foretrace.readings.groups import Group
    from foretrace.run import Run

_BIAS_OP = {"bias": "add"}
_PRODUCTS = {"gated": 2, "gated backward": 1}
"""How many products of plain kernels one with such an epilogue stands for, and what is between them."""


@dataclass(frozen=True, slots=True)
class Work:
    """What a kernel does, apart from how; unknown is ``None``.

    Attributes:
        op_class: As in the contract of kernels.
        ops: Bare names of the ops inside, without views and bookkeeping; empty where nobody says.
        flops: Arithmetic operations of one launch.
        out_elements: Elements of the result of a matrix op.
        elements: Elements of the largest recorded tensor.
        shapes: The recorded shapes as text, to tell calls apart.
    """

    op_class: str
    ops: frozenset[str]
    flops: int | None
    out_elements: int | None
    elements: int | None
    shapes: str


@dataclass(frozen=True, slots=True)
class Row:
    """One kernel of the step.

    Attributes:
        name, identity: As in the file, and decoded.
        work: What it does.
        chain: Bare names of every op around its launch.
        op, region, module: Where it comes from, or ``None``.
        shapes: The op's inputs as recorded, or ``None``.
        dtype: Short type of its first recorded tensor, else the one in its name.
        times_ns: Its GPU time in each step that is counted; 0 where it did not run.
        count: Launches a step.
    """

    name: str
    identity: Identity
    work: Work
    chain: frozenset[str]
    op: str | None
    region: str | None
    module: str | None
    shapes: Any
    dtype: str | None
    times_ns: tuple[int, ...]
    count: float

    @property
    def is_matrix(self) -> bool:
        """Whether it is a product, a convolution or attention."""
        return self.work.op_class in MATRIX

    @property
    def products(self) -> int:
        """How many matrix kernels it stands for, with the pointwise ones between; 0 where it is only itself."""
        return _PRODUCTS.get(self.identity.epilogue or "", 0)

    @property
    def holds_several(self) -> bool:
        """Whether its one kernel does products of different shapes."""
        return self.op in SEVERAL_PRODUCTS

    @property
    def median_ns(self) -> float:
        """Median GPU time a step."""
        return stats.median(self.times_ns) or 0.0

    @property
    def extras(self) -> frozenset[str]:
        """Ops that a matrix kernel says to do besides its product: a template's list, an epilogue's words."""
        if not self.is_matrix:
            return frozenset()
        words = (self.identity.epilogue or "").split("+")
        return _launching(self.identity.fused_ops or ()) | {_BIAS_OP.get(word, word) for word in words if word}


def rows_of(before: Run, after: Run) -> tuple[tuple[Row, ...], tuple[Row, ...]]:
    """The rows of both runs, by position in the step where both allow it, else by kind of call.

    A run whose steps differ can only be grouped by kind of call; then the other one is grouped likewise.
    """
    by_position = _aligned(before) and _aligned(after)
    return _rows(before, by_position=by_position), _rows(after, by_position=by_position)


def other_size(x: Row, y: Row) -> bool:
    """Whether two rows are known to differ in how much they do, whatever else their recorded shapes hold."""
    names = ("flops", "out_elements") if x.is_matrix and y.is_matrix else ("elements",)
    pairs = [(getattr(x.work, name), getattr(y.work, name)) for name in names]
    return any(p != q for p, q in pairs if p is not None and q is not None)


def bare(op: str) -> str:
    """``aten::mul_`` → ``mul``: the name by which generated kernels list an op."""
    name = op.rpartition("::")[2].partition(".")[0]
    return name.rstrip("_") or name


def _aligned(run: Run) -> bool:
    kernels = [run.kernels(period) for period in periods(run)]
    return not kernels or (aligned(run, kernels) and len(kernels[0]) <= MOST_ALIGNED)


def _rows(run: Run, *, by_position: bool) -> tuple[Row, ...]:
    found = groups(run) if by_position else keyed(run, [run.kernels(period) for period in periods(run)])
    return tuple(_row(run, group) for group in found)


def _row(run: Run, group: Group) -> Row:
    first = run.activity(group.activities[0])
    lengths = run.activities.end_ns - run.activities.start_ns
    ops = tuple(op for op in first.chain if op != first.region)
    dtypes = [short_dtype(d) for d in group.dtypes or () if isinstance(d, str)]
    recorded = next((d for d in dtypes if d), None)
    return Row(
        name=group.name,
        identity=group.identity,
        work=_work(run, group),
        chain=frozenset(bare(op) for op in ops),
        op=group.op if not first.graph else None,
        region=group.region,
        module=group.module,
        shapes=group.shapes,
        dtype=recorded or group.identity.in_dtype,
        times_ns=tuple(int(lengths[list(step)].sum()) if step else 0 for step in group.per_step),
        count=group.count,
    )


def _work(run: Run, group: Group) -> Work:
    identity, kernel = group.identity, group.activities[0]
    in_graph = bool(run.activities.in_graph[kernel])
    op_class = _class(identity, None if in_graph else group.op)
    if op_class in MATRIX:
        ops = frozenset({op_class})
    elif identity.fused_ops:
        ops = _launching(identity.fused_ops)
    else:
        ops = frozenset({bare(group.op)}) if group.op and not in_graph else frozenset()
    return Work(
        op_class=op_class,
        ops=ops,
        flops=cost(run, kernel).flops if op_class in MATRIX else None,
        out_elements=_out_elements(run, group) if op_class in MATRIX else None,
        elements=_largest(group.shapes),
        shapes=repr(group.shapes),
    )


def _class(identity: Identity, op: str | None) -> str:
    """The class in the name; where the name says none, that of the op."""
    if identity.op_class not in {"unknown", "other"} or op is None:
        return identity.op_class
    done = work(op, None, None)
    return done.op_class if done else identity.op_class


def _launching(ops: tuple[str, ...]) -> frozenset[str]:
    return frozenset(bare(op) for op in ops if not launches_nothing(f"aten::{op}"))


def _out_elements(run: Run, group: Group) -> int | None:
    op = int(run.activities.op[group.activities[0]])
    if op == ROOT or group.op is None:
        return None
    arguments = [run.op_argument(op, column) for column in ("dims", "types", "concrete", "strides")]
    if group.identity.family == "inductor":
        pointed = pointers(group.identity, *arguments)
        return pointed.tensors[-1].elements if pointed else None
    done = work(group.op, *arguments)
    return int(np.prod(done.out_shape)) if done and done.out_shape else None


def _largest(shapes: object) -> int | None:
    """Elements of the largest tensor in (nested) recorded shapes."""
    if not isinstance(shapes, list) or not shapes:
        return None
    if all(isinstance(size, int) for size in shapes):
        return int(np.prod(shapes))
    return max((size for size in map(_largest, shapes) if size is not None), default=None)
