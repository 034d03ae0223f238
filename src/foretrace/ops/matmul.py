"""The matrix-product family: mm, bmm, addmm, linear, scaled and integer products, einsum of two operands."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from foretrace.ops.bytes import Tensor
from foretrace.ops.dtypes import promote
from foretrace.ops.flops import matmul_flops
from foretrace.ops.pointwise import broadcast
from foretrace.ops.unsaid import UnsaidError
from foretrace.ops.work import Entry, Figures, result

if TYPE_CHECKING:
    from foretrace.ops.args import Args
    from foretrace.ops.work import Rule

_MATRIX = 2  # rank of a matrix


@dataclass(frozen=True, slots=True)
class _Product:
    """Where a product's schema keeps what it reads.

    Attributes:
        left: Index of the left operand; the right one follows it.
        extras: Indices of further tensors that are read: bias, scales.
        out_dtype: Index of an optional ``out_dtype``.
        beta: Index of the factor of argument 0; with 0 that argument is not read.
        result_dtype: The result's type where it is not that of the operands.
        summed: Whether the batch is summed away (``addbmm``).
    """

    left: int = 0
    extras: tuple[int, ...] = ()
    out_dtype: int | None = None
    beta: int | None = None
    result_dtype: str | None = None
    summed: bool = False

    def __call__(self, args: Args) -> Figures:
        shift = 1 if self._has_dtype_overload(args) else 0
        left, right = args.tensor(self.left), args.tensor(self.left + 1)
        shape, flops = _contract(left.shape, right.shape)
        if self.summed:
            shape = shape[1:]
        kind = self._out_dtype(args, left, shift)
        after = max(self.left + 1, *self.extras, 0) + 1
        written = result(args, Tensor(shape, kind), after)
        return Figures(flops, (left, right, *self._extras(args, shift)), (written,), left.dtype)

    def _has_dtype_overload(self, args: Args) -> bool:
        """``addmm.dtype`` puts ``out_dtype`` before beta and alpha: one value more, and no ``out=`` behind."""
        return self.beta is not None and len(args) == self.beta + 3 and args.find(self.beta + 2) is None

    def _extras(self, args: Args, shift: int) -> list[Tensor]:
        if self.beta is not None and args.number(self.beta + shift, 1) == 0:
            return []
        found = (args.find(index) for index in self.extras)
        return [tensor for tensor in found if tensor is not None]

    def _out_dtype(self, args: Args, left: Tensor, shift: int) -> str | None:
        if shift and self.beta is not None:
            return args.dtype(self.beta)
        named = args.dtype(self.out_dtype) if self.out_dtype is not None and not args.find(self.out_dtype) else None
        return named or self.result_dtype or left.dtype


def _contract(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    """Shape and operations of ``matmul``: vectors, matrices, and batches that broadcast."""
    if not left or not right:
        raise UnsaidError
    m, k = (left[-2] if len(left) > 1 else 1), left[-1]
    n = right[-1] if len(right) > 1 else 1
    if k != (right[-2] if len(right) > 1 else right[-1]):
        raise UnsaidError
    batch = broadcast([left[:-2], right[:-2]])
    rows = (m,) if len(left) > 1 else ()
    columns = (n,) if len(right) > 1 else ()
    return (*batch, *rows, *columns), matmul_flops(m, n, k, math.prod(batch))


def _linear(args: Args) -> Figures:
    """``linear(input[..., K], weight[N, K], bias[N])``."""
    x, weight, bias = args.tensor(0), args.tensor(1), args.find(2)
    if not x.shape or not weight.shape or x.shape[-1] != weight.shape[-1]:
        raise UnsaidError
    n = weight.shape[:-1]
    flops = matmul_flops(math.prod(x.shape[:-1]), math.prod(n), x.shape[-1])
    reads = (x, weight) if bias is None else (x, weight, bias)
    return Figures(flops, reads, (result(args, Tensor((*x.shape[:-1], *n), x.dtype), 3),))


def _grouped(args: Args) -> Figures:
    """``_grouped_mm(self, mat2, offs, bias, out_dtype)``: with ragged rows every row meets one group's matrix."""
    left, right = args.tensor(0), args.tensor(1)
    if len(left.shape) == _MATRIX and len(right.shape) == _MATRIX + 1 and left.shape[1] == right.shape[1]:
        shape: tuple[int, ...] = (left.shape[0], right.shape[2])
        flops = matmul_flops(left.shape[0], right.shape[2], left.shape[1])
    elif len(left.shape) == len(right.shape) == _MATRIX + 1:
        shape, flops = _contract(left.shape, right.shape)
    else:
        raise UnsaidError  # the ragged dimension is summed over: group sizes are data
    extras = tuple(tensor for index in (2, 3) if (tensor := args.find(index)) is not None)
    kind = args.dtype(4) or left.dtype
    return Figures(flops, (left, right, *extras), (Tensor(shape, kind),))


