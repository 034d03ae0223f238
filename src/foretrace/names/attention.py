"""Attention kernels, which must be asked before the GEMM grammars: many are CUTLASS kernels too.

FlashAttention 2, also inside PyTorch (``pytorch_flash``)::

    [ns::]flash_(fwd|bwd)_…kernel<Flash_(fwd|bwd)_kernel_traits<head dim, tile M, tile N, warps, …, type, …>, …>

FlashMLA, whose names look alike::

    [(flash|smxx|smXX)::…]flash_(fwd|bwd)_…mla…_kernel<…>      […::]get_mla_metadata_kernel
    smXX::…::sparse_attn_…kernel<…>

FlashAttention 3: ``cutlass::device_kernel<flash::…FlashAttn(Fwd|Bwd)(Sm90|Combine|Preprocess|Postprocess…)<…>>``, and
``flash::prepare_varlen_num_blocks_kernel``, which shares out the blocks before

cuDNN::

    cudnn_generated_<engine>_sdpa_<arch>_flash_(fprop|bprop)_<unit>_<type>_knob_<n>_<M>x<N>x<K>[_<warps>][_cga<cluster>]…

    The type token f16 stands for both 16-bit types.

Memory-efficient (xFormers, PyTorch)::

    fmha_cutlass(F|B)_<type>_(aligned|notaligned)_<M>x<N>_[k<max head dim>|rf]_[dropout_]<arch>

FlashInfer, TensorRT-LLM (see trtllm for what it generates), vLLM's paged attention, Composable Kernel and AOTriton are
known by their functions' names.
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

_TRAITS = re.compile(
    r"Flash_(?:fwd|bwd)_kernel_traits<\s?([0-9]{1,4}), ([0-9]{1,4}), ([0-9]{1,4}), [^<>]{0,80}?(\w+::\w+)", re.ASCII
)
_FLASH = re.compile(r"(?:((?:\w+::){0,4}\w+)::)?flash_(fwd|bwd)_(\w+)", re.ASCII)
_FLASH_MLA = re.compile(
    r"""(?:(?:flash|smxx|(?P<arch>sm[0-9]{2,3}))::(?:\w+::){0,4})?
    (?:flash_(?:fwd|bwd)_\w*mla\w*_kernel|(?P<schedule>get_mla_metadata_kernel))
    |(?P<sparse_arch>sm[0-9]{2,3})::(?:\w+::){0,4}sparse_attn_\w*kernel""",
    re.ASCII | re.VERBOSE,
)
_FLASH_3 = re.compile(r"FlashAttn(Fwd|Bwd)\w*?Sm([0-9]{2,3})", re.ASCII)
_FLASH_3_PART = re.compile(r"FlashAttn(Fwd|Bwd)(Combine|Preprocess|Postprocess)", re.ASCII)
_FLASH_3_PARTS = {
    "Combine": "adds up the blocks that split keys and values",
    "Preprocess": "the row sums of dO·O that the gradients need",
    "Postprocess": "writes a gradient from its fp32 accumulator",
}
_SCHEDULE = re.compile(r"flash::prepare_varlen_num_blocks_kernel", re.ASCII)
_ARCH = re.compile(r"cutlass::arch::Sm([0-9]{2,3})", re.ASCII)
_TUPLE = re.compile(r"cute::tuple<cute::C<([0-9]{1,4})>, ?cute::C<([0-9]{1,4})>, ?cute::C<[0-9]{1,4}> ?>", re.ASCII)
_SMALLEST_TILE = 32
_ELEMENT = re.compile(r"cutlass::(?:bfloat16_t|half_t|float_e4m3_t)", re.ASCII)
_CUDNN = re.compile(
    r"""cudnn_generated_\w{1,32}?_sdpa_(?P<arch>sm[0-9]{2,3})_(?:flash_)?(?P<way>fprop|bprop)
    (?:_(?:[a-z]{1,16}_)?(?P<type>[a-z]{1,4}[0-9]{1,2}))? (?:_knob_[0-9]{1,4}\w{0,8}?)?
    (?:_(?P<m>[0-9]{1,4})x(?P<n>[0-9]{1,4})x(?P<k>[0-9]{1,4}))? (?:_[0-9]x[0-9]x[0-9])?
    (?:_cga(?P<cga>[0-9]{1,2}x[0-9]{1,2}x[0-9]{1,2}))?
    (?![0-9]*x)""",
    re.ASCII | re.VERBOSE,
)
_EFFICIENT = re.compile(
    r"""fmha_cutlass(?P<way>[FB])_(?P<type>bf16|f16|f32)_(?:not)?aligned
    (?:_(?P<m>[0-9]{1,4})x(?P<n>[0-9]{1,4}))? (?:_(?:k(?P<head>[0-9]{1,6})|rf))?
    (?:_(?P<words>[a-z_]{1,32}?))?_(?P<arch>sm[0-9]{2,3})""",
    re.ASCII | re.VERBOSE,
)
_NAMED = re.compile(
    r"""(?P<flashinfer>flashinfer::(?:\w*(?:MLA|Merge|Cascade)|(?:\w+::)*\w*(?:Prefill|Decode|Attention))\w*)
    |(?P<trtllm>(?:tensorrt_llm::|xqa_)\w*(?:fmha|masked_multihead|mmha|xqa)\w*)
    |(?P<vllm>kernel_unified_attention_[23]d|vllm::paged_attention_v[12](?:_reduce)?_kernel|vllm::merge_attn_states_kernel|paged_attention_ll4mi\w+)
    |(?P<efficient>(?:\w+::)*attention_kernel_(?:backward_)?batched(?:_impl)?)
    |(?P<aotriton>attn_fwd|bwd_kernel_dk_dv|bwd_kernel_dq|bwd_kernel_fuse)""",
    re.ASCII | re.VERBOSE,
)
_CK = re.compile(r"ck_tile::(?:Fmha(?:Fwd|Bwd)|UnifiedAttention)\w*", re.ASCII)
_LIBRARIES = {
    "flashinfer": "FlashInfer",
    "trtllm": "TensorRT-LLM",
    "vllm": "vLLM",
    "efficient": "xFormers",
    "aotriton": "AOTriton",
}
_SPLIT = "keys and values split over blocks, combined afterwards"
_PARTS = {
    "combine": "adds up the blocks that split keys and values",
    "dot_do_o": "the row sums of dO·O that the gradients need",
    "convert_dq": "writes dQ from its fp32 accumulator",
    "convert_dkv": "writes dK and dV from their fp32 accumulators",
}


def parse(symbol: Symbol) -> Identity | None:
    """Decode an attention kernel's name, or ``None``."""
    return next((identity for grammar in _GRAMMARS if (identity := grammar(symbol))), None)


