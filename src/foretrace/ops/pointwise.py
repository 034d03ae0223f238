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

# How the result's type follows from the operands': promoted together, promoted and at least a float, the real
# part's of what is promoted, a truth value, or the type of the first operand.
Result: TypeAlias = Literal["promoted", "float", "real", "bool", "first"]

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
    if out == "real":
        return {"c32": "f16", "c64": "f32", "c128": "f64"}.get(kind or "", kind)
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


def _division(args: Args) -> Figures:
    """``div(self, other, rounding_mode)``: a quotient is a float, a rounded one stays what it was."""
    rounded = len(args) > 2 and args.find(2) is None  # noqa: PLR2004 - the place of rounding_mode
    return pointwise(2, 1, out="promoted" if rounded else "float")(args)


def _entries(rule: Rule, names: str, *, composite: bool = False) -> dict[str, Entry]:
    return {name: Entry("pointwise", rule, composite) for name in names.split()}


# Operations an element are counted from the formula as PyTorch documents it, each operator and each special
# function (exp, erf, tanh, sqrt…) as one; minimum, maximum and comparison are no arithmetic and count nothing.
OPS: dict[str, Entry] = {
    # one operand
    **_entries(pointwise(1, 1), "neg sign sgn ceil floor round trunc frac conj_physical _conj_physical"),
    **_entries(pointwise(1, 1), "negative square", composite=True),
    **_entries(pointwise(1, 1, out="real"), "abs angle"),
    **_entries(pointwise(1, 1, out="real"), "absolute", composite=True),
    **_entries(pointwise(1, 0), "bitwise_not threshold nan_to_num"),
    **_entries(pointwise(1, 0), "relu relu6 hardtanh", composite=True),
    **_entries(
        pointwise(1, 1, out="float"),
        "sqrt rsqrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh"
        " atanh erf erfc erfinv reciprocal lgamma digamma special_erfcx",
    ),
    **_entries(pointwise(1, 4, out="float"), "sigmoid"),  # 1 / (1 + exp(-x))
    **_entries(pointwise(1, 5, out="float"), "silu"),  # x * sigmoid(x)
    **_entries(pointwise(1, 5), "gelu"),  # x * 0.5 * (1 + erf(x * sqrt(1/2)))
    **_entries(pointwise(1, 4), "mish softplus elu hardswish"),
    **_entries(pointwise(1, 4), "celu selu", composite=True),
    **_entries(pointwise(1, 3), "hardsigmoid"),
    **_entries(pointwise(1, 1), "leaky_relu"),
    **_entries(pointwise(1, 0, out="bool"), "logical_not signbit isneginf isposinf"),
    **_entries(pointwise(1, 0, out="bool"), "isnan isinf isfinite", composite=True),
    # two operands
    **_entries(pointwise(2, 1), "add sub mul pow remainder fmod floor_divide hypot"),
    **_entries(pointwise(2, 1), "bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift"),
    **_entries(pointwise(2, 1), "subtract rsub multiply __and__ __or__ __xor__", composite=True),
    **_entries(pointwise(2, 1), "__lshift__ __rshift__"),
    **_entries(_division, "div"),
    **_entries(_division, "divide true_divide", composite=True),
    **_entries(pointwise(2, 1, out="float"), "atan2 xlogy copysign"),
    **_entries(pointwise(2, 0), "maximum minimum fmax fmin clamp_min clamp_max"),
    **_entries(pointwise(2, 0, out="bool"), "eq ne lt le gt ge logical_and logical_or logical_xor"),
    **_entries(pointwise(2, 0, out="bool"), "not_equal less less_equal greater greater_equal", composite=True),
    **_entries(pointwise(2, 1), "threshold_backward leaky_relu_backward hardtanh_backward _prelu_kernel"),
    **_entries(pointwise(2, 3), "sigmoid_backward tanh_backward"),  # grad * (1 - y) * y, grad * (1 - y * y)
    **_entries(pointwise(2, 9), "silu_backward"),  # s = sigmoid(x); grad * s * (1 + x * (1 - s))
    **_entries(pointwise(2, 14), "gelu_backward"),  # grad * (cdf(x) + x * pdf(x))
    **_entries(pointwise(2, 4), "softplus_backward hardswish_backward hardsigmoid_backward"),
    **_entries(pointwise(2, 2, out="first"), "native_dropout_backward"),  # grad * mask * scale
    # losses: the elementwise kernel; the mean or sum over it is an op of its own, below this one
    **_entries(pointwise(2, 2), "mse_loss"),
    **_entries(pointwise(2, 3), "smooth_l1_loss huber_loss"),
    **_entries(pointwise(3, 3), "mse_loss_backward"),  # norm * (x - target) * grad
    # three operands
    **_entries(pointwise(3, 0), "clamp"),
    **_entries(pointwise(3, 0), "clip", composite=True),
    **_entries(pointwise(3, 0, out="first"), "masked_fill", composite=True),
    **_entries(pointwise(3, 0, out="first"), "masked_fill_"),
    **_entries(pointwise(3, 3), "lerp addcmul addcdiv"),
    **_entries(_where, "where _s_where"),
    "glu": Entry("pointwise", _glu),
    "convert_element_type": Entry("copy", _convert),
}
