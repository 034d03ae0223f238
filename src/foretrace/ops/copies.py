"""Ops that copy, cast, fill or draw: every element written, no arithmetic."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from foretrace.ops.bytes import Tensor
from foretrace.ops.dtypes import DEFAULT_FLOAT, promote
from foretrace.ops.unsaid import UnsaidError
from foretrace.ops.work import Entry, Figures, result, unknown

if TYPE_CHECKING:
    from foretrace.ops.args import Args
    from foretrace.ops.work import Rule


def _copy(args: Args) -> Figures:
    """``copy_(self, src)``: reads ``src`` as it lies, writes all of ``self``; casts and broadcasts on the way."""
    destination, source = args.tensor(0), args.tensor(1)
    return Figures(0, (source,), (destination,), source.dtype)


def _clone(args: Args) -> Figures:
    source = args.tensor(0)
    return Figures(0, (source,), (Tensor(source.shape, source.dtype),))


def _to_copy(args: Args) -> Figures:
    """``_to_copy(self, dtype, …)``: a copy, cast where a type is named."""
    source = args.tensor(0)
    return Figures(0, (source,), (Tensor(source.shape, args.dtype(1) or source.dtype),))


def _maybe_copy(args: Args) -> Figures:
    """``reshape``, ``contiguous``: the input itself where it is dense, else a copy or still a view."""
    source = args.tensor(0)
    if source.dense():
        return Figures(0, (), (), launches=False)
    return Figures(launches=None)


def _cast(args: Args) -> Figures:
    """``to(…)``: whether it copies depends on the type or device that one of its overloads names."""
    args.tensor(0)
    return Figures(launches=None)


def _cat(args: Args) -> Figures:
    """``cat(tensors, dim)``: every input once, and as much written."""
    parts, dim = args.tensors(0), args.integer(1, 0)
    # an empty 1-D tensor may stand beside any shape
    shapes = [part.shape for part in parts if part.shape != (0,)]
    if not shapes or any(len(shape) != len(shapes[0]) for shape in shapes):
        raise UnsaidError
    axis = dim % len(shapes[0])
    joined = list(shapes[0])
    joined[axis] = sum(shape[axis] for shape in shapes)
    return _joined(args, parts, tuple(joined))


def _stack(args: Args) -> Figures:
    """``stack(tensors, dim)``: as ``cat``, along a new dimension."""
    parts, dim = args.tensors(0), args.integer(1, 0)
    if not parts:
        raise UnsaidError
    shape = list(parts[0].shape)
    shape.insert(dim % (len(shape) + 1), len(parts))
    return _joined(args, parts, tuple(shape))


def _joined(args: Args, parts: list[Tensor], shape: tuple[int, ...]) -> Figures:
    kinds = [part.dtype for part in parts]
    out = args.find(2)
    kind = promote(known for known in kinds if known) if all(kinds) else None
    if kind is None and out is not None and out.dtype is not None:
        # lists carry no types in the file, but the result of equal types does
        return Figures(0, None, (out,), out.dtype)
    return Figures(0, tuple(parts), (result(args, Tensor(shape, kind), 2),))


def _repeat(args: Args) -> Figures:
    """``repeat(self, repeats)``: the input read, written as often as it is repeated."""
    source, repeats = args.tensor(0), args.integers(1)
    padded = (1,) * (len(repeats) - len(source.shape)) + source.shape
    shape = tuple(size * times for size, times in zip(padded, repeats, strict=True))
    return Figures(0, (source,), (Tensor(shape, source.dtype),))


def _pad(args: Args) -> Figures:
    """``constant_pad_nd(self, pad, value)``: ``pad`` counts from the last dimension, before and after."""
    source, pad = args.tensor(0), args.integers(1)
    shape = list(source.shape)
    for step in range(len(pad) // 2):
        shape[-1 - step] += pad[2 * step] + pad[2 * step + 1]
    return Figures(0, (source,), (Tensor(tuple(shape), source.dtype),))


def _triangle(args: Args) -> Figures:
    """``triu(self, diagonal)``: written whole; the half that becomes zero need not be read."""
    source, diagonal = args.tensor(0), args.integer(1, 0)
    rows, columns = source.shape[-2:]
    kept = sum(min(max(columns - row - diagonal, 0), columns) for row in range(rows))
    batch = math.prod(source.shape[:-2])
    read = Tensor((batch * kept,), source.dtype)
    return Figures(0, (read,), (result(args, Tensor(source.shape, source.dtype), 2),), source.dtype)


def _scalar_out(args: Args) -> Figures:
    """``_local_scalar_dense(self)``: one element to the host."""
    source = args.tensor(0)
    return Figures(0, (source,), (Tensor((), source.dtype),))


def _write(args: Args) -> Figures:
    """``fill_``, ``normal_``…: the first argument written, nothing read."""
    destination = args.tensor(0)
    return Figures(0, (), (destination,), destination.dtype)


def _write_like(args: Args) -> Figures:
    """``zeros_like(self, dtype, …)``: a new tensor of the same shape."""
    like = args.tensor(0)
    kind = args.dtype(1) or like.dtype
    return Figures(0, (), (Tensor(like.shape, kind),), kind)


def _factory(dtype: int, default: str | None = DEFAULT_FLOAT) -> Rule:
    """A new tensor of a recorded size.

    Args:
        dtype: How many arguments after the size its type stands.
        default: The type without one; ``None`` takes that of the tensor or number that the op was given.
    """

    def rule(args: Args) -> Figures:
        index = next((at for at in range(len(args)) if args.is_a(at, "ScalarList")), None)
        if index is None:
            raise UnsaidError
        kind = args.dtype(index + dtype) or default or _given_type(args, index + 1)
        return Figures(0, (), (Tensor(tuple(args.integers(index)), kind),), kind)

    return rule


def _given_type(args: Args, value: int) -> str | None:
    like, text = args.find(0), args.text(value)
    if like is not None or text is None:
        return None if like is None else like.dtype
    if text in ("True", "False"):
        return "bool"
    return "i64" if text.lstrip("-").isdigit() else DEFAULT_FLOAT


def _range(args: Args) -> Figures:
    """``arange``, ``linspace``, ``eye``: known where the result is an argument (the inner ``out=`` call)."""
    written = args.all_tensors()
    if len(written) != 1:
        raise UnsaidError
    return Figures(0, (), (written[0],), written[0].dtype)


def _draw(args: Args) -> Figures:
    """``bernoulli(p)``: a draw for each probability."""
    source = args.tensor(0)
    return Figures(0, (source,), (result(args, Tensor(source.shape, source.dtype), 1),))


def _draw_inplace(args: Args) -> Figures:
    """``bernoulli_(self, p)``: the probabilities are read where they are a tensor."""
    destination, chances = args.tensor(0), args.find(1)
    return Figures(0, () if chances is None else (chances,), (destination,), destination.dtype)


def _dropout(args: Args) -> Figures:
    """``native_dropout(input, p, train)``: a compare, a mask and a scale: two operations, one byte a mask."""
    source = args.tensor(0)
    mask = Tensor(source.shape, "bool")
    return Figures(2 * source.elements, (source,), (Tensor(source.shape, source.dtype), mask))


def _entries(op_class: str, rule: Rule, names: str, *, composite: bool = False) -> dict[str, Entry]:
    return {name: Entry(op_class, rule, composite) for name in names.split()}


OPS: dict[str, Entry] = {
    **_entries("copy", _copy, "copy_ _copy_from"),
    **_entries("copy", _clone, "clone _pin_memory", composite=True),
    **_entries("copy", _clone, "flip roll channel_shuffle"),
    **_entries("copy", _to_copy, "_to_copy", composite=True),
    **_entries("copy", _cast, "to type_as", composite=True),
    **_entries("copy", _maybe_copy, "reshape contiguous flatten ravel reshape_as", composite=True),
    **_entries("copy", _cat, "cat"),
    **_entries("copy", _cat, "concat concatenate", composite=True),
    **_entries("copy", _stack, "stack", composite=True),
    **_entries("copy", _repeat, "repeat", composite=True),
    **_entries("copy", unknown, "tile repeat_interleave hstack vstack dstack block_diag", composite=True),
    **_entries("copy", _pad, "constant_pad_nd", composite=True),
    **_entries("copy", unknown, "pad", composite=True),
    **_entries("copy", unknown, "im2col col2im unfold_backward reflection_pad1d reflection_pad2d"),
    **_entries("copy", unknown, "slice_scatter select_scatter slice_backward select_backward", composite=True),
    **_entries("copy", _triangle, "triu tril"),
    **_entries("copy", _scalar_out, "_local_scalar_dense"),
    **_entries("copy", _scalar_out, "item is_nonzero", composite=True),
    **_entries("fill", _write, "fill_ zero_"),
    **_entries("fill", _write_like, "zeros_like ones_like full_like", composite=True),
    **_entries("fill", _factory(1), "zeros ones", composite=True),
    **_entries("fill", _factory(1, None), "new_zeros new_ones", composite=True),
    **_entries("fill", _factory(2, None), "full new_full", composite=True),
    **_entries("fill", _range, "arange linspace logspace range eye scalar_tensor"),
    **_entries("random", _write, "normal_ uniform_ random_ exponential_ geometric_ log_normal_ cauchy_"),
    **_entries("random", _draw_inplace, "bernoulli_"),
    **_entries("random", _draw, "bernoulli poisson"),
    **_entries("random", _dropout, "native_dropout"),
    **_entries("random", unknown, "dropout dropout_ feature_dropout alpha_dropout", composite=True),
    **_entries("random", _write_like, "rand_like randn_like randint_like", composite=True),
    **_entries("random", _factory(1), "rand randn", composite=True),
    **_entries("random", _factory(1, "i64"), "randint", composite=True),
    **_entries("random", unknown, "randperm multinomial normal"),
}
