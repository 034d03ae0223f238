"""PyTorch's own kernels (ATen): C++ templates whose arguments say the op, the types and the vector width.

::

    at::native::(vectorized_|unrolled_|)elementwise_kernel<[vector width | threads, …], FUNCTOR, …>
    at::native::reduce_kernel<threads, vt, ReduceOp<in, OPS, index, out, …>>
    at::native::multi_tensor_apply_kernel<…Metadata<lists>, FUNCTOR<type, …>, OP<type>, …>     foreach and fused optimizers
    at::native::distribution_elementwise_grid_stride_kernel<…>                                  random numbers
    at::native::<anything else>, known by its own name                                          see aten_kernels

    FUNCTOR  BinaryFunctor<a, b, result, OP<math>>, AUnaryFunctor (a scalar on the left), BUnaryFunctor (on the right),
             CUDAFunctor_<op><type>, FillFunctor<type>, or the lambda of ``<op>_kernel_cuda(…)::{lambda(type)#1}``

A functor under ``LoadWithCast`` converts types found at run time, so the lambda's type is not the tensor's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from foretrace.names.aten_kernels import kind_of, plain_op
from foretrace.names.dtypes import from_cpp
from foretrace.names.identity import Identity
from foretrace.names.words import dtype_words, joined

if TYPE_CHECKING:
    from foretrace.names.symbol import Symbol

_TYPE = r"(?:c10|at|cutlass)?:{0,2}(?:complex<\w{1,8}>|\w{1,24})|unsigned char|signed char|long long|unsigned int"
_TYPED_FUNCTOR = re.compile(rf"(?:A|B)?(?:Unary|Binary)Functor<({_TYPE}), ({_TYPE}), ({_TYPE}), ", re.ASCII)
_INNER_OP = re.compile(r"(?:\w+::)*(?P<op>\w{1,64}?Functor\w{0,24})(?:<|\Z)", re.ASCII)
_CUDA_FUNCTOR = re.compile(
    rf"\b(?P<op>CUDAFunctor\w{{0,16}}?_\w{{1,32}}|FillFunctor|\w{{1,48}}Functor)<({_TYPE})[,>]", re.ASCII
)
_FUNCTION = re.compile(
    r"\b(?P<op>\w{1,64}?(?:_kernel(?:_impl|_cuda|_nocast)*|KernelImpl|_cuda_out|_out_cuda|Kernel))\b", re.ASCII
)
_LAMBDA = re.compile(rf"\{{lambda\(({_TYPE})(?:, [^)]{{0,120}})?\)#[0-9]{{1,3}}\}}", re.ASCII)
_FIRST_LAMBDA = re.compile(r"\{lambda\(\)#([0-9])\}", re.ASCII)
_LAUNCHERS = frozenset({"gpu_kernel", "gpu_kernel_impl", "gpu_kernel_impl_nocast", "elementwise_kernel"})
_CASTS_AT_RUN_TIME = re.compile(r"LoadWithCast|gpu_kernel_impl<", re.ASCII)
_COPY_TO = re.compile(r"\b(?:(direct|float8\w{0,16}|bfloat16|float16|half))_copy_kernel(?:_cuda|_impl)?", re.ASCII)
_COPY_TARGETS = {"bfloat16": "bf16", "float16": "f16", "half": "f16"}
_REDUCE_OPS = re.compile(rf"\b(\w{{1,48}}?(?:Ops|_functor|Functor))<({_TYPE})(?:, ({_TYPE}))?", re.ASCII)
_FUSED_OPTIMIZER = re.compile(
    r"Fused(\w{1,32}?)(?:Math)?Functor|\b(Lamb|Adam|Sgd|Adagrad|LARS)\w{0,16}Functor", re.ASCII | re.IGNORECASE
)
_FOREACH_OP = re.compile(r"(?:std::(\w{1,16})<|at::native::(\w{1,32})<)", re.ASCII)
_SCOPES = ("at::native", "at::cuda", "at_cuda_detail")
_BARE = frozenset({"elementwise_kernel_with_index", "softmax_warp_forward", "softmax_warp_backward"})
_OPS_BY_STL = {"multiplies": "mul", "plus": "add", "divides": "div", "minus": "sub"}
_FILLS = frozenset({"fill", "arange", "linspace", "logspace", "eye", "zero", "full"})


@dataclass(frozen=True, slots=True)
class _Elementwise:
    """What an elementwise kernel's functor says."""

    op: str
    op_class: str = "pointwise"
    in_dtype: str | None = None
    acc_dtype: str | None = None
    out_dtype: str | None = None


