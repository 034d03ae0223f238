"""AMD's libraries beside Tensile: MIOpen, Composable Kernel, and vLLM's skinny GEMMs.

MIOpen::

    igemm_(fwd|bwd|wrw)_gtc[x<n>]_<layout>_<type>_…_bt<M>x<N>x<K>_…[_gkgs]        gtcx2 MI200, gtcx3 MI300
    miopen…, MIOpen…, mloOpen…, naive_conv_…, batched_transpose_…
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from foretrace.names.dtypes import from_cpp, from_token
from foretrace.names.gemm import told
from foretrace.names.identity import Identity
from foretrace.names.words import made_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from foretrace.names.symbol import Symbol

_IGEMM = re.compile(
    r"""igemm_(?P<way>fwd|bwd|wrw)_gtc(?P<gen>x[0-9])?_(?P<layout>n[a-z]{2,4})_(?P<type>fp32|fp16|bf16|int8)\w*?
    _bt(?P<m>[0-9]{1,4})x(?P<n>[0-9]{1,4})x(?P<k>[0-9]{1,4})(?P<rest>\w*)""",
    re.ASCII | re.VERBOSE,
)
_GENERATIONS = {None: "gfx908", "x": "gfx908", "x2": "gfx90a", "x3": "gfx942"}
_WAYS = {"fwd": "forward", "bwd": "input-gradient", "wrw": "weight-gradient"}
_MIOPEN = re.compile(
    r"(?:miopen|MIOpen|mloOpen|naive_conv|Im2d2Col|Col2Im2d|batched_transpose|SubTensorOp|OpTensor)\w*", re.ASCII
)
_MIOPEN_KINDS = (
    ("conv", re.compile(r"conv|winograd|Sp3Asm|gcnAsm", re.IGNORECASE)),
    ("normalization", re.compile(r"norm", re.IGNORECASE)),
    ("softmax", re.compile(r"softmax", re.IGNORECASE)),
    ("copy", re.compile(r"transpose|Im2d2Col|Col2Im2d", re.IGNORECASE)),
    ("reduction", re.compile(r"pool|reduce", re.IGNORECASE)),
    ("pointwise", re.compile(r"tensor|neuron|activ", re.IGNORECASE)),
)
_SKINNY = re.compile(r"(?:vllm::)?(?:wvSplitK\w{0,16}|LLGemm1\w{0,16}|LLMM1\w{0,16})", re.ASCII)


def parse(symbol: Symbol) -> Identity | None:
    """Decode a name of AMD's libraries, or ``None``."""
    return next((identity for grammar in _GRAMMARS if (identity := grammar(symbol))), None)


def _igemm(symbol: Symbol) -> Identity | None:
    found = _IGEMM.match(symbol.path)
    if not found:
        return None
    arch = _GENERATIONS.get(found["gen"])
    identity = Identity(
        symbol.name,
        family="miopen",
        library="MIOpen",
        arch=arch,
        op_class="gemm",
        in_dtype=from_token(found["type"]),
        tile=(int(found["m"]), int(found["n"]), int(found["k"])),
        layout=found["layout"],
        split_k="_gkgs" in found["rest"],
    )
    return told(identity, f"MIOpen {_WAYS[found['way']]} convolution as an implicit GEMM{made_for(arch)}")


def _miopen(symbol: Symbol) -> Identity | None:
    if not _MIOPEN.fullmatch(symbol.path):
        return None
    op_class = next((kind for kind, pattern in _MIOPEN_KINDS if pattern.search(symbol.path)), "other")
    return Identity(
        symbol.name, family="miopen", library="MIOpen", op_class=op_class, in_words=f"MIOpen {op_class}: {symbol.base}"
    )


_CK_KINDS = (
    ("conv", re.compile(r"conv|bwd_(?:weight|data)")),
    ("gemm", re.compile(r"gemm|flatmm")),
    ("normalization", re.compile(r"norm")),
    ("sort", re.compile(r"moesorting")),
    ("softmax", re.compile(r"topksoftmax")),
    ("pointwise", re.compile(r"smoothquant")),
)


def _composable(symbol: Symbol) -> Identity | None:
    if not symbol.path.startswith(("ck::", "ck_tile::")):
        return None
    text = symbol.text.lower()
    op_class = next((kind for kind, pattern in _CK_KINDS if pattern.search(text)), "other")
    noun = {"conv": "convolution", "gemm": "GEMM"}.get(op_class, "kernel")
    words = f"Composable Kernel {noun}: {symbol.base}"
    return Identity(symbol.name, family="ck", library="Composable Kernel", op_class=op_class, in_words=words)


def _skinny(symbol: Symbol) -> Identity | None:
    if not _SKINNY.fullmatch(symbol.path) or not symbol.args:
        return None
    dtype = from_cpp(symbol.args[0])
    identity = Identity(
        symbol.name,
        family="vllm",
        library="vLLM",
        arch="gfx9",  # compiled for gfx9 only: it needs that family's dot instructions
        op_class="gemm",
        in_dtype=dtype,
        acc_dtype="f32" if dtype else None,
    )
    return told(identity, "vLLM GEMM for a few rows on AMD", "its SplitK is inside a block: nothing is added up later")


_GRAMMARS: tuple[Callable[[Symbol], Identity | None], ...] = (_igemm, _miopen, _composable, _skinny)
