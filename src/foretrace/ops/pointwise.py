"""Elementwise ops: one result element from the elements at the same place, operands broadcast together."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, TypeAlias

from foretrace.ops.bytes import Tensor
from foretrace.ops.dtypes import DEFAULT_FLOAT, category, highest, promote
from foretrace.ops.unsaid import UnsaidError
from foretrace.ops.work import Entry, Figures, result

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from foretrace.ops.args import Args
    from foretrace.ops.work import Rule

# How the result's type follows from the operands': promoted together, promoted and at least a float, a truth
# value, or the type of the first operand.
Result: TypeAlias = Literal["promoted", "float", "bool", "first"]

# What Python numbers become where an op takes only tensors.
_NUMBERS = {"i64", "f64", "c128"}


def pointwise(operands: int, flops: int, *, out: Result = "promoted", first: int = 0) -> Rule:
    """The rule of an elementwise op.

    Args:
        operands: How many leading arguments are operands; a tensor after them is the ``out=``.
        flops: Operations an element of the result.
        out: How the result's type follows.
        first: Index of the first operand whose type counts (1 for ``where``, whose condition does not).
    """

    def rule(args: Args) -> Figures:
        reads = [tensor for index in range(operands) if (tensor := args.find(index)) is not None]
        if not reads:
            raise UnsaidError
        kind = combined_dtype(args, range(first, operands))
        computed = Tensor(broadcast(tensor.shape for tensor in reads), _result_type(args, out, first, kind))
        written = result(args, computed, operands)
        # beside real tensors a 0-dim operand is a number that travels as a kernel parameter
        touched = [tensor for tensor in reads if tensor.shape] or reads
        return Figures(flops * computed.elements, tuple(touched), (written,), kind or touched[0].dtype)

    return rule


def broadcast(shapes: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape that ``shapes`` broadcast to; raises `UnsaidError` when they do not fit together."""
    distinct = list(dict.fromkeys(shapes))
    if len(distinct) == 1:
        return distinct[0]
    rank = max((len(shape) for shape in distinct), default=0)
    padded = [(1,) * (rank - len(shape)) + shape for shape in distinct]
    sizes = []
    for column in zip(*padded, strict=True):
        wanted = {size for size in column if size != 1}
        if len(wanted) > 1:
            raise UnsaidError
        sizes.append(wanted.pop() if wanted else 1)
    return tuple(sizes)


def combined_dtype(args: Args, indices: Iterable[int]) -> str | None:
    """The promoted type of tensors and scalars among the arguments; ``None`` when it cannot be told.

    Tensors with dimensions decide; a 0-dim tensor or a Python number only lifts the category (PyTorch's promotion
    rules). A Python number that became a 0-dim ``double`` or ``long`` looks like a real tensor of that type in
    the file, so where such a one would decide, the answer is ``None``.
    """
    sized: list[str] = []
    zero_dim: list[str] = []
    scalars: list[str] = []
    for index in indices:
        tensor = args.find(index)
        if tensor is None:
            scalars += _scalar_category(args, index)
        elif tensor.dtype is None:
            return None
        else:
            (sized if tensor.shape else zero_dim).append(tensor.dtype)
    return _promoted(sized, zero_dim, scalars)


def _promoted(sized: Sequence[str], zero_dim: Sequence[str], scalars: Sequence[str]) -> str | None:
    kind = promote(sized)
    if zero_dim and (not sized or _lifts(zero_dim, sized)):
        top = {one for one in zero_dim if category(one) == highest(zero_dim)}
        if _NUMBERS & top and (len(top) > 1 or (sized and "i64" not in top)):
            return None  # a number would be the default float or give way, a tensor would stay what it is
        kind = promote([*sized, *sorted(top)])
    if kind is not None and "float" in scalars and category(kind) in ("bool", "int"):
        return DEFAULT_FLOAT
    if kind == "bool" and "int" in scalars:
        return "i64"
    return kind


def _lifts(zero_dim: Sequence[str], sized: Sequence[str]) -> bool:
    order = ("bool", "int", "float", "complex")
    return order.index(highest(zero_dim)) > order.index(highest(sized))


def _scalar_category(args: Args, index: int) -> list[str]:
    text = args.text(index) if args.is_a(index, "Scalar") else None
    if text is None or text in ("True", "False"):
        return []
    return ["int"] if text.lstrip("-").isdigit() else ["float"]


def _result_type(args: Args, out: Result, first: int, kind: str | None) -> str | None:
    if out == "bool":
        return "bool"
    if out == "first":
        return args.tensor(first).dtype
    if out == "float" and kind is not None and category(kind) in ("bool", "int"):
        return DEFAULT_FLOAT
    return kind