def parse(symbol: Symbol) -> Identity | None:
    """Decode an ATen name, or ``None``."""
    if not symbol.scope.startswith(_SCOPES) and not (symbol.scope == "" and symbol.base in _BARE):
        return None
    base = symbol.base
    if base.startswith("multi_tensor_apply"):
        return _foreach(symbol)
    if base == "reduce_kernel":
        return _reduce(symbol)
    if "elementwise_kernel" in base and "distribution" not in base and "scatter" not in base and symbol.args:
        return _elementwise(symbol)
    return _by_name(symbol)


def _identity(symbol: Symbol, op_class: str, words: str) -> Identity:
    return Identity(symbol.name, family="aten", library="PyTorch", op_class=op_class, in_words=words)


def _told(identity: Identity, *particulars: str | None) -> Identity:
    """Behind the head come the types and what else there is to say."""
    types = (
        identity.in_dtype and f"{dtype_words(identity.in_dtype)} in",
        identity.acc_dtype and f"{dtype_words(identity.acc_dtype)} arithmetic",
        identity.out_dtype and f"{dtype_words(identity.out_dtype)} out",
    )
    says = joined("a PyTorch (ATen) kernel", joined(*types, by=", ") or None, *particulars)
    return replace(identity, in_words=f"{identity.in_words}: {says}")


def _elementwise(symbol: Symbol) -> Identity:
    args = symbol.args
    functor = next((arg for arg in args if not arg.isdigit() and from_cpp(arg) is None), "")
    found = _functor(functor)
    casts = any(_CASTS_AT_RUN_TIME.search(arg) for arg in args)
    noun = found.op if found.op_class in {"copy", "fill"} else f"elementwise {found.op}"
    identity = replace(
        _identity(symbol, found.op_class, noun),
        in_dtype=None if casts else found.in_dtype,
        acc_dtype=found.acc_dtype,
        out_dtype=None if casts else found.out_dtype,
    )
    width = args[0] if "vectorized" in symbol.base and args[0].isdigit() else None
    return _told(
        identity,
        width and f"{width} elements a load",
        "types are converted at run time and are not in the name" if casts else None,
    )


def _functor(text: str) -> _Elementwise:
    """The op and types of an elementwise functor, whichever of the four spellings it has."""
    if copy := _COPY_TO.search(text):
        target = _COPY_TARGETS.get(copy[1]) or ("fp8" if copy[1].startswith("float8") else None)
        source = from_cpp(found[1]) if (found := _LAMBDA.search(text)) else None
        same = source if copy[1] == "direct" else target
        return _Elementwise(f"copy to {dtype_words(target)}" if target else "copy", "copy", source, None, same)
    if typed := _TYPED_FUNCTOR.search(text):
        rest = text[typed.end() :]
        op = plain_op(found["op"]) if (found := _INNER_OP.match(rest)) else "operation"
        math = from_cpp(found[1]) if (found := re.search(rf"Functor\w*<({_TYPE})>", rest)) else None
        return _Elementwise(op, "pointwise", from_cpp(typed[1]), math, from_cpp(typed[3]))
    function = next((f["op"] for f in _FUNCTION.finditer(text) if f["op"] not in _LAUNCHERS), None)
    if function is None and (simple := _CUDA_FUNCTOR.search(text)):
        op, dtype = plain_op(simple["op"]), from_cpp(simple[2])
        fills = op in _FILLS
        return _Elementwise(op, "fill" if fills else "pointwise", None if fills else dtype, None, dtype)
    if function is None:
        return _Elementwise("operation")
    op = plain_op(function)
    types = _LAMBDA.findall(text)
    dtype = from_cpp(types[0]) if types and "lambda(int)" not in text[:0] else None
    op_class = "fill" if op in _FILLS else "gather-scatter" if op.startswith(("index", "take", "put")) else "pointwise"
    return _Elementwise(_gelu(op, text), op_class, None if op_class == "fill" else dtype)


