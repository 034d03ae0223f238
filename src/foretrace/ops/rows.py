"""Ops that work through rows and keep their shape or part of it: softmax, scans, sorts, top-k."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foretrace.ops.bytes import Tensor
from foretrace.ops.dtypes import category
from foretrace.ops.unsaid import UnsaidError
from foretrace.ops.work import Entry, Figures, result, unknown

if TYPE_CHECKING:
    from foretrace.ops.args import Args
    from foretrace.ops.work import Rule


def _softmax(args: Args) -> Figures:
    """``_softmax(self, dim, half_to_float)``: subtract the maximum, exp, add, divide: four an element."""
    source = args.tensor(0)
    kind = "f32" if args.flag(2, default=False) else source.dtype
    return Figures(4 * source.elements, (source,), (result(args, Tensor(source.shape, kind), 3),))


def _softmax_with_dtype(args: Args) -> Figures:
    """``softmax(self, dim, dtype)``, which casts first where a type is named."""
    source = args.tensor(0)
    written = Tensor(source.shape, args.dtype(2) or source.dtype)
    return Figures(4 * source.elements, (source,), (written,))


def _softmax_backward(args: Args) -> Figures:
    """``_softmax_backward_data(grad, output, dim, input_dtype)``: (grad - sum(grad * y)) * y, four an element."""
    grad, output = args.tensor(0), args.tensor(1)
    written = result(args, Tensor(output.shape, args.dtype(3) or output.dtype), 4)
    return Figures(4 * output.elements, (grad, output), (written,))


def _scan(args: Args) -> Figures:
    """``cumsum(self, dim, dtype)``: one operation an element; integers widen to ``i64``."""
    source = args.tensor(0)
    kind = args.dtype(2) or source.dtype
    if args.dtype(2) is None and source.dtype is not None and category(source.dtype) in ("bool", "int"):
        kind = "i64"
    return Figures(source.elements, (source,), (result(args, Tensor(source.shape, kind), 3),))


def _with_indices(args: Args) -> Figures:
    """``cummax``, ``sort``: as many values and indices; one pass is the least that a sort can move."""
    source = args.tensor(0)
    return Figures(0, (source,), (Tensor(source.shape, source.dtype), Tensor(source.shape, "i64")))


def _argsort(args: Args) -> Figures:
    source = args.tensor(0)
    return Figures(0, (source,), (Tensor(source.shape, "i64"),))


def _topk(args: Args) -> Figures:
    """``topk(self, k, dim, largest, sorted)``: k values and indices along ``dim``."""
    source, k, dim = args.tensor(0), args.integer(1), args.integer(2, -1)
    rank = len(source.shape)
    if not -rank <= dim < rank:
        raise UnsaidError
    shape = tuple(k if axis == dim % rank else size for axis, size in enumerate(source.shape))
    return Figures(0, (source,), (Tensor(shape, source.dtype), Tensor(shape, "i64")))


def _entries(op_class: str, rule: Rule, names: str, *, composite: bool = False) -> dict[str, Entry]:
    return {name: Entry(op_class, rule, composite) for name in names.split()}


OPS: dict[str, Entry] = {
    **_entries("softmax", _softmax, "_softmax _log_softmax"),
    **_entries("softmax", _softmax_with_dtype, "softmax log_softmax _safe_softmax", composite=True),
    **_entries("softmax", _softmax_backward, "_softmax_backward_data _log_softmax_backward_data"),
    **_entries("softmax", unknown, "_masked_softmax _masked_softmax_backward"),
    **_entries("scan", _scan, "cumsum cumprod logcumsumexp"),
    **_entries("scan", _with_indices, "cummax cummin"),
    **_entries("sort", _with_indices, "sort"),
    **_entries("sort", _argsort, "argsort", composite=True),
    **_entries("sort", _topk, "topk"),
    **_entries("sort", unknown, "unique _unique2 msort unique_consecutive unique_dim searchsorted bucketize"),
}
