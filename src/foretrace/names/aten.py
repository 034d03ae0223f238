"""PyTorch's own kernels (ATen): C++ templates whose arguments say the op, the types and the vector width.

::

    at::native::(vectorized_|unrolled_|)elementwise_kernel<[vector width | threads, …], FUNCTOR, …>
    at::native::vectorized_templated_elementwise_kernel<width, FUNCTOR, six of the launcher's, out, in, …>  mixed types
    at::native::reduce_kernel<threads, vt, ReduceOp<in, OPS, index, out, …>>
    at::native::multi_tensor_apply_kernel<…Metadata<lists>, FUNCTOR<type, …>, OP<type>, …>    foreach, fused optimizers
    at::native::distribution_elementwise_grid_stride_kernel<…>                                  random numbers
    at::native::xpu::(Vectorized|Unrolled|…)ElementwiseKernel<[vector width,] FUNCTOR<…>, …>, ReduceKernel<…>    on XPU
    at::native::<anything else>, known by its own name                                          see aten_kernels

    FUNCTOR  see aten_functor

A functor under ``LoadWithCast`` converts types found at run time, so the lambda's type is not the tensor's; the
templated kernel names those that it converts.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from foretrace.names.aten_functor import TYPE, read_functor
from foretrace.names.aten_kernels import kind_of, plain_op
from foretrace.names.dtypes import from_cpp
from foretrace.names.identity import Identity
from foretrace.names.words import dtype_words, joined

if TYPE_CHECKING:
    from foretrace.names.aten_kernels import Kind
    from foretrace.names.symbol import Symbol

_CASTS_AT_RUN_TIME = re.compile(r"LoadWithCast|gpu_kernel_impl<", re.ASCII)
_REDUCE_OPS = re.compile(rf"\b(\w{{1,48}}?(?:Ops|_functor|Functor))<({TYPE})(?:, ({TYPE}))?", re.ASCII)
_REDUCE_IN = re.compile(rf"ReduceOp<({TYPE}), ", re.ASCII)
_REDUCE_OUT = re.compile(rf"unsigned int, ({TYPE}), [0-9]", re.ASCII)
_FUSED_OPTIMIZER = re.compile(
    r"Fused(\w{1,32}?)(?:Math)?Functor|\b(Lamb|Adam|Sgd|Adagrad|LARS)\w{0,16}Functor", re.ASCII | re.IGNORECASE
)
_FOREACH_TYPE = re.compile(rf"Functor<({TYPE})[,>]", re.ASCII)
_FOREACH_OP = re.compile(r"std::(\w{1,16})<|at::native::(\w{1,32})<", re.ASCII)
_DISTRIBUTION = re.compile(
    r"(log_normal|normal|uniform|bernoulli|exponential|cauchy|geometric|poisson|randperm|random)", re.ASCII
)
_XPU_FUNCTOR = re.compile(
    r"(?:\w{1,32}::){0,6}(?:[AB]?(?:Unary|Binary)Functor<.{0,160}?::)?(\w{1,64}?)Func(?:tor)?[0-9]?<"
)
_TEMPLATED, _TEMPLATED_TYPES = "vectorized_templated_elementwise_kernel", 7
_SCOPES = ("at::native", "at::cuda")
_BARE = frozenset({"elementwise_kernel_with_index", "softmax_warp_forward", "softmax_warp_backward"})
_BY_STL = {"multiplies": "mul", "plus": "add", "divides": "div", "minus": "sub"}


def parse(symbol: Symbol) -> Identity | None:
    """Decode an ATen name, or ``None``."""
    if not symbol.scope.startswith(_SCOPES) and not (symbol.scope == "" and symbol.base in _BARE):
        return None
    base = symbol.base
    if base.startswith("multi_tensor_apply"):
        return _foreach(symbol)
    if base in {"reduce_kernel", "ReduceKernel"}:
        return _reduce(symbol)
    if base.endswith("ElementwiseKernel") and symbol.args:
        return _xpu_elementwise(symbol)
    if "elementwise_kernel" in base and "distribution" not in base and "scatter" not in base and symbol.args:
        return _elementwise(symbol)
    return _by_name(symbol)


def _identity(
    symbol: Symbol,
    op_class: str,
    noun: str,
    *particulars: str | None,
    in_dtype: str | None = None,
    acc_dtype: str | None = None,
    out_dtype: str | None = None,
) -> Identity:
    """The record with its sentence: ``noun: a PyTorch (ATen) kernel; types; particulars``."""
    types = (
        in_dtype and f"{dtype_words(in_dtype)} in",
        acc_dtype and f"{dtype_words(acc_dtype)} arithmetic",
        out_dtype and f"{dtype_words(out_dtype)} out",
    )
    says = joined("a PyTorch (ATen) kernel", joined(*types, by=", ") or None, *particulars)
    return Identity(
        symbol.name,
        family="aten",
        library="PyTorch",
        op_class=op_class,
        in_dtype=in_dtype,
        acc_dtype=acc_dtype,
        out_dtype=out_dtype,
        in_words=f"{noun}: {says}",
    )


def _elementwise(symbol: Symbol) -> Identity:
    args = symbol.args
    functor = next((arg for arg in args if not arg.isdigit() and from_cpp(arg) is None), "")
    found = read_functor(functor)
    casts = any(_CASTS_AT_RUN_TIME.search(arg) for arg in args)
    width = args[0] if "vectorized" in symbol.base and args[0].isdigit() else None
    in_dtype, out_dtype = (None, None) if casts else (found.in_dtype, found.out_dtype)
    says = "types are converted at run time and are not in the name" if casts else None
    if symbol.base == _TEMPLATED and (types := [from_cpp(arg) for arg in args[_TEMPLATED_TYPES:]])[1:]:
        out_dtype, *operands = types
        in_dtype = operands[0] if len(set(operands)) == 1 else None
        says = None if in_dtype or None in operands else f"operands {joined(*map(dtype_words, operands), by=' and ')}"
    return _identity(
        symbol,
        found.op_class,
        f"elementwise {found.op}" if found.op_class == "pointwise" else found.op,
        width and f"{width} elements a load",
        says,
        in_dtype=in_dtype,
        acc_dtype=found.acc_dtype,
        out_dtype=out_dtype,
    )


def _xpu_elementwise(symbol: Symbol) -> Identity:
    """The functor's type may be that of its arithmetic: types are not said."""
    found = next((found for arg in symbol.args if (found := _XPU_FUNCTOR.match(arg))), None)
    op = plain_op(f"{found[1]}Functor") if found else "operation"
    op_class = {"copy": "copy", "cast": "copy", "fill": "fill"}.get(op, "pointwise")
    return _identity(symbol, op_class, f"elementwise {op}" if op_class == "pointwise" else op)


