"""Reductions: ops that combine the elements along some or all dimensions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from foretrace.ops.bytes import Tensor
from foretrace.ops.dtypes import category
from foretrace.ops.pointwise import pointwise
from foretrace.ops.unsaid import UnsaidError
from foretrace.ops.work import Entry, Figures, result, unknown

if TYPE_CHECKING:
    from foretrace.ops.args import Args

# A result's element type: that of the input, that of a sum over it (integers widen), or one of its own.
_Kind: TypeAlias = Literal["same", "sum", "bool", "i64"]


@dataclass(frozen=True, slots=True)
class _Reduction:
    """Where a reduction's schema keeps its arguments, and what it makes.

    One op has overloads with and without dimensions; those with dimensions have a ``keepdim``.

    Attributes:
        flops: Operations an input element.
        results: Element type of each result.
        dim: Index of the dimensions; none given means all.
        keepdim: Index of the flag that keeps them as size 1.
        has_dtype: Whether a ``dtype`` may follow, after ``keepdim`` or in the place of ``dim``.
    """

    flops: int
    results: tuple[_Kind, ...] = ("same",)
    dim: int = 1
    keepdim: int = 2
    has_dtype: bool = False

    def __call__(self, args: Args) -> Figures:
        source = args.tensor(0)
        with_dims = args.is_a(self.dim, "ScalarList") or _given(args) > self.keepdim
        shape = self._shape(args, source) if with_dims else ()
        kinds = [self._kind(args, source, name, with_dims=with_dims) for name in self.results]
        written = tuple(Tensor(shape, kind) for kind in kinds)
        if len(written) == 1:
            written = (result(args, written[0], self.dim),)
        return Figures(self.flops * source.elements, (source,), written)

    def _shape(self, args: Args, source: Tensor) -> tuple[int, ...]:
        rank = len(source.shape)
        all_dims = args.text(self.dim) is None and not args.is_a(self.dim, "ScalarList")
        given = [] if all_dims else args.integers(self.dim)
        if any(not -max(rank, 1) <= dim < max(rank, 1) for dim in given):
            raise UnsaidError
        dims = {dim % max(rank, 1) for dim in given} or set(range(rank))
        if args.flag(self.keepdim, default=False):
            return tuple(1 if axis in dims else size for axis, size in enumerate(source.shape))
        return tuple(size for axis, size in enumerate(source.shape) if axis not in dims)

    def _kind(self, args: Args, source: Tensor, name: _Kind, *, with_dims: bool) -> str | None:
        if name in ("bool", "i64"):
            return name
        named = args.dtype(self.keepdim + 1 if with_dims else self.dim) if self.has_dtype else None
        if named is not None or source.dtype is None:
            return named
        return "i64" if name == "sum" and category(source.dtype) in ("bool", "int") else source.dtype


def _given(args: Args) -> int:
    """Number of arguments without the ``out=`` tensors at the end."""
    count = len(args)
    while count > 1 and args.find(count - 1) is not None:
        count -= 1
    return count


def _extremum(args: Args) -> Figures:
    """``max`` and ``min``: of all elements, along a dimension with indices, or of two tensors elementwise."""
    if args.find(1) is not None:
        return pointwise(2, 0)(args)
    along = _given(args) > 1
    return _Reduction(0, ("same", "i64") if along else ("same",))(args)


def _reduction(rule: _Reduction, *, composite: bool = False) -> Entry:
    return Entry("reduction", rule, composite)


def _loss(args: Args) -> Figures:
    """``nll_loss_forward(self[N, C], target[N], weight, reduction, ignore_index)``: one score a target is read."""
    scores, target, weight = args.tensor(0), args.tensor(1), args.find(2)
    picked = Tensor(target.shape, scores.dtype)
    shape = () if args.integer(3) else target.shape  # reduction 0 is none, 1 mean, 2 sum
    reads = (picked, target) if weight is None else (picked, target, weight)
    return Figures(target.elements, reads, (Tensor(shape, scores.dtype), Tensor((), scores.dtype)))


def _loss_backward(args: Args) -> Figures:
    """``nll_loss_backward(grad, self[N, C], target[N], …)``: a gradient of zeros, one entry a target set."""
    scores, target = args.tensor(1), args.tensor(2)
    reads = (args.tensor(0), target)
    return Figures(target.elements, reads, (Tensor(scores.shape, scores.dtype),), scores.dtype)


_NORM = _Reduction(2, dim=2, keepdim=3, has_dtype=True)
_UNKNOWN = Entry("reduction", unknown)
_LOSS, _LOSS_BACKWARD = Entry("reduction", _loss), Entry("reduction", _loss_backward)

# Operations an input element: one addition (or product); comparisons are no arithmetic and count nothing.
OPS: dict[str, Entry] = {
    **dict.fromkeys(("sum", "nansum", "prod"), _reduction(_Reduction(1, ("sum",), has_dtype=True))),
    "mean": _reduction(_Reduction(1, has_dtype=True)),
    "nanmean": _reduction(_Reduction(1, has_dtype=True)),
    **dict.fromkeys(("amax", "amin"), _reduction(_Reduction(0))),
    **dict.fromkeys(("argmax", "argmin"), _reduction(_Reduction(0, ("i64",)))),
    **dict.fromkeys(("any", "all"), _reduction(_Reduction(0, ("bool",)))),
    "count_nonzero": _reduction(_Reduction(0, ("i64",))),
    **dict.fromkeys(("max", "min"), Entry("reduction", _extremum)),
    "logsumexp": _reduction(_Reduction(3), composite=True),  # subtract the maximum, exp, add
    # subtract the mean, square, add; and the mean itself
    **dict.fromkeys(("var", "std"), _reduction(_Reduction(4, keepdim=3))),
    "var_mean": _reduction(_Reduction(4, ("same", "same"), keepdim=3)),
    "std_mean": _reduction(_Reduction(4, ("same", "same"), keepdim=3)),
    "norm": _reduction(_NORM, composite=True),
    "linalg_vector_norm": _reduction(_NORM),
    **dict.fromkeys(("nll_loss_forward", "nll_loss2d_forward"), _LOSS),
    **dict.fromkeys(("nll_loss_backward", "nll_loss2d_backward"), _LOSS_BACKWARD),
    **dict.fromkeys(("median", "mode", "kthvalue", "aminmax", "binary_cross_entropy"), _UNKNOWN),
}
