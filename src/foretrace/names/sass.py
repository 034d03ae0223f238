"""The hand-scheduled GEMMs and convolutions of cuBLAS, cuDNN and TensorRT, Maxwell to Ampere.

::

    [trt_|cudnn_[infer_|train_]|_5x_cudnn_]<arch>_[<out>_]<acc>[<mma>](gemm|cudnn)[_<in>][_winograd]_<M>x<N>[_words…]
        [_stages_<K>x<stages>]_<layout>[_v<n>]

Without ``stages`` the K tile is not in the name. ``sliced<a>x<b>`` splits K over the warps of a block, ``ldg8`` loads
eight elements at a time, ``splitK`` splits K over blocks. ``<acc>`` h accumulates in fp16; ``gc`` is complex.
``relu`` names an epilogue slot that plain convolutions fill with the identity, so it says nothing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from foretrace.names.dtypes import from_token
from foretrace.names.gemm import told
from foretrace.names.identity import Identity
from foretrace.names.mma import accumulator, mma_shape, operand_dtype
from foretrace.names.words import made_for

if TYPE_CHECKING:
    from foretrace.names.symbol import Symbol

_TYPE = r"bf16|fp16|f16|tf32|fp32|fp64|int8|i8"
_NAME = re.compile(
    rf"""(?:_[0-9]x_)? (?P<owner>trt_|cudnn_(?:infer_|train_)?)? (?P<arch>maxwell|pascal|volta|turing|ampere|hopper)
    (?:_(?P<out>{_TYPE}))?
    _(?P<acc>gc|gz|[sdhicz]) (?P<mma>[0-9]{{3,6}})? (?P<op>gemm|cudnn) (?:_(?P<in>{_TYPE}))? (?P<winograd>_winograd)?
    _(?P<m>[0-9]{{1,4}})x(?P<n>[0-9]{{1,4}}) (?P<words>(?:_[A-Za-z0-9]{{1,24}}){{0,10}}?)
    (?:_stages_(?P<k>[0-9]{{1,4}})x(?P<stages>[0-9]{{1,2}}))? (?:_(?P<layout>[nt]{{2}}))? (?:_v[0-9]{{1,2}})?""",
    re.ASCII | re.VERBOSE,
)
_ARCHS = {
    "maxwell": "sm50",
    "pascal": "sm60",
    "volta": "sm70",
    "turing": "sm75",
    "ampere": "sm80",
    "hopper": "sm90",
}
_BEFORE_TF32 = frozenset({"sm50", "sm60", "sm70", "sm75"})
_LIBRARIES = {"trt": "TensorRT", "cudnn": "cuDNN", "": "cuBLAS"}
_SLICED = re.compile(r"sliced([0-9]{1,2})x([0-9]{1,2})", re.ASCII)


def parse(symbol: Symbol) -> Identity | None:
    """Decode a SASS GEMM or convolution name, or ``None``."""
    found = _NAME.fullmatch(symbol.path)
    if not found:
        return None
    words = found["words"].split("_")[1:]
    is_conv = found["op"] == "cudnn"
    library = "cuDNN" if is_conv else _LIBRARIES[(found["owner"] or "").split("_")[0]]
    arch = _ARCHS[found["arch"]]
    in_dtype = operand_dtype(found["acc"], found["mma"], from_token(found["in"]))
    if in_dtype == "tf32" and arch in _BEFORE_TF32:
        in_dtype = None
    identity = Identity(
        symbol.name,
        family=library.lower(),
        library=library,
        arch=arch,
        op_class="conv" if is_conv else "gemm",
        in_dtype=in_dtype,
        acc_dtype=accumulator(found["acc"]),
        out_dtype=from_token(found["out"]) or accumulator(found["acc"]),
        tile=(int(found["m"]), int(found["n"]), int(found["k"]) if found["k"] else None),
        stages=int(found["stages"]) if found["stages"] else None,
        mma=mma_shape(found["mma"]),
        layout=found["layout"],
        split_k="splitK" in words,
    )
    noun = ("winograd convolution" if found["winograd"] else "convolution") if is_conv else "GEMM"
    return told(identity, f"{library} {noun}{made_for(arch)}", _unit(identity, found["mma"]), _sliced(words))


def _unit(identity: Identity, mma: str | None) -> str | None:
    if mma is None:
        off = ": TF32 was off or not possible" if identity.in_dtype == "f32" and identity.arch == "sm80" else ""
        return f"on the CUDA cores, no Tensor Cores{off}"
    return "fp32 operands rounded to TF32 for the Tensor Cores" if identity.in_dtype == "tf32" else None


def _sliced(words: list[str]) -> str | None:
    for word in words:
        if found := _SLICED.fullmatch(word):
            return f"K sliced over {int(found[1]) * int(found[2])} groups of warps inside a block"
    return None