def _gelu(op: str, text: str) -> str:
    """GELU's two formulas are two branches of one function: the first is tanh's, the second erf's."""
    if not op.startswith("gelu") or not (branch := _FIRST_LAMBDA.search(text)):
        return op
    formula = {"1": "tanh", "2": "erf"}.get(branch[1])
    return f"{op.replace('_', ' ')} ({formula})" if formula else op


def _reduce(symbol: Symbol) -> Identity:
    operator = next((arg for arg in symbol.args if "ReduceOp<" in arg), "")
    ops = _REDUCE_OPS.search(operator)
    op = plain_op(ops[1]) if ops else "reduction"
    types = re.match(rf"(?:\w+::)*ReduceOp<({_TYPE}), ", operator, re.ASCII)
    out = re.search(rf"unsigned int, ({_TYPE}), [0-9]", operator, re.ASCII)
    identity = replace(
        _identity(symbol, "reduction", f"reduction {op}"),
        in_dtype=from_cpp(types[1]) if types else None,
        acc_dtype=from_cpp(ops[3]) if ops and ops[3] and op in {"mean", "sum"} else None,
        out_dtype=from_cpp(out[1]) if out else None,
    )
    threads = symbol.args[0]
    return _told(identity, f"up to {threads} threads a block" if threads.isdigit() else None)


def _foreach(symbol: Symbol) -> Identity:
    text = ", ".join(symbol.args)
    dtype = next((d for match in re.finditer(rf"Functor<({_TYPE})[,>]", text) if (d := from_cpp(match[1]))), None)
    if fused := _FUSED_OPTIMIZER.search(text):
        identity = replace(
            _identity(symbol, "optimizer", f"fused optimizer {(fused[1] or fused[2]).lower()}"), in_dtype=dtype
        )
        return _told(identity, "one launch updates many tensors")
    names = [stl or own for stl, own in _FOREACH_OP.findall(text)]
    names = [name for name in names if not name.endswith(("Functor", "Metadata"))] or ["LpNorm"] * ("LpNorm" in text)
    op = plain_op(_OPS_BY_STL.get(names[-1], names[-1])) if names else "operation"
    if "LerpFunctor" in text:
        op = "lerp"
    op_class = "copy" if op == "copy" else "reduction" if "LpNorm" in text else "optimizer"
    identity = replace(_identity(symbol, op_class, f"foreach {op}"), in_dtype=dtype)
    return _told(identity, "one launch works on many tensors, as optimizers and gradient clipping do")


def _by_name(symbol: Symbol) -> Identity:
    base = symbol.base
    # the generic launchers (distribution_…, elementwise over a named functor) are told by their own name first
    kind = kind_of(base) or kind_of(" ".join(symbol.args)[:200])
    if kind is None:
        return _told(_identity(symbol, "other", plain_op(base)))
    types = [dtype for arg in symbol.args if (dtype := from_cpp(arg))]
    named = dict(zip(kind.dtypes.split(), types, strict=False)) if kind.dtypes != "io" else {}
    if kind.dtypes == "io" and types:
        named = {"in": types[0], "out": types[0]}
    noun = kind.noun
    if kind.op_class == "softmax":
        noun = _softmax_noun(symbol)
    elif "backward" in base.lower() or "grad" in base.lower():
        noun = f"{noun} backward"
    identity = replace(
        _identity(symbol, kind.op_class, noun),
        in_dtype=named.get("in"),
        acc_dtype=named.get("acc"),
        out_dtype=named.get("out"),
    )
    return _told(identity, base if noun == kind.noun else None)


def _softmax_noun(symbol: Symbol) -> str:
    """``softmax_warp_…<in, out, acc, log2(elements), is log softmax, masked>``."""
    flags = symbol.args[4:5]
    log = flags == ("true",) or flags == ("1",) or "LogSoftMax" in symbol.text
    way = " backward" if "backward" in symbol.base.lower() else ""
    return f"{'log softmax' if log else 'softmax'}{way}"
