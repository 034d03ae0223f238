"""What the functor of an elementwise kernel says: the op and its types, in one of four spellings.

::

    (Binary|AUnary|BUnary)Functor<a, b, result, OP<math>>     AUnary: a scalar on the left; BUnary: on the right
    CUDAFunctor_<op><type>, FillFunctor<type>, <op>Functor<type>
    <op>_kernel_cuda(…)::{lambda()#i}::…::{lambda(type, …)#1}    the lambdas between are branches and type dispatch
    (direct|bfloat16|bfloat16tofloat32|…)_copy_kernel_cuda(…)::{lambda(type)#1}    to that type, or between equal ones
    converting_copy_kernel_cuda<from, to>
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from foretrace.names.aten_kernels import plain_op
from foretrace.names.dtypes import from_cpp
from foretrace.names.words import dtype_words

# An element type as templates spell it.
TYPE = (
    r"(?:(?:c10|at|cutlass)::)?(?:complex<\w{1,8}>|\w{1,24})"
    r"|unsigned char|signed char|long long|unsigned int|unsigned short|unsigned long"
)
_TYPED = re.compile(rf"(?:A|B)?(?:Unary|Binary)Functor<({TYPE}), ({TYPE}), ({TYPE}), ", re.ASCII)
_INNER = re.compile(r"(?:\w{1,32}::){0,6}(?P<op>\w{1,64}?Functor\w{0,24})(?:<|\Z)", re.ASCII)
_MATH = re.compile(rf"Functor\w{{0,24}}<({TYPE})>", re.ASCII)
_SIMPLE = re.compile(rf"\b(?P<op>CUDAFunctor\w{{0,16}}?_\w{{1,32}}|\w{{1,48}}Functor)<(?P<type>{TYPE})[,>]", re.ASCII)
_FUNCTION = re.compile(
    r"\b\w{1,64}?(?:_kernel(?:_impl|_cuda|_nocast)*|KernelImpl|_cuda_out|_out_cuda|Kernel)\b", re.ASCII
)
_LAUNCHERS = frozenset(
    {"gpu_kernel", "gpu_kernel_impl", "gpu_kernel_impl_nocast", "gpu_index_kernel", "elementwise_kernel"}
)
_INDEX_LAMBDA = "::{lambda(int)#1}"  # the launcher's own, over element indices
_LAMBDA = re.compile(r"\{lambda\(([^(){}]{1,160})\)#[0-9]{1,3}\}", re.ASCII)
_BRANCH = re.compile(r"\{lambda\(\)#([0-9])\}", re.ASCII)
_COPY = re.compile(
    r"\b(direct|float8\w{0,16}|b?float16tofloat32|bfloat16|float16|half)_copy_kernel(?:_cuda|_impl)?\b",
    re.ASCII,
)
_CONVERTING_COPY = re.compile(rf"\bconverting_copy_kernel\w{{0,8}}<({TYPE}), ({TYPE})>", re.ASCII)
_COPY_TARGETS = {"bfloat16": "bf16", "float16": "f16", "half": "f16", "float32": "f32"}
_FILLS = frozenset({"fill", "arange", "linspace", "logspace", "eye", "zero", "full"})
_GELU_FORMULAS = {"1": "tanh", "2": "erf"}  # the order of the branches in ATen's GELU kernels


@dataclass(frozen=True, slots=True)
class Functor:
    """An elementwise functor: its op in words, its class, and the types that it names."""

    op: str
    op_class: str = "pointwise"
    in_dtype: str | None = None
    acc_dtype: str | None = None
    out_dtype: str | None = None


def read_functor(text: str) -> Functor:
    """The op and types of an elementwise functor; ``operation`` where it has no name."""
    if copy := _COPY.search(text):
        return _copy(copy[1], text)
    if copy := _CONVERTING_COPY.search(text):
        source, target = from_cpp(copy[1]), from_cpp(copy[2])
        return Functor(f"copy to {dtype_words(target)}" if target else "copy", "copy", source, None, target)
    if typed := _TYPED.search(text):
        rest = text[typed.end() :]
        op = plain_op(found["op"]) if (found := _INNER.match(rest)) else "operation"
        math = from_cpp(found[1]) if (found := _MATH.search(rest)) else None
        return Functor(op, "pointwise", from_cpp(typed[1]), math, from_cpp(typed[3]))
    function = next((name for name in _FUNCTION.findall(text) if name not in _LAUNCHERS), None)
    if function is not None:
        return _named(plain_op(function), text)
    if simple := _SIMPLE.search(text):
        op, dtype = plain_op(simple["op"]), from_cpp(simple["type"])
        return Functor(op, "fill", None, None, dtype) if op in _FILLS else Functor(op, "pointwise", dtype, None, dtype)
    return Functor("operation")


def _copy(target_word: str, text: str) -> Functor:
    source = _lambda_dtype(text)
    if target_word == "direct":
        return Functor("copy", "copy", source, None, source)
    target = _COPY_TARGETS.get(target_word.rpartition("to")[2], "fp8")
    return Functor(f"copy to {dtype_words(target)}", "copy", source, None, target)


def _named(op: str, text: str) -> Functor:
    if op in _FILLS:
        return Functor(op, "fill")
    if op.startswith("gelu") and (branch := _BRANCH.search(text)) and branch[1] in _GELU_FORMULAS:
        op = f"{op.replace('_', ' ')} ({_GELU_FORMULAS[branch[1]]})"
    op_class = "gather-scatter" if op.startswith(("index", "take", "put")) else "pointwise"
    return Functor(op, op_class, _lambda_dtype(text))


def _lambda_dtype(text: str) -> str | None:
    """The type that the op's lambda takes; masks beside it do not count."""
    own = text.split(_INDEX_LAMBDA, 1)[0] if "gpu_kernel_impl" in text else text
    found = _LAMBDA.search(own)
    if not found or "*" in found[1]:  # a pointer is to bytes of a type that is not said
        return None
    dtypes = [from_cpp(part.strip()) for part in found[1].split(",")]
    return next((dtype for dtype in dtypes if dtype != "bool"), "bool")
