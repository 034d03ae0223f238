"""cuBLASLt's own GEMMs, Hopper and newer.

There is no official grammar; this one was read from public traces and checked against launch grids::

    nvjet[_smXX]_<types>_<T1>x<T2>_<KT>x<stages>_<C1>x<C2>[f][_flags…]_<ABC>

    types   3 letters: A and B, compute, output; 5 letters: A, B, C, compute, D
            h f16, t bf16, s f32, d f64, c c64, z c128, b int8, i int32, q fp8 (e4m3), r fp8 (e5m2), o fp4; as the
            entry points that libcublasLt exports (cublasLtTSTMatmul); sss_tf32: f32 operands multiplied as tf32
    T1xT2   tile of one block, in cuBLAS's column-major order; KT elements of K a stage; cluster C1xC2
            (what its f means, on Blackwell, is not known)
    flags   h / v: tiles walked along rows / columns;  bz / badd: beta = 0 / ≠ 0;  2cta: pairs of blocks share an MMA
            coopA / coopB: two consumer warpgroups split M / N (none on sm90: ping-pong);  bias, ovscale, splitK
            Avec<block><type>, Bvec…, Dvec…: a scale every <block> elements; the scales' type, not the data's;
            Avec128, Bblk128: scales along K, and of whole blocks; relubias, geluaux, reluauxbias…: activation, the
            input of it kept for the backward (aux), bias; ptrBatch: batches by pointers
    ABC     transpose of A, of B, and the layout of the output

Consumer Blackwell (sm120, sm121) has a form of its own, of which only these parts are sure::

    nvjet_<smXX>_<types>_mma_<M>x<N>x<K>[_<stages>_<M>x<N>x<K> of a warp][_words…]_<layout, 4 letters>

A name cut short is still known as a GEMM, with what its first and last words say. The architecture is written since
cuBLAS 13. Before, ``coop`` gives away Hopper (those warpgroups exist for WGMMA only) and ``2cta`` Blackwell.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from foretrace.names.gemm import told
from foretrace.names.identity import Identity
from foretrace.names.words import made_for

if TYPE_CHECKING:
    from foretrace.names.symbol import Symbol

_NAME = re.compile(
    r"""nvjet (?:_(?P<arch>sm[0-9]{2,3}))? _(?P<types>[a-z]{5}|[a-z]{3})(?P<tf32>_tf32)?
    _(?P<t1>[0-9]{1,4})x(?P<t2>[0-9]{1,4}) _(?P<k>[0-9]{1,4})x(?P<stages>[0-9]{1,3})
    _(?P<c1>[0-9]{1,2})x(?P<c2>[0-9]{1,2})f? (?P<flags>(?:_[A-Za-z0-9]{1,32}){0,16}?) _(?P<layout>[NT]{3})""",
    re.ASCII | re.VERBOSE,
)
_MMA_FORM = re.compile(
    r"mma_(?P<m>[0-9]{1,4})x(?P<n>[0-9]{1,4})x(?P<k>[0-9]{1,4})"
    r"(?:_(?P<stages>[0-9]{1,2})_[0-9]{1,4}x[0-9]{1,4}x[0-9]{1,4})?_(?P<words>\w{1,160})_(?P<layout>[NT]{4})",
    re.ASCII,
)
_OTHER = re.compile(r"nvjet(?:_(?P<arch>sm[0-9]{2,3}))?_(?P<types>[a-z]{5}|[a-z]{3})_(?P<words>\w{0,200})", re.ASCII)
_LAYOUT = re.compile(r"(?:\A|_)([NT]{3})\Z", re.ASCII)
_DTYPES = {
    "h": "f16",
    "t": "bf16",
    "s": "f32",
    "d": "f64",
    "c": "c64",
    "z": "c128",
    "b": "int8",
    "i": "int32",
    "q": "fp8",
    "r": "fp8",
    "o": "fp4",
}
_FLAG_WORDS = {
    "h": "tiles walked along rows (h)",
    "v": "tiles walked along columns (v)",
    "bz": "beta = 0",
    "badd": "adds to what the output holds (beta ≠ 0)",
    "2cta": "pairs of blocks share one matrix instruction (2cta)",
    "coopA": "two consumer warpgroups that split M (coopA)",
    "coopB": "two consumer warpgroups that split N (coopB)",
    "bias": "adds the bias before it stores",
    "ovscale": "scales the output (ovscale)",
    "ptrBatch": "takes its batches by pointers",
}
_EPILOGUES = {"badd": "add", "bias": "bias", "ovscale": "ovscale"}
_ACTIVATION = re.compile(r"(relu|gelu)(aux)?(bias)?", re.ASCII)
_SCALES = re.compile(r"([ABCD])(vec|blk)([0-9]{1,4}?)(U?E[0-9]M[0-9])?", re.ASCII)


def parse(symbol: Symbol) -> Identity | None:
    """Decode an nvjet name, or ``None``."""
    found = _NAME.fullmatch(symbol.path)
    if not found:
        return _other(symbol)
    flags = found["flags"].split("_")[1:]
    a, b, acc, out = _operands(found["types"])
    arch = found["arch"] or _implied_arch(flags)
    identity = Identity(
        symbol.name,
        family="nvjet",
        library="cuBLASLt",
        arch=arch,
        op_class="gemm",
        in_dtype="tf32" if found["tf32"] else a if a == b else None,
        acc_dtype=acc,
        out_dtype=out,
        tile=(int(found["t1"]), int(found["t2"]), int(found["k"])),
        stages=int(found["stages"]),
        cluster=(int(found["c1"]), int(found["c2"])),
        layout=found["layout"],
        split_k="splitK" in flags,
        epilogue=_epilogue(flags),
    )
    mixed = f"A {a}, B {b}" if a != b and a and b else None
    return told(identity, f"cuBLASLt GEMM{made_for(arch)}", mixed, *_flag_words(flags, arch))


def _other(symbol: Symbol) -> Identity | None:
    found = _OTHER.fullmatch(symbol.path)
    if not found:
        return None
    a, b, acc, out = _operands(found["types"])
    mma, words = _MMA_FORM.fullmatch(found["words"]), found["words"].split("_")
    layout = mma["layout"] if mma else None
    if layout is None and (last := _LAYOUT.search(found["words"])):
        layout = last[1]
    identity = Identity(
        symbol.name,
        family="nvjet",
        library="cuBLASLt",
        arch=found["arch"],
        op_class="gemm",
        in_dtype="tf32" if words[0] == "tf32" else a if a == b else None,
        acc_dtype=acc,
        out_dtype=out,
        tile=(int(mma["m"]), int(mma["n"]), int(mma["k"])) if mma else None,
        stages=int(mma["stages"]) if mma and mma["stages"] else None,
        layout=layout,
        split_k=True if "splitK" in words else None,
        epilogue=_epilogue(words),
    )
    rest = None if mma else "the rest of the name is of no known form"
    return told(identity, f"cuBLASLt GEMM{made_for(found['arch'])}", rest)


def _operands(types: str) -> tuple[str | None, str | None, str | None, str | None]:
    """Dtypes of A, B, the accumulator and the output."""
    letters = types[0] + types if len(types) == 3 else types[:2] + types[3:]  # noqa: PLR2004 - the grammar's two forms
    a, b, acc, out = (_DTYPES.get(letter) for letter in letters)
    return a, b, acc, out


def _implied_arch(flags: list[str]) -> str | None:
    if "2cta" in flags:
        return "sm100"
    return "sm90" if "coopA" in flags or "coopB" in flags else None


def _epilogue(flags: list[str]) -> str | None:
    """What is done to the result: ``bias``, ``bias+gelu`` (of ``gelubias``), ``add``."""
    said = []
    for flag in flags:
        if activation := _ACTIVATION.fullmatch(flag):
            said += ["bias", activation[1]] if activation[3] else [activation[1]]
        elif flag in _EPILOGUES:
            said.append(_EPILOGUES[flag])
    return "+".join(said) or None


def _flag_words(flags: list[str], arch: str | None) -> list[str]:
    words = []
    for flag in flags:
        if scale := _SCALES.fullmatch(flag):
            kind = f"a {scale[4]} scale" if scale[4] else "a scale"
            where = f"every {scale[3]} elements" if scale[2] == "vec" else f"for each block of {scale[3]}×{scale[3]}"
            words.append(f"{scale[1]} carries {kind} {where}")
        elif activation := _ACTIVATION.fullmatch(flag):
            first = "adds the bias, then " if activation[3] else ""
            kept = ", and keeps what its backward needs" if activation[2] else ""
            words.append(f"{first}applies {activation[1]} before it stores{kept}")
        elif flag != "splitK":
            words.append(_FLAG_WORDS.get(flag, f"also says {flag}, which is not publicly documented"))
    if arch == "sm90" and not any(flag.startswith("coop") for flag in flags):
        words.append("consumer warpgroups take turns, each on its own tile (ping-pong)")
    return words
