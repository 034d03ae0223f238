"""Kernels of extension packages that have no namespace but names of their own: bitsandbytes, Apex, Mamba, Marlin.

::

    kQuantizeBlockwise<type, …>, kDequantizeBlockwise<…>, kgemm_4bit_inference…<type, …>, kOptimizer…<type, …>
    multi_tensor_apply_kernel<TensorListMetadata<lists>, <Op>Functor<type, …>, …>         Apex, Transformer Engine
    cuApplyLayerNorm<…>, cuApplyRMSNorm<…>, cuComputeGradInput<…>                          Apex
    selective_scan_(fwd|bwd)_kernel<Selective_Scan_…_kernel_traits<…, input, weight>>      Mamba
    causal_conv1d_…_kernel<Causal_conv1d_…_kernel_traits<…, input, weight>>                causal-conv1d
    Marlin<type, …>                                                                        Marlin
    _[p_]matmul_ogs_<layouts>_<Y>x<X>x<W>_<M>x<N>x<K>x<splits>[_words…]                    triton_kernels
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from foretrace.names.dtypes import from_cpp, from_token
from foretrace.names.gemm import told
from foretrace.names.identity import Identity
from foretrace.names.words import EPILOGUE_WORDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from foretrace.names.symbol import Symbol


@dataclass(frozen=True, slots=True)
class _Kind:
    """A function: whose, what class, what to call it, and what its first type argument is the type of."""

    pattern: re.Pattern[str]
    library: str
    op_class: str
    noun: str
    typed: str = ""


def _kind(pattern: str, library: str, op_class: str, noun: str, typed: str = "") -> _Kind:
    return _Kind(re.compile(pattern, re.ASCII), library, op_class, noun, typed)


_KINDS = (
    _kind(r"kQuantizeBlockwise\w*", "bitsandbytes", "pointwise", "quantization to 8 or 4 bits, block by block", "in"),
    _kind(r"kDequantizeBlockwise", "bitsandbytes", "pointwise", "dequantization from 8 or 4 bits", "out"),
    _kind(r"kgemm_4bit_inference\w*", "bitsandbytes", "gemm", "GEMM with 4-bit weights for a few rows", "out"),
    _kind(r"kOptimizer(?:Static)?(?:8bit|32bit)\w*", "bitsandbytes", "optimizer", "optimizer", "in"),
    _kind(r"kInt8VectorQuant|kDoubleRowColQuant", "bitsandbytes", "pointwise", "quantization to int8", "in"),
    _kind(r"kdequant_mm_int32_fp16", "bitsandbytes", "pointwise", "dequantization of an int8 GEMM's result"),
    _kind(r"cuApply(?:LayerNorm|RMSNorm)\w*", "Apex", "normalization", "normalization"),
    _kind(r"cuCompute(?:GradInput|PartGradGammaBeta|GradGammaBeta)", "Apex", "normalization", "normalization backward"),
    _kind(r"selective_scan_fwd_kernel", "Mamba", "scan", "selective scan", "traits"),
    _kind(r"selective_scan_bwd_kernel", "Mamba", "scan", "selective scan backward", "traits"),
    _kind(r"causal_conv1d_(?:channellast_)?(?:fwd|update)_kernel", "causal-conv1d", "conv", "convolution", "traits"),
    _kind(r"causal_conv1d_(?:channellast_)?bwd_kernel", "causal-conv1d", "conv", "convolution backward", "traits"),
)
_TRAITS = re.compile(r"\w+_kernel_traits<(?:[^<>,]{1,16}, ){3,12}([\w:]{1,32}), [\w:]{1,32}>", re.ASCII)
_MULTI_TENSOR = re.compile(r"(?:[\w:]{1,64}::)?(?P<op>\w{1,32}?)Functor\w{0,24}(?:<(?P<type>\w{1,16})\b)?", re.ASCII)
_OPTIMIZERS = re.compile(r"adam|sgd|lamb|novograd|adagrad", re.ASCII | re.IGNORECASE)
_MATMUL_OGS = re.compile(
    r"""_(?:p_)?matmul_ogs_(?P<layout>[NT]{3})_(?P<y>[a-z0-9]{2,10}?)x(?P<x>[a-z0-9]{2,10}?)x(?P<w>[a-z0-9]{2,10})
    _(?P<m>[0-9]{1,4})x(?P<n>[0-9]{1,4})x(?P<k>[0-9]{1,4})x(?P<split>[0-9]{1,3})(?P<words>(?:_[a-z0-9]{1,16}){0,6})""",
    re.ASCII | re.VERBOSE,
)


def parse(symbol: Symbol) -> Identity | None:
    """Decode a name of one of these packages, or ``None``."""
    return next((identity for grammar in _GRAMMARS if (identity := grammar(symbol))), None)


def _function(symbol: Symbol) -> Identity | None:
    kind = next((kind for kind in _KINDS if kind.pattern.fullmatch(symbol.path)), None)
    if kind is None:
        return None
    if kind.typed == "traits":
        traits = _TRAITS.match(symbol.args[0]) if symbol.args else None
        dtype = from_cpp(traits[1]) if traits else None
    else:
        dtype = from_cpp(symbol.args[0]) if symbol.args else None
    identity = Identity(
        symbol.name,
        family=kind.library.lower(),
        library=kind.library,
        op_class=kind.op_class,
        in_dtype=dtype if kind.typed in {"in", "traits"} else None,
        out_dtype=dtype if kind.typed == "out" else None,
    )
    return told(identity, f"{kind.library} {kind.noun}")


def _marlin(symbol: Symbol) -> Identity | None:
    """As long as it had no namespace."""
    if symbol.path != "Marlin" or not symbol.args:
        return None
    identity = Identity(symbol.name, family="marlin", library="Marlin", op_class="gemm")
    return told(identity, "Marlin GEMM", "weights of few bits, unpacked on the way")


def _multi_tensor(symbol: Symbol) -> Identity | None:
    """Apex's launcher, which Transformer Engine took over; ATen's of the same name lies in ``at::native``."""
    if symbol.path != "multi_tensor_apply_kernel" or not any("TensorListMetadata<" in arg for arg in symbol.args[:1]):
        return None
    functor = next((found for arg in symbol.args[1:] if (found := _MULTI_TENSOR.match(arg))), None)
    if functor is None or "at::native" in symbol.args[0]:
        return None
    library = "Transformer Engine" if "transformer_engine" in symbol.text else "Apex"
    op = functor["op"].lower()
    op_class = "optimizer" if _OPTIMIZERS.search(op) else "reduction" if "norm" in op else "pointwise"
    identity = Identity(
        symbol.name,
        family="apex",
        library=library,
        op_class=op_class,
        in_dtype=from_cpp(functor["type"]) if functor["type"] else None,
    )
    return told(identity, f"{library} multi-tensor {op}", "one launch works on many tensors")


def _matmul_ogs(symbol: Symbol) -> Identity | None:
    found = _MATMUL_OGS.fullmatch(symbol.path)
    if not found:
        return None
    x, w = (from_token(found[side].removeprefix("mx")) for side in "xw")
    words = found["words"].split("_")
    identity = Identity(
        symbol.name,
        family="triton-kernels",
        library="triton_kernels",
        op_class="gemm",
        in_dtype=x if x == w else None,
        out_dtype=from_token(found["y"]),
        tile=(int(found["m"]), int(found["n"]), int(found["k"])),
        layout=found["layout"],
        split_k=int(found["split"]) > 1,
        epilogue="gated" if "swiglu" in words else None,
    )
    mixed = f"activations {found['x']}, weights {found['w']}" if x != w else None
    gated = EPILOGUE_WORDS[identity.epilogue] if identity.epilogue else None
    return told(identity, "triton_kernels GEMM of routed experts", mixed, gated)


_GRAMMARS: tuple[Callable[[Symbol], Identity | None], ...] = (_function, _marlin, _multi_tensor, _matmul_ogs)
