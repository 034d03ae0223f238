"""TensorRT-LLM's generated GEMMs and attention, which FlashInfer, vLLM and SGLang run too.

trtllm-gen's GEMMs, plain and batched (one expert a batch)::

    [bB]mm_…, [gG]emm_<D>_<A><B>_<acc>[_<scales>…]_t<M>x<N>x<K>[u<n>]_s<stages>_et<M>x<N>_m<M>x<N>x<K>
        _(cga|c)<a>x<b>x<c>…_<layout>…[_splitK<n>]…[_swiGlu]…_<arch>

    types E4m3, E2m1 (Mx before it: with the scales of microscaling), Bfloat16, Fp16, Fp32

trtllm-gen's attention, and the older templates (without a second type f16 may accumulate in either width)::

    [fF]mhaSm<arch>Kernel_(Qkv<type>|Q<type>Kv<type>)O<type>H…
    fmha_v2_flash_attention_<type>[_fp32]_<M>_<N>_S_…[_output_<type>]…_<arch>…
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from foretrace.names.dtypes import from_token
from foretrace.names.gemm import told
from foretrace.names.identity import Identity
from foretrace.names.words import EPILOGUE_WORDS, made_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from foretrace.names.symbol import Symbol

_TYPE = r"(?:Mx)?(?:Bfloat16|Fp16|Fp32|E4m3|E2m1)"
_GEMM = re.compile(
    rf"""(?P<kind>[bB]mm|[gG]emm)_(?P<d>{_TYPE})_(?P<a>{_TYPE})(?P<b>{_TYPE})_(?P<acc>{_TYPE})(?:_[A-Za-z0-9]{{1,32}}){{0,4}}?
    _t(?P<m>[0-9]{{1,4}})x(?P<n>[0-9]{{1,4}})x(?P<k>[0-9]{{1,4}})(?:u[0-9])?_s(?P<stages>[0-9]{{1,2}})
    _et[0-9]{{1,4}}x[0-9]{{1,4}}_m(?P<mm>[0-9]{{1,4}})x(?P<mn>[0-9]{{1,4}})x(?P<mk>[0-9]{{1,4}})
    _(?:cga|c)(?P<c1>[0-9]{{1,2}})x(?P<c2>[0-9]{{1,2}})x(?P<c3>[0-9]{{1,2}})
    (?P<words>(?:_[A-Za-z0-9]{{1,32}}){{0,40}})""",
    re.ASCII | re.VERBOSE,
)
_START = re.compile(rf"(?:[bB]mm|[gG]emm)_(?P<d>{_TYPE})_(?P<a>{_TYPE})(?P<b>{_TYPE})_(?P<acc>{_TYPE})_\w*", re.ASCII)
_LAYOUT = re.compile(r"[TN]{2}", re.ASCII)
_ARCH = re.compile(r"_(sm[0-9]{2,3})[af]?(?=_|\Z)", re.ASCII)
_GENERATED = re.compile(
    rf"[fF]mhaSm(?P<arch>[0-9]{{2,3}})[af]?Kernel_(?:Qkv(?P<qkv>{_TYPE})|Q(?P<q>{_TYPE})Kv(?P<kv>{_TYPE}))"
    rf"O(?P<o>{_TYPE})H\w*",
    re.ASCII,
)
_TEMPLATE = re.compile(
    r"fmha_v2_flash_attention_(?P<type>bf16|fp16|e4m3)(?P<acc>_fp32)?_(?P<m>[0-9]{1,4})_(?P<n>[0-9]{1,4})_S_\w*",
    re.ASCII,
)
_OUTPUT = re.compile(r"_output_(bf16|fp16|fp32|e4m3)(?=_|\Z)", re.ASCII)
_OTHER = re.compile(r"fmha_v2_\w+|[fF]mhaSm[0-9]{2,3}\w+|fmhaReductionKernel\w*", re.ASCII)


def parse(symbol: Symbol) -> Identity | None:
    """Decode a name that TensorRT-LLM generated, or ``None``."""
    return next((identity for grammar in _GRAMMARS if (identity := grammar(symbol))), None)


def _gemm(symbol: Symbol) -> Identity | None:
    found = _GEMM.fullmatch(symbol.path)
    if not found:
        return _cut_short(symbol)
    words = found["words"].split("_")
    arch = _ARCH.search(found["words"])
    layout = next((word for word in words if _LAYOUT.fullmatch(word)), None)
    epilogue = [
        said for word, said in (("bias", "bias"), ("swiGlu", "gated")) if any(w.startswith(word) for w in words)
    ]
    identity = replace(
        _matrix(symbol, found),
        arch=arch[1] if arch else None,
        tile=(int(found["m"]), int(found["n"]), int(found["k"])),
        stages=int(found["stages"]),
        mma=(int(found["mm"]), int(found["mn"]), int(found["mk"])),
        cluster=(int(found["c1"]), int(found["c2"]), int(found["c3"])),
        layout=layout,
        split_k=True if any(word.startswith("splitK") for word in words) else None,
        epilogue="+".join(epilogue) or None,
    )
    what = "batched GEMM" if found["kind"].lower() == "bmm" else "GEMM"
    said = (EPILOGUE_WORDS[part] for part in epilogue)
    return told(identity, f"TensorRT-LLM {what}{made_for(identity.arch)}", _mixed(found), *said)


def _cut_short(symbol: Symbol) -> Identity | None:
    found = _START.fullmatch(symbol.path)
    return told(_matrix(symbol, found), "TensorRT-LLM GEMM", _mixed(found)) if found else None


def _matrix(symbol: Symbol, found: re.Match[str]) -> Identity:
    a, b = _dtype(found["a"]), _dtype(found["b"])
    return Identity(
        symbol.name,
        family="trtllm",
        library="TensorRT-LLM",
        op_class="gemm",
        in_dtype=a if a == b else None,
        acc_dtype=_dtype(found["acc"]),
        out_dtype=_dtype(found["d"]),
    )


def _mixed(found: re.Match[str]) -> str | None:
    a, b = _dtype(found["a"]), _dtype(found["b"])
    return f"A {a}, B {b}" if a != b else None


def _generated(symbol: Symbol) -> Identity | None:
    found = _GENERATED.fullmatch(symbol.path)
    if not found:
        return None
    q, kv = _dtype(found["qkv"] or found["q"]), _dtype(found["qkv"] or found["kv"])
    return _attention(
        symbol,
        f"sm{found['arch']}",
        q if q == kv else None,
        None,
        _dtype(found["o"]),
        None if q == kv else f"Q {q}, KV {kv}",
    )


def _template(symbol: Symbol) -> Identity | None:
    found = _TEMPLATE.fullmatch(symbol.path)
    if not found:
        return None
    arch, output = _ARCH.search(symbol.path), _OUTPUT.search(symbol.path)
    acc = "f32" if found["acc"] or found["type"] == "bf16" else None
    tile = (int(found["m"]), int(found["n"]), None)
    return _attention(
        symbol,
        arch[1] if arch else None,
        from_token(found["type"]),
        acc,
        from_token(output[1]) if output else None,
        tile=tile,
    )


def _other(symbol: Symbol) -> Identity | None:
    return _attention(symbol, None, None, None, None) if _OTHER.fullmatch(symbol.path) else None


def _attention(
    symbol: Symbol,
    arch: str | None,
    in_dtype: str | None,
    acc_dtype: str | None,
    out_dtype: str | None,
    says: str | None = None,
    *,
    tile: tuple[int, int, None] | None = None,
) -> Identity:
    identity = Identity(
        symbol.name,
        family="trtllm",
        library="TensorRT-LLM",
        arch=arch,
        op_class="attention",
        in_dtype=in_dtype,
        acc_dtype=acc_dtype,
        out_dtype=out_dtype,
        tile=tile,
    )
    return told(identity, f"TensorRT-LLM attention{made_for(arch)}", says)


def _dtype(token: str) -> str | None:
    return from_token(token.removeprefix("Mx"))


_GRAMMARS: tuple[Callable[[Symbol], Identity | None], ...] = (_gemm, _generated, _template, _other)