def _reduce(symbol: Symbol) -> Identity:
    operator = next((arg for arg in symbol.args if "ReduceOp<" in arg), "")
    ops = _REDUCE_OPS.search(operator)
    op = plain_op(ops[1]) if ops else "reduction"
    types, out = _REDUCE_IN.search(operator), _REDUCE_OUT.search(operator)
    first = symbol.args[:1] if symbol.base == "reduce_kernel" else ()
    threads = next((arg for arg in first if arg.isdigit()), None)
    return _identity(
        symbol,
        "reduction",
        f"reduction {op}" if ops else op,
        threads and f"up to {threads} threads a block",
        in_dtype=from_cpp(types[1]) if types else None,
        acc_dtype=from_cpp(ops[3]) if ops and ops[3] and op in {"mean", "sum"} else None,
        out_dtype=from_cpp(out[1]) if out else None,
    )


def _foreach(symbol: Symbol) -> Identity:
    text = ", ".join(symbol.args)
    dtype = next((dtype for found in _FOREACH_TYPE.findall(text) if (dtype := from_cpp(found))), None)
    if fused := _FUSED_OPTIMIZER.search(text):
        noun = f"fused optimizer {(fused[1] or fused[2]).lower()}"
        return _identity(symbol, "optimizer", noun, "one launch updates many tensors", in_dtype=dtype)
    op = _foreach_op(text)
    op_class = {"copy": "copy", "norm": "reduction", "zero": "fill"}.get(op, "optimizer")
    many = "one launch works on many tensors, as optimizers and gradient clipping do"
    return _identity(symbol, op_class, f"foreach {op}", many, in_dtype=dtype)


def _foreach_op(text: str) -> str:
    if "LpNorm" in text:
        return "norm"
    if "LerpFunctor" in text:
        return "lerp"
    if "ZeroFunctor" in text:
        return "zero"
    names = [_BY_STL.get(stl, stl) or own for stl, own in _FOREACH_OP.findall(text)]
    op = next((plain_op(name) for name in names if not name.endswith(("Functor", "Metadata"))), "operation")
    return f"addc{op}" if "PointwiseOp" in text else op


def _by_name(symbol: Symbol) -> Identity:
    base = symbol.base
    # a launcher that says nothing (its functor does) is told by its arguments
    kind = kind_of(base) or kind_of(" ".join(symbol.args)[:200])
    if kind is None:
        return _identity(symbol, "other", plain_op(base))
    noun = _noun(symbol, kind)
    types = [dtype for arg in symbol.args if (dtype := from_cpp(arg))]
    named = dict(zip(kind.dtypes.split(), types, strict=False))
    return _identity(
        symbol,
        kind.op_class,
        noun,
        base if noun == kind.noun else None,
        in_dtype=named.get("in"),
        acc_dtype=named.get("acc"),
        out_dtype=named.get("out"),
    )


def _noun(symbol: Symbol, kind: Kind) -> str:
    base = symbol.base
    if kind.op_class == "softmax":
        return _softmax_noun(symbol)
    if kind.op_class == "random" and (found := _DISTRIBUTION.search(f"{base} {' '.join(symbol.args)}")):
        return f"random {found[1]}"
    noun = kind.noun
    if base.startswith("vectorized_layer_norm") and symbol.args[2:3] == ("true",):
        noun = "RMS norm"  # its third argument: the same kernel without the mean
    return f"{noun} backward" if "backward" in base.lower() or "grad" in base.lower() else noun


def _softmax_noun(symbol: Symbol) -> str:
    """``softmax_warp_…<in, out, acc, log2(elements), is log softmax, masked>``."""
    flags = symbol.args[4:5]
    log = bool({"true", "1"} & set(flags)) or "LogSoftMax" in symbol.text
    way = " backward" if "backward" in symbol.base.lower() else ""
    return f"{'log softmax' if log else 'softmax'}{way}"
