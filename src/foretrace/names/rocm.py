"""AMD's libraries: Tensile (rocBLAS, hipBLASLt), MIOpen, Composable Kernel, and vLLM's skinny GEMMs.

Tensile::

    [Custom_]Cijk_<A>_<B>_<types>[_words…]_MT<M>x<N>x<K>_[MI<M>x<N>x<B>[x1]…]_…[_GSU<n>[algorithm]]_…_ISA<target>_…

    A  Ailk not transposed, Alik transposed;  B  Bljk not, Bjlk transposed
    types  operand, output, compute (BBS, HHS), or one letter for all (SB: single, B = uses beta)
           S f32, D f64, H f16, B bf16, C c64, Z c128, F8 B8 fp8, I8 int8, I int32, X tf32; H after the types:
           accumulates in high precision
    GSU above 1 splits K over blocks; SK above 0 is stream-K

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

_TENSILE = re.compile(
    r"""(?:Custom_)?Cijk_A(?P<a>ilk|lik)_B(?P<b>ljk|jlk)_(?P<types>[A-Z0-9]{1,8})_(?P<words>\w{0,80}?)
    MT(?P<m>[0-9]{1,4})x(?P<n>[0-9]{1,4})x(?P<k>[0-9]{1,4})(?P<rest>\w*)""",
    re.ASCII | re.VERBOSE,
)
_ONE_TYPE = re.compile(r"([SDHBCZ])B(H?)", re.ASCII)
_TYPE = re.compile(r"F8|B8|I8|[SDHBCZIX]", re.ASCII)
_TYPES = {
    "S": "f32",
    "D": "f64",
    "H": "f16",
    "B": "bf16",
    "C": "c64",
    "Z": "c128",
    "F8": "fp8",
    "B8": "fp8",
    "I8": "int8",
    "I": "int32",
    "X": "tf32",
}
_ISA = re.compile(r"_ISA([0-9]{2,4}[a-f]?)(?:_|\Z)", re.ASCII)
_MATRIX = re.compile(r"_MI([0-9]{1,2})x([0-9]{1,2})x([0-9]{1,3})x[0-9]", re.ASCII)
_SPLIT = re.compile(r"_GSU([0-9]{1,3})", re.ASCII)
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


def _tensile(symbol: Symbol) -> Identity | None:
    found = _TENSILE.match(symbol.path)
    if not found:
        return None
    operand, out, compute = _tensile_types(found["types"])
    rest = found["rest"]
    arch = f"gfx{isa[1]}" if (isa := _ISA.search(rest)) else None
    split = _SPLIT.search(rest)
    mma = _MATRIX.search(rest)
    library = "hipBLASLt" if "UserArgs" in found["words"] else "rocBLAS"
    identity = Identity(
        symbol.name,
        family="tensile",
        library=library,
        arch=arch,
        op_class="gemm",
        in_dtype=operand,
        acc_dtype=compute,
        out_dtype=out,
        tile=(int(found["m"]), int(found["n"]), int(found["k"])),
        mma=(int(mma[1]), int(mma[2]), int(mma[3])) if mma else None,
        layout=("N" if found["a"] == "ilk" else "T") + ("N" if found["b"] == "ljk" else "T"),
        split_k=int(split[1]) > 1 if split else None,
    )
    takes_bias = "can add a bias; whether it does is a run-time argument" if "_Bias_" in f"_{found['words']}" else None
    return told(identity, f"{library} GEMM (Tensile){made_for(arch)}", takes_bias)


def _tensile_types(word: str) -> tuple[str | None, str | None, str | None]:
    """Operand, output and compute of ``BBS``; one letter (``SB``: single, uses beta) stands for all three.

    ``HBH`` is the old spelling of f16 that accumulates in high precision.
    """
    if old := _ONE_TYPE.fullmatch(word):
        one = _TYPES[old[1]]
        return one, one, "f32" if old[2] else one
    letters = [letter for letter in _TYPE.findall(word) if letter]
    if len(letters) >= 3:  # noqa: PLR2004 - operand, output, compute
        operand, out, compute = (_TYPES[letter] for letter in letters[:3])
        return operand, out, compute
    if not letters:
        return None, None, None
    one = _TYPES[letters[0]]
    return one, one, one


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


def _composable(symbol: Symbol) -> Identity | None:
    if not symbol.path.startswith(("ck::", "ck_tile::")):
        return None
    text = symbol.text.lower()
    op_class = (
        "conv" if "conv" in text else "gemm" if "gemm" in text else "normalization" if "norm" in text else "other"
    )
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


_GRAMMARS: tuple[Callable[[Symbol], Identity | None], ...] = (_tensile, _igemm, _miopen, _composable, _skinny)