def _flash_2(symbol: Symbol) -> Identity | None:
    found = _FLASH.fullmatch(symbol.path)
    traits = _TRAITS.search(symbol.text) if found else None
    if not found or not (traits or "flash" in symbol.scope):
        return None
    dtype = from_cpp(traits[4]) if traits else None
    part = next((said for token, said in _PARTS.items() if token in found[3]), None)
    # FlashAttention-2 is built from SM80 instructions and accumulates in fp32 on every GPU that it runs on.
    identity = Identity(
        symbol.name,
        family="flash-attention",
        library="FlashAttention-2",
        arch="sm80",
        op_class="attention",
        in_dtype=dtype,
        acc_dtype="f32",
        out_dtype=dtype,
        tile=(int(traits[2]), int(traits[3]), None)
        if traits and not part
        else None,  # the traits are the main kernel's
    )
    split = _SPLIT if "splitkv" in found[3] and not part else None
    head_dim = f"head dimension up to {traits[1]}" if traits else None
    inside = "PyTorch's own copy" if found[1] == "pytorch_flash" else None
    return told(identity, f"FlashAttention-2 {_way(found[2])}", head_dim, part, split, inside)


def _flash_mla(symbol: Symbol) -> Identity | None:
    found = _FLASH_MLA.fullmatch(symbol.path)
    if not found:
        return None
    arch = found["arch"] or found["sparse_arch"]
    identity = Identity(
        symbol.name,
        family="flash-mla",
        library="FlashMLA",
        arch=arch,
        op_class="other" if found["schedule"] else "attention",
    )
    if found["schedule"]:
        return told(identity, "FlashMLA scheduling", "shares out blocks over sequences, before the attention")
    way = _way("bwd" if "bwd" in symbol.base else "fwd")
    return told(identity, f"FlashMLA {way}{made_for(arch)}", _PARTS["combine"] if "combine" in symbol.base else None)