def _outer(args: Args) -> Figures:
    """``outer(self[M], vec2[N])``: a broadcast multiplication."""
    one, other = args.tensor(0), args.tensor(1)
    shape = (one.elements, other.elements)
    return Figures(math.prod(shape), (one, other), (Tensor(shape, _both(one, other)),))


def _dot(args: Args) -> Figures:
    one, other = args.tensor(0), args.tensor(1)
    return Figures(2 * one.elements, (one, other), (Tensor((), one.dtype),))


def _einsum(args: Args) -> Figures:
    """``einsum(equation, [a, b])``: a multiply-add per point of all labels; Kineto keeps no equation."""
    equation, operands = args.text(0), args.tensors(1)
    if equation is None or "." in equation or len(operands) != _MATRIX:
        raise UnsaidError
    inputs, _, output = equation.replace(" ", "").partition("->")
    sizes: dict[str, int] = {}
    for labels, operand in zip(inputs.split(","), operands, strict=True):
        if len(labels) != len(operand.shape):
            raise UnsaidError
        sizes |= dict(zip(labels, operand.shape, strict=True))
    if "->" not in equation:
        output = "".join(sorted(label for label in sizes if inputs.count(label) == 1))
    shape = tuple(sizes[label] for label in output)
    written = Tensor(shape, _both(*operands))
    per_point = 2 if len(sizes) > len(output) else 1  # nothing summed: no additions
    return Figures(per_point * math.prod(sizes.values()), tuple(operands), (written,))


def _both(one: Tensor, other: Tensor) -> str | None:
    return None if one.dtype is None or other.dtype is None else promote((one.dtype, other.dtype))


def _gemm(rule: Rule, *, composite: bool = False) -> Entry:
    return Entry("gemm", rule, composite)


_ADDED = _Product(left=1, extras=(0,), beta=3)

OPS: dict[str, Entry] = {
    "mm": _gemm(_Product(out_dtype=2)),
    "bmm": _gemm(_Product(out_dtype=2)),
    "mv": _gemm(_Product()),
    "dot": _gemm(_dot),
    "vdot": _gemm(_dot),
    "addmm": _gemm(_ADDED),
    "addmv": _gemm(_ADDED),
    "baddbmm": _gemm(_ADDED),
    "addbmm": _gemm(_Product(left=1, extras=(0,), beta=3, summed=True)),
    "_addmm_activation": _gemm(_Product(left=1, extras=(0,))),
    "_int_mm": _gemm(_Product(result_dtype="i32")),
    # read beside the operands: scale of each, bias, scale of the result
    "_scaled_mm": _gemm(_Product(extras=(2, 3, 4, 5), out_dtype=6)),
    "_grouped_mm": _gemm(_grouped),
    "matmul": _gemm(_Product(), composite=True),
    "linear": _gemm(_linear, composite=True),
    "einsum": _gemm(_einsum, composite=True),
    "outer": Entry("pointwise", _outer, composite=True),
}
