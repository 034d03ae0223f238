"""Tensile's GEMMs (rocBLAS, hipBLASLt) and the small kernels that finish them.

::

    [Custom_]Cijk_<A>_<B>[_<types of A and B>]_<types>[_words…][_MT<M>x<N>x<K>_[MI<M>x<N>x<B>[x1]…]_…]

    A  Ailk not transposed, Alik transposed;  B  Bljk not, Bjlk transposed
    types  operand, output, compute (BBS, HHS, B_BS), or one for all (S, D); older names put words behind it (SB, HBH)
           S f32, D f64, H f16, B bf16, C c64, Z c128, I8 int8, I int32, X tf32, F8 B8 fp8, N after it: fnuz;
           F8B8, B8F8: A and B are of the two kinds of fp8. Words: B uses beta, H accumulates in high precision,
           MX: f32 operands multiplied as tf32
    types of A and B  where they differ from what they are multiplied as: F8H_HHS takes fp8 and f16 and multiplies f16
    GSU above 1 splits K over blocks; SK above 0 is stream-K; ISA<target> or _gfx<target> says what it was built for

Beside a GEMM that splits K::

    Cijk_<workspace><output>[_words…]_PostGSU…      adds up the parts
    Cijk_<output>[_GB]                              prepares an output that the parts are added to

Tensile's ``ProblemType`` and ``KernelWriterConversion`` write them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from foretrace.names.gemm import told
from foretrace.names.identity import Identity
from foretrace.names.words import made_for

if TYPE_CHECKING:
    from foretrace.names.symbol import Symbol

_TYPES = {
    "S": "f32",
    "D": "f64",
    "H": "f16",
    "B": "bf16",
    "C": "c64",
    "Z": "c128",
    "F8B8": "fp8",
    "B8F8": "fp8",
    "F8": "fp8",
    "B8": "fp8",
    "I8": "int8",
    "I": "int32",
    "X": "tf32",
}
_TYPE = rf"(?:{'|'.join(_TYPES)})(?:(?<=8)N)?"
_THREE = re.compile(rf"({_TYPE})({_TYPE})({_TYPE})", re.ASCII)
_TWO = re.compile(rf"({_TYPE})({_TYPE})", re.ASCII)
_WRITTEN = re.compile(rf"({_TYPE})([SD])", re.ASCII)  # output and compute; no flags end so
_ONE = re.compile(rf"({_TYPE})((?:BH?)?)", re.ASCII)
_GEMM = re.compile(r"(?:Custom_)?Cijk_A(?P<a>ilk|lik)_B(?P<b>ljk|jlk)_(?P<types>[A-Z0-9]{1,10})(?P<rest>\w*)", re.ASCII)
_TILE = re.compile(r"_MT([0-9]{1,4})x([0-9]{1,4})x([0-9]{1,4})(?:_|\Z)", re.ASCII)
_ARCH = re.compile(r"_(?:ISA|gfx)([0-9]{2,4}[a-f]?)(?:_|\Z)", re.ASCII)
_MATRIX = re.compile(r"_MI([0-9]{1,2})x([0-9]{1,2})x([0-9]{1,3})x[0-9]", re.ASCII)
_SPLIT = re.compile(r"_GSU([0-9]{1,3})", re.ASCII)
_LITE_WORDS = frozenset({"UserArgs", "SAV", "SAB"})  # of hipBLASLt's own branch: arguments, scales
_SUM = re.compile(rf"Cijk_(?P<types>{_TYPE}(?:{_TYPE})?)(?:_\w{{0,160}}?)?_PostGSU\w{{0,32}}", re.ASCII)
_START = re.compile(rf"Cijk_(?P<types>{_TYPE})(?:_GB)?(?:_Bias[A-Z0-9]{{1,4}})?", re.ASCII)


def parse(symbol: Symbol) -> Identity | None:
    """Decode a Tensile name, or ``None``."""
    if found := _GEMM.fullmatch(symbol.path):
        return _gemm(symbol, found)
    if found := _SUM.fullmatch(symbol.path):
        return _helper(symbol, found["types"], "split-K reduction", "adds up the parts that a split-K GEMM left")
    if found := _START.fullmatch(symbol.path):
        return _helper(symbol, found["types"], "GEMM preparation", "scales or clears the output that a GEMM adds to")
    return None


def _gemm(symbol: Symbol, found: re.Match[str]) -> Identity:
    rest = found["rest"]
    words = rest.split("_")[1:]
    operand, out, compute, mixed = _dtypes(found["types"], words)
    arch = f"gfx{isa[1]}" if (isa := _ARCH.search(rest)) else None
    tile, split, mma = _TILE.search(rest), _SPLIT.search(rest), _MATRIX.search(rest)
    library = "rocBLAS" if _LITE_WORDS.isdisjoint(words) else "hipBLASLt"
    identity = Identity(
        symbol.name,
        family="tensile",
        library=library,
        arch=arch,
        op_class="gemm",
        in_dtype=operand,
        acc_dtype=compute,
        out_dtype=out,
        tile=(int(tile[1]), int(tile[2]), int(tile[3])) if tile else None,
        mma=(int(mma[1]), int(mma[2]), int(mma[3])) if mma else None,
        layout=("N" if found["a"] == "ilk" else "T") + ("N" if found["b"] == "ljk" else "T"),
        split_k=int(split[1]) > 1 if split else None,
    )
    takes_bias = "can add a bias; whether it does is a run-time argument" if "Bias" in words else None
    return told(identity, f"{library} GEMM (Tensile){made_for(arch)}", mixed, takes_bias)


def _dtypes(types: str, words: list[str]) -> tuple[str | None, str | None, str | None, str | None]:
    """Operands, output, compute, and a sentence where A and B are not what they are multiplied as."""
    two, multiplied = _TWO.fullmatch(types), _THREE.fullmatch(words[0]) if words else None
    if two and multiplied:
        a, b = map(_dtype, two.groups())
        operand, out, compute = map(_dtype, multiplied.groups())
        return (a if a == b else None), out, compute, f"A {a}, B {b}, multiplied as {operand}"
    if (one := _ONE.fullmatch(types)) and not one[2] and words and (written := _WRITTEN.fullmatch(words[0])):
        return _dtype(one[1]), _dtype(written[1]), _dtype(written[2]), None
    if one:
        return *_one_dtype(_dtype(one[1]), one[2], words[:1]), None
    if three := _THREE.fullmatch(types):
        operand, out, compute = map(_dtype, three.groups())
        return operand, out, compute, None
    return None, None, None, None


def _one_dtype(dtype: str, flags: str, words: list[str]) -> tuple[str, str, str | None]:
    """One type for all three, except for what the flags behind it say (``HBH``, or ``H_BH``)."""
    high = "H" in flags or words == ["BH"]
    compute = {"f16": "f32", "bf16": "f32"}.get(dtype) if high else dtype
    return ("tf32" if dtype == "f32" and words == ["MX"] else dtype), dtype, compute


def _dtype(token: str) -> str:
    return _TYPES[token.removesuffix("N")]


def _helper(symbol: Symbol, types: str, noun: str, says: str) -> Identity:
    """The types are those of the workspace and of the output, or of the output alone."""
    two = _TWO.fullmatch(types)
    workspace, out = (_dtype(two[1]), _dtype(two[2])) if two else (None, _dtype(types))
    identity = Identity(
        symbol.name,
        family="tensile",
        op_class="gemm-helper",
        in_dtype=workspace,
        out_dtype=out,
        split_k=True if noun.startswith("split-K") else None,
        helper_of="gemm",
    )
    return told(identity, f"Tensile {noun}", says, "its time belongs to that GEMM")