def _flash_3(symbol: Symbol) -> Identity | None:
    if "FlashAttn" not in symbol.text or not (found := _FLASH_3.search(symbol.text)):
        return None
    # the first tuples may be the cluster, whose sides are small
    tile = next((sides for sides in _TUPLE.findall(symbol.text) if int(sides[0]) >= _SMALLEST_TILE), None)
    element = _ELEMENT.search(symbol.text)
    identity = Identity(
        symbol.name,
        family="flash-attention",
        library="FlashAttention-3",
        arch=f"sm{found[2]}",
        op_class="attention",
        in_dtype=from_cpp(element[0]) if element else None,
        acc_dtype="f32",
        tile=(int(tile[0]), int(tile[1]), None) if tile else None,
    )
    return told(identity, f"FlashAttention-3 {_way(found[1])}{made_for(identity.arch)}")


def _flash_3_part(symbol: Symbol) -> Identity | None:
    """What runs around the main kernel."""
    if _SCHEDULE.fullmatch(symbol.path):
        words = "FlashAttention-3 scheduling: shares out blocks over sequences of several lengths, before the attention"
        return Identity(
            symbol.name, family="flash-attention", library="FlashAttention-3", op_class="other", in_words=words
        )
    if "FlashAttn" not in symbol.text or not (found := _FLASH_3_PART.search(symbol.text)):
        return None
    arch = _ARCH.search(symbol.text)
    element = _ELEMENT.search(symbol.text)
    identity = Identity(
        symbol.name,
        family="flash-attention",
        library="FlashAttention-3",
        arch=f"sm{arch[1]}" if arch else None,
        op_class="attention",
        in_dtype=from_cpp(element[0]) if element and found[2] == "Preprocess" else None,
        out_dtype=from_cpp(element[0]) if element and found[2] != "Preprocess" else None,
    )
    return told(identity, f"FlashAttention-3 {_way(found[1])}{made_for(identity.arch)}", _FLASH_3_PARTS[found[2]])


def _cudnn(symbol: Symbol) -> Identity | None:
    found = _CUDNN.match(symbol.path)
    if not found:
        return None
    dtype = found["type"]
    cluster = tuple(int(n) for n in found["cga"].split("x")) if found["cga"] else None
    identity = Identity(
        symbol.name,
        family="cudnn",
        library="cuDNN",
        arch=found["arch"],
        op_class="attention",
        in_dtype=None if dtype == "f16" else from_token(dtype),
        acc_dtype="f32",
        tile=(int(found["m"]), int(found["n"]), int(found["k"])) if found["m"] else None,
        cluster=cluster,
    )
    sixteen = "16-bit operands, fp16 or bf16: its f16 stands for both" if dtype == "f16" else None
    return told(identity, f"cuDNN fused {_way(found['way'])}{made_for(found['arch'])}", sixteen)


def _efficient(symbol: Symbol) -> Identity | None:
    found = _EFFICIENT.match(symbol.path)
    if not found:
        return None
    dtype = from_token(found["type"])
    identity = Identity(
        symbol.name,
        family="mem-efficient",
        library="PyTorch",
        arch=found["arch"],
        op_class="attention",
        in_dtype=dtype,
        acc_dtype="f32",
        out_dtype=dtype,
        tile=(int(found["m"]), int(found["n"]), None) if found["m"] else None,
    )
    head_dim = f"head dimension up to {found['head']}" if found["head"] else None
    dropout = "with dropout" if "dropout" in (found["words"] or "") else None
    return told(identity, f"memory-efficient {_way(found['way'])}{made_for(found['arch'])}", head_dim, dropout)


def _named(symbol: Symbol) -> Identity | None:
    found = _NAMED.fullmatch(symbol.path)
    if found:
        family = str(found.lastgroup)
        library = _LIBRARIES[family]
    elif _CK.search(symbol.text):
        family, library = "ck", "Composable Kernel"
    else:
        return None
    backward = "bwd" in symbol.path or "backward" in symbol.path or "FmhaBwd" in symbol.text
    identity = Identity(symbol.name, family=family, library=library, op_class="attention")
    return told(identity, f"{library} {'attention backward' if backward else 'attention'}")


def _way(token: str) -> str:
    return f"attention {'backward' if token.lower() in {'bwd', 'bprop', 'b'} else 'forward'}"


_GRAMMARS: tuple[Callable[[Symbol], Identity | None], ...] = (
    _flash_mla,
    _flash_2,
    _flash_3,
    _flash_3_part,
    _cudnn,
    _efficient,
    _named,
)
