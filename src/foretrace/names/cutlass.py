"""CUTLASS kernels: the generated names of 2.x and 3.x, plain, inside cuBLAS or cuDNN, or as C++ templates.

2.x::

    cutlass[_<cc>]_(tensorop|wmma[_tensorop]|simt)_[<out>_]<acc>[<mma>](gemm|fprop|dgrad|wgrad)[_words…][_<in>]
        _<M>x<N>_<K>x<stages>_<layout>[_align<elements>]

    <acc> is s, h, d, i, c, …; a tensorop s1688 without a type is TF32. ``relu`` is the name of an epilogue slot that
    cuBLAS fills with the identity as well, so it says nothing.

3.x (the ``s64x128x16`` token is gone since 3.9)::

    cutlass3x_<arch>_<unit>_[<acc><M>x<N>x<K>[tf32]](gemm|fprop|…)[_words]_<A>_<B>_<acc>_<C>_<D>
        _<M>x<N>x<K>[_<C1>x<C2>x<C3>]_<stages>_<layout>_align<elements>[_schedule and epilogue words…]

    <A> may carry a block scale: 64x128f32xe4m3, ue8m0xe2m1. Stages 0 means chosen by the library, a cluster with 0
    chosen at launch. ``bias_f32_relu`` ends every fp32 GEMM of cuBLAS on Blackwell, also that of a plain ``a @ b``:
    slots again, which say nothing.

    cutlass3x_<arch>_<unit>_<acc><M>x<N>x<K>[tf32](implicit_gemm_|_conv3d_)(fprop|…)[_words]_<A>_<B>_<acc>_<C>_<D>
        [_<type>][_t3xr3xs3]_<M>x<N>x<K>_(dyn_cga|<cluster>)_<layouts>…

As C++ templates, tile and types are arguments of the main loop::

    …CollectiveMma<…MainloopSm<cc>…<stages, …, cute::tuple<cluster>, …>, cute::tuple<tile>, <A>, <strides>, <B>, …>
    vllm::cutlass_3x_gemm_sm<cc>_<fp8|int8><A, D, …, cute::tuple<tile>, cute::tuple<cluster>, …>

Layout letters: t row-major, n column-major, in the order A, B, C.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from foretrace.names.dtypes import from_cpp, from_token
from foretrace.names.gemm import told
from foretrace.names.identity import Identity
from foretrace.names.mma import accumulator, first_arch, mma_shape, operand_dtype, stored
from foretrace.names.words import made_for

if TYPE_CHECKING:
    from foretrace.names.symbol import Symbol

_TYPE = r"bf16|f16|tf32|f32|f64|s8|u8|s4|u4|s32|e4m3|e5m2|cf32|cf64"
_V2 = re.compile(
    rf"""cutlass (?:_(?P<cc>[0-9]{{2,3}}))? _(?P<unit>wmma_tensorop|wmma|tensorop|simt) (?:_(?P<out>{_TYPE}))?
    _(?P<acc>gc|gz|[sdhicz]) (?P<mma>[0-9]{{3,6}})? (?P<op>gemm|fprop|dgrad|wgrad)
    (?P<words>(?:_[a-z0-9]{{1,24}}){{0,6}}?)
    _(?P<m>[0-9]{{1,4}})x(?P<n>[0-9]{{1,4}}) _(?P<k>[0-9]{{1,4}})x(?P<stages>[0-9]{{1,2}})
    (?P<more>(?:_[A-Za-z0-9]{{1,24}}){{0,3}}?) _(?P<layout>[nt]{{2,3}}|nhwc|nchw|ndhwc)
    (?:_align(?P<align>[0-9]{{1,3}}))?
    (?![a-z0-9])""",
    re.ASCII | re.VERBOSE,
)
_V3 = re.compile(
    r"""cutlass3x _(?P<arch>sm[0-9]{2,3})[a-z]? _(?P<unit>[a-z]{1,24})
    _(?:[a-z]{1,2}? (?P<mma>[0-9]{1,4}x[0-9]{1,4}x[0-9]{1,4}) (?P<tf32>tf32)?)? [a-z0-9]{0,8}?
    (?P<op>gemm|fprop|dgrad|wgrad) (?:_(?:grouped|planar_complex|block_scaled))?
    _(?P<a>[a-z0-9]{2,32})_(?P<b>[a-z0-9]{2,32})_(?P<acc>[a-z0-9]{2,8})_(?P<c>[a-z0-9]{2,8})_(?P<d>[a-z0-9]{2,8})
    _(?P<m>[0-9]{1,4})x(?P<n>[0-9]{1,4})x(?P<k>[0-9]{1,4}) (?:_(?P<cluster>[0-9]{1,2}x[0-9]{1,2}x[0-9]{1,2}))?
    _(?P<stages>[0-9]{1,2}) (?:_vs[0-9]{1,3})? _(?P<layout>[nt]{3}|nhwc|ndhwc) (?:_align(?P<align>[0-9]{1,3}))?
    (?P<words>(?:_[A-Za-z0-9]{1,32}){0,16})""",
    re.ASCII | re.VERBOSE,
)
_PLAIN = r"bf16|f16|tf32|f32|f8|e4m3|e5m2|s8|i8|void"
_V3_CONV = re.compile(
    rf"""cutlass3x _(?P<arch>sm[0-9]{{2,3}})[a-z]? _(?P<unit>[a-z]{{1,24}})
    _[a-z]{{1,2}}? (?P<mma>[0-9]{{1,4}}x[0-9]{{1,4}}x[0-9]{{1,4}}) (?P<tf32>tf32)? (?:implicit_gemm|_conv[23]d)
    _(?P<op>fprop|dgrad|wgrad) (?:_[a-z0-9]{{1,16}}){{0,6}}?
    _(?P<a>{_PLAIN})_(?P<b>{_PLAIN})_(?P<acc>{_PLAIN})_(?P<c>{_PLAIN})_(?P<d>{_PLAIN}) (?:_(?:{_PLAIN}))?
    (?:_t[0-9]x?r[0-9]x?s[0-9])? _(?P<m>[0-9]{{1,4}})x(?P<n>[0-9]{{1,4}})x(?P<k>[0-9]{{1,4}})
    _(?:dyn_cga|(?P<cluster>[0-9]{{1,2}}x[0-9]{{1,2}}x[0-9]{{1,2}})) (?:_(?P<stages>[0-9]{{1,2}}))?
    _(?P<layout>nhwc|ndhwc)(?:_n[dhwc]{{2,4}}){{0,2}} (?:_align(?P<align>[0-9]{{1,3}}))?
    (?P<words>(?:_[A-Za-z0-9]{{1,32}}){{0,16}})""",
    re.ASCII | re.VERBOSE,
)
_TEMPLATE = re.compile(r"cutlass(?:_\w{1,24})?::(?:(?:gemm|conv)::|device_kernel|Kernel)", re.ASCII)
_IS_CONV = re.compile(r"cutlass::conv::|fprop|dgrad|wgrad", re.ASCII)
_ARCH = re.compile(r"cutlass::arch::Sm([0-9]{2,3})", re.ASCII)
_MAINLOOP_ARCH = re.compile(r"Mainloop(Sm[0-9]{2,3})|cutlass_3x_gemm_(sm[0-9]{2,3})_", re.ASCII)
_TUPLE = r"cute::tuple<cute::C<([0-9]{1,4})>, ?cute::C<([0-9]{1,4})>, ?cute::C<([0-9]{1,4})> ?>"
_ELEMENT = r"(cutlass::\w{1,24}|float|double|signed char)"
_MAINLOOP = re.compile(
    rf"MainloopSm[0-9]{{2,3}}\w{{0,64}}<([0-9]{{1,2}}),(?: [0-9]{{1,2}},){{0,3}} ?{_TUPLE}[^<>]{{0,100}}>, ?{_TUPLE}"
    rf", ?{_ELEMENT}, ?cute::tuple<[^<>]{{0,20}}(?:cute::C<[0-9]>[^<>]{{0,20}}){{0,2}}>, ?{_ELEMENT}[,>]",
    re.ASCII,
)
_VLLM = re.compile(
    rf"vllm::cutlass_3x_gemm_sm[0-9]{{2,3}}_\w{{1,24}}<{_ELEMENT}, ?{_ELEMENT}, ?[\w:]{{1,64}}, ?{_TUPLE}, ?{_TUPLE}"
)
_ACTIVATIONS = ("gelu", "silu", "sigmoid", "tanh", "hswish")  # bias and relu are names of slots
_SCHEDULES = {
    "pingpong": "consumer warpgroups take turns, each on its own tile (pingpong)",
    "cooperative": "consumer warpgroups share one tile (cooperative)",
    "1sm": "one block a matrix instruction (1sm)",
    "2sm": "pairs of blocks share one matrix instruction (2sm): the tile is the pair's",
    "tma": "the epilogue stores by TMA",
}
_CONVOLUTIONS = {"fprop": "forward", "dgrad": "input-gradient", "wgrad": "weight-gradient"}


def parse(symbol: Symbol) -> Identity | None:
    """Decode a CUTLASS name, or ``None``."""
    if "cutlass" not in symbol.text:
        return None
    if found := _V3.search(symbol.text) or _V3_CONV.search(symbol.text):
        return _version_3(symbol.name, found)
    if found := _V2.search(symbol.text):
        return _version_2(symbol, found)
    return _template(symbol)


def _version_2(symbol: Symbol, found: re.Match[str]) -> Identity:
    words = found["words"].split("_") + found["more"].split("_")
    written = next((dtype for word in reversed(words) if (dtype := from_token(word))), None)
    in_dtype = operand_dtype(found["acc"], found["mma"], written)
    acc = accumulator(found["acc"])
    arch = f"sm{found['cc']}" if found["cc"] else first_arch(found["mma"], in_dtype)
    identity = Identity(
        symbol.name,
        family="cutlass",
        library=_library(symbol),
        arch=arch,
        op_class="gemm" if found["op"] == "gemm" else "conv",
        in_dtype=in_dtype,
        acc_dtype=acc,
        out_dtype=from_token(found["out"]) or acc,
        tile=(int(found["m"]), int(found["n"]), int(found["k"])),
        stages=int(found["stages"]),
        mma=mma_shape(found["mma"]),
        layout=found["layout"],
        align=int(found["align"]) if found["align"] else None,
        split_k=True if "splitk" in (word.lower() for word in words) else None,
    )
    return told(
        identity,
        f"CUTLASS {_noun(found['op'])}{made_for(arch)}",
        _unit(found["unit"], in_dtype),
        "relu names an epilogue slot, usually the identity" if "relu" in words else None,
    )


def _version_3(name: str, found: re.Match[str]) -> Identity:
    words = found["words"].split("_")
    cluster = _numbers(found["cluster"])
    chosen_at_launch = cluster is not None and 0 in cluster
    a, b = _operand(found["a"]), _operand(found["b"])
    in_dtype = a if a == b else None
    if found["tf32"] and in_dtype == "f32":
        in_dtype = "tf32"
    identity = Identity(
        name,
        family="cutlass",
        library="CUTLASS",
        arch=found["arch"],
        op_class="gemm" if found["op"] == "gemm" else "conv",
        in_dtype=in_dtype,
        acc_dtype=from_token(found["acc"]),
        out_dtype=stored(from_token(found["d"])),
        tile=(int(found["m"]), int(found["n"]), int(found["k"])),
        stages=int(found["stages"] or 0) or None,
        mma=_numbers(found["mma"]),
        cluster=None if chosen_at_launch else cluster,
        layout=found["layout"],
        align=int(found["align"]) if found["align"] else None,
        split_k=True if any(word.lower() == "splitk" for word in words) else None,
        epilogue="+".join(word for word in words if word in _ACTIVATIONS) or None,
    )
    particulars = [said for word, said in _SCHEDULES.items() if word in words]
    return told(
        identity,
        f"CUTLASS 3 {_noun(found['op'])}{made_for(found['arch'])}",
        _unit(found["unit"], in_dtype),
        "cluster chosen at launch" if chosen_at_launch else None,
        "operands carry block scales" if "x" in found["a"] else None,
        "no C operand" if found["c"] == "void" else None,
        "bias and relu name epilogue slots, usually the identity" if {"bias", "relu"} & set(words) else None,
        *particulars,
    )


def _template(symbol: Symbol) -> Identity | None:
    """A kernel instantiated by hand, or a name cut short: class and architecture, which are spelled out."""
    if not _TEMPLATE.match(symbol.path) and "cutlass::gemm::" not in symbol.text:
        return None
    if "reduction::kernel::ReduceSplitK" in symbol.text:
        helper = Identity(
            symbol.name,
            family="cutlass",
            library="CUTLASS",
            op_class="gemm-helper",
            split_k=True,
            helper_of="gemm",
        )
        return told(helper, "CUTLASS split-K reduction", "its time belongs to the GEMM before it")
    is_conv, is_gemm = bool(_IS_CONV.search(symbol.text)), "gemm" in symbol.text.lower()
    op_class = "conv" if is_conv else "gemm" if is_gemm else "other"
    arch = _template_arch(symbol.text)
    identity = Identity(symbol.name, family="cutlass", library=_library(symbol), arch=arch, op_class=op_class)
    noun = {"conv": "convolution", "gemm": "GEMM", "other": "kernel"}[op_class]
    head = f"CUTLASS {noun}{made_for(arch)}"
    if op_class == "gemm" and (filled := _arguments(symbol.text, identity)):
        return told(filled, head)
    return told(identity, head, "tile and types are not in the name, or not in a known form")


def _template_arch(text: str) -> str | None:
    if found := _MAINLOOP_ARCH.search(text):
        return (found[1] or found[2]).lower()
    return f"sm{found[1]}" if (found := _ARCH.search(text)) else None


def _arguments(text: str, identity: Identity) -> Identity | None:
    """``identity`` with what the arguments of a CUTLASS 3 template say."""
    if found := _MAINLOOP.search(text):
        stages, cluster, tile, (a, b) = int(found[1]), found.group(2, 3, 4), found.group(5, 6, 7), found.group(8, 9)
        in_dtype, out = from_cpp(a) if a == b and a != "float" else None, None  # a float enters as tf32, or in parts
    elif found := _VLLM.search(text):
        stages, cluster, tile = None, found.group(6, 7, 8), found.group(3, 4, 5)
        in_dtype, out = from_cpp(found[1]), from_cpp(found[2])
    else:
        return None
    m, n, k = map(int, tile)
    return replace(
        identity,
        in_dtype=in_dtype,
        out_dtype=out,
        tile=(m, n, k),
        stages=stages,
        cluster=tuple(map(int, cluster)),
    )


def _library(symbol: Symbol) -> str:
    """Who ships it: cuDNN has copies under names of its own (``cutlass_cudnn_train``, ``cutlass__5x_cudnn``)."""
    return "cuDNN" if re.match(r"cutlass_\w{0,24}cudnn", symbol.scope, re.ASCII) else "CUTLASS"


def _operand(token: str) -> str | None:
    """The data type of an operand token, without its block scale (``64x128f32xe4m3`` → fp8)."""
    return from_token(token.rsplit("x", 1)[-1])


def _numbers(text: str | None) -> tuple[int, int, int] | None:
    if not text:
        return None
    m, n, k = (int(number) for number in text.split("x"))
    return m, n, k


def _noun(op: str) -> str:
    return "GEMM" if op == "gemm" else f"{_CONVOLUTIONS[op]} convolution"


def _unit(unit: str, in_dtype: str | None) -> str | None:
    if unit == "simt":
        return "on the CUDA cores, no Tensor Cores (simt)"
    return "fp32 operands rounded to TF32 for the Tensor Cores" if in_dtype == "tf32" else None