def _where(args: Args) -> Figures:
    """``where(condition, self, other)``; with the condition alone it is ``nonzero``, whose size is data."""
    if len(args) < 3:  # noqa: PLR2004 - the three operands
        raise UnsaidError
    return pointwise(3, 0, first=1)(args)


def _convert(args: Args) -> Figures:
    """``prims::convert_element_type(a, dtype)``: a cast of every element."""
    source = args.tensor(0)
    return Figures(0, (source,), (Tensor(source.shape, args.dtype(1)),), source.dtype)


def _glu(args: Args) -> Figures:
    """``glu(self, dim)``: halves along ``dim``, ``a * sigmoid(b)``: four operations an element of the result."""
    source = args.tensor(0)
    shape = list(source.shape)
    shape[args.integer(1, -1)] //= 2
    written = result(args, Tensor(tuple(shape), source.dtype), 2)
    return Figures(4 * math.prod(shape), (source,), (written,))


def _entries(rule: Rule, names: str) -> dict[str, Entry]:
    return {name: Entry("pointwise", rule) for name in names.split()}


# Operations an element are counted from the formula as PyTorch documents it, each operator and each special
# function (exp, erf, tanh, sqrt…) as one; minimum, maximum and comparison are no arithmetic and count nothing.
OPS: dict[str, Entry] = {
    # one operand
    **_entries(pointwise(1, 1), "neg negative abs absolute square sign sgn"),
    **_entries(pointwise(1, 1), "ceil floor round trunc frac conj_physical _conj_physical positive"),
    **_entries(pointwise(1, 0), "relu bitwise_not clamp_min clamp_max"),
    **_entries(
        pointwise(1, 1, out="float"),
        "sqrt rsqrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh"
        " atanh erf erfc erfinv reciprocal lgamma digamma special_erfcx",
    ),
    **_entries(pointwise(1, 4, out="float"), "sigmoid"),  # 1 / (1 + exp(-x))
    **_entries(pointwise(1, 5, out="float"), "silu"),  # x * sigmoid(x)
    **_entries(pointwise(1, 5), "gelu"),  # x * 0.5 * (1 + erf(x * sqrt(1/2)))
    **_entries(pointwise(1, 4), "mish softplus elu celu selu"),
    **_entries(pointwise(1, 3), "hardsigmoid"),
    **_entries(pointwise(1, 4), "hardswish"),
    **_entries(pointwise(1, 1), "leaky_relu"),
    **_entries(pointwise(1, 0), "hardtanh threshold relu6 nan_to_num"),
    **_entries(pointwise(1, 0, out="bool"), "isnan isinf isfinite logical_not signbit isneginf isposinf"),
    # two operands
    **_entries(pointwise(2, 1), "mul multiply remainder fmod floor_divide bitwise_and bitwise_or bitwise_xor"),
    **_entries(pointwise(2, 1), "__and__ __or__ __xor__ __lshift__ __rshift__ bitwise_left_shift bitwise_right_shift"),
    **_entries(pointwise(2, 1), "add sub subtract rsub pow hypot copysign"),
    **_entries(pointwise(2, 1, out="float"), "div divide true_divide atan2 xlogy"),
    **_entries(pointwise(2, 0), "maximum minimum fmax fmin"),
    **_entries(
        pointwise(2, 0, out="bool"),
        "eq ne lt le gt ge not_equal less less_equal greater greater_equal logical_and logical_or logical_xor",
    ),
    **_entries(pointwise(2, 1), "threshold_backward leaky_relu_backward hardtanh_backward _prelu_kernel"),
    **_entries(pointwise(2, 3), "sigmoid_backward tanh_backward"),  # grad * (1 - y) * y, grad * (1 - y * y)
    **_entries(pointwise(2, 9), "silu_backward"),  # s = sigmoid(x); grad * s * (1 + x * (1 - s))
    **_entries(pointwise(2, 14), "gelu_backward"),  # grad * (cdf(x) + x * pdf(x))
    **_entries(pointwise(2, 4), "softplus_backward hardswish_backward hardsigmoid_backward"),
    **_entries(pointwise(2, 2, out="first"), "native_dropout_backward"),  # grad * mask * scale
    # three operands
    **_entries(pointwise(3, 0), "clamp clip"),
    "masked_fill": Entry("pointwise", pointwise(3, 0, out="first"), composite=True),
    "masked_fill_": Entry("pointwise", pointwise(3, 0, out="first")),
    **_entries(pointwise(3, 3), "lerp addcmul addcdiv"),
    **_entries(_where, "where _s_where"),
    "glu": Entry("pointwise", _glu),
    "convert_element_type": Entry("copy", _convert),
}
