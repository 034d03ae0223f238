"""XMMA kernels: GEMMs of cuBLAS and TensorRT, convolutions of cuDNN; read from many names.

There is no public grammar. That the second type is the output shows in ``i8f32_i8i32``, the first type of ``tf32f32``
in that it is stored as f32::

<arch>_xmma_gemm_<A><D>_<B><acc>_<scalar>_<ab>_<d>_tilesize<M>x<N>x<K>[_stage<n>][_cgasize<cluster>]
    [_warpsize…|_warpgroupsize…][_g<groups>][_tensor<M>x<N>x<K>][_words…]
<arch>_xmma_(fprop|dgrad|wgrad)_implicit_gemm[_indexed]_<types as above>_<in><weights>_<out>_tilesize…

``segment_k_off``: no stream-K. ``split_k``: K over several blocks.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from foretrace.names.dtypes import from_token
from foretrace.names.gemm import told
from foretrace.names.identity import Identity
from foretrace.names.mma import stored
from foretrace.names.words import made_for

if TYPE_CHECKING:
    from foretrace.names.symbol import Symbol

_TYPE = r"bf16|f16|tf32|f32|f64|e4m3|e5m2|i8|u8|i32|cf32|cf64"
_NAME = re.compile(
    rf"""(?P<arch>sm[0-9]{{2,3}})_xmma_(?P<op>gemm|fprop|dgrad|wgrad) (?:_implicit_gemm)?
    (?:_(?:indexed|interior|interleaved|strided)(?:_[a-z]{{1,16}}){{0,3}})?
    _(?P<a>{_TYPE})(?P<d>{_TYPE})_(?P<b>{_TYPE})(?P<acc>{_TYPE})_(?:{_TYPE})
    _(?P<layout>[a-z]{{2,16}}_[a-z]{{1,8}})
    _tilesize(?P<m>[0-9]{{1,4}})x(?P<n>[0-9]{{1,4}})x(?P<k>[0-9]{{1,4}}) (?:_stage(?P<stages>[0-9]{{1,2}}))?
    (?P<words>(?:_[A-Za-z0-9]{{0,32}}){{0,24}})""",
    re.ASCII | re.VERBOSE,
)
_START = re.compile(r"(?P<arch>sm[0-9]{2,3})_xmma_(?P<op>gemm|fprop|dgrad|wgrad)_", re.ASCII)
_TENSOR = re.compile(r"_tensor([0-9]{1,3})x([0-9]{1,3})x([0-9]{1,3})", re.ASCII)
_CLUSTER = re.compile(r"_cgasize([0-9]{1,2})x([0-9]{1,2})x([0-9]{1,2})", re.ASCII)
_CONVOLUTIONS = {"fprop": "forward", "dgrad": "input-gradient", "wgrad": "weight-gradient"}
_EPILOGUES = frozenset({"bias", "gelu"})  # a relu may be the name of a slot
_WEIGHTS = re.compile(r"(?:krsc|kcrs|kctrs|ktrsc)\Z", re.ASCII)


def parse(symbol: Symbol) -> Identity | None:
    """Decode an XMMA name, or ``None``."""
    found = _NAME.fullmatch(symbol.path)
    if not found:
        return _cut_short(symbol)
    is_conv = found["op"] != "gemm"
    a, b = from_token(found["a"]), from_token(found["b"])
    in_dtype = "tf32" if {a, b} == {"f32", "tf32"} else a if a == b else None
    words, arch = found["words"], found["arch"]
    identity = Identity(
        symbol.name,
        family="xmma",
        library=_library(words, is_conv=is_conv),
        arch=arch,
        op_class="conv" if is_conv else "gemm",
        in_dtype=in_dtype,
        acc_dtype=from_token(found["acc"]),
        out_dtype=stored(from_token(found["d"])),
        tile=(int(found["m"]), int(found["n"]), int(found["k"])),
        stages=int(found["stages"]) if found["stages"] else None,
        mma=_numbers(_TENSOR, words),
        cluster=_numbers(_CLUSTER, words),
        layout=_WEIGHTS.sub("", found["layout"].split("_")[0]) if is_conv else found["layout"],
        split_k="_split_k" in words or "_splitk" in words.lower(),
        epilogue="+".join(word for word in words.split("_") if word in _EPILOGUES and not is_conv) or None,
    )
    noun = f"{_CONVOLUTIONS[found['op']]} convolution" if is_conv else "GEMM"
    return told(
        identity,
        f"{identity.library or 'XMMA'} {noun}{made_for(arch)}",
        "fp32 operands rounded to TF32 for the Tensor Cores" if in_dtype == "tf32" else None,
        "on the CUDA cores, no Tensor Cores (ffma)" if "_ffma" in words else None,
        "K not shared out over blocks (segment_k_off)" if "segment_k_off" in words else None,
        f"output {found['layout'].split('_')[1]}" if is_conv else None,
    )


def _cut_short(symbol: Symbol) -> Identity | None:
    """A name without its tile: class and architecture are still said."""
    found = _START.match(symbol.path)
    if not found:
        return None
    op_class = "gemm" if found["op"] == "gemm" else "conv"
    identity = Identity(symbol.name, family="xmma", arch=found["arch"], op_class=op_class)
    return told(identity, f"XMMA {'GEMM' if op_class == 'gemm' else 'convolution'}{made_for(found['arch'])}")


def _numbers(pattern: re.Pattern[str], words: str) -> tuple[int, int, int] | None:
    return (int(found[1]), int(found[2]), int(found[3])) if (found := pattern.search(words)) else None


def _library(words: str, *, is_conv: bool) -> str | None:
    """Who ships it, as far as the last words say; convolutions of this kind come from cuDNN or TensorRT."""
    for token, library in (("cublas", "cuBLAS"), ("cudnn", "cuDNN"), ("trt", "TensorRT"), ("fused", "TensorRT")):
        if f"_{token}" in words:
            return library
    return None if is_conv else "cuBLAS"
