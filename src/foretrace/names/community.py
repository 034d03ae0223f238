"""Kernels of libraries around PyTorch whose names can be told from a user's own.

::

    vllm::<function><type, …>, sgl_kernel…, flashinfer::<function>          C++ namespaces
    deep_gemm::<[arch_]fp8_gemm…>, marlin::Marlin<…>, gptq_marlin…           low-precision GEMMs
    transformer_engine::…, fused_adam…                                       Transformer Engine, Apex
    _<op>_(forward|backward)_kernel                                          Liger Kernel's ops
    _[batched_]gemm_a<bits>w<bits>[_words]_kernel_…_BLOCK_SIZE_M_<M>_…                 AITER's Triton GEMMs
    [<label>_]kernel_cutlass_<function>_<arguments>…                         CuTe DSL (QuACK, FlashAttention 4)
    aten::<op>[.overload]-dtype_<type>-extraKey_<n>                          Meta's MTIA
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

_NAMESPACES = {
    "vllm": "vLLM",
    "sglang": "SGLang",
    "sgl_kernel": "SGLang",
    "flashinfer": "FlashInfer",
    "tensorrt_llm": "TensorRT-LLM",
    "transformer_engine": "Transformer Engine",
    "deep_gemm": "DeepGEMM",
    "marlin": "Marlin",
    "gptq_marlin": "Marlin",
    "marlin_moe_wna16": "Marlin",
    "deep_ep": "DeepEP",
    "moe::dev": "TensorRT-LLM",
    "aiter": "AITER",
    "apex": "Apex",
    "fbgemm_gpu": "FBGEMM",
}
_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("attention", re.compile(r"\A(?:fmha|mla|pa)_|\Afmha", re.IGNORECASE)),
    ("gemm", re.compile(r"gemm_\w*impl|\Afmoe|flatmm", re.IGNORECASE)),
    ("normalization", re.compile(r"norm", re.IGNORECASE)),
    ("pointwise", re.compile(r"rotary|rope(?![a-z])|act_and|gated_act", re.IGNORECASE)),
    ("copy", re.compile(r"repack", re.IGNORECASE)),
    (
        "gather-scatter",
        re.compile(
            r"cache|gather|scatter|permute|embedding|align_block|copy_blocks|moe_\w*sum|expandInputRows|\Afinalize",
            re.IGNORECASE,
        ),
    ),
    ("softmax", re.compile(r"softmax", re.IGNORECASE)),
    ("random", re.compile(r"sampling", re.IGNORECASE)),
    ("sort", re.compile(r"topk|top_k|sort", re.IGNORECASE)),
    ("random", re.compile(r"sample", re.IGNORECASE)),
    ("gemm", re.compile(r"gemm|matmul|marlin|_mm\b", re.IGNORECASE)),
    ("optimizer", re.compile(r"adam|sgd|lamb|multi_tensor", re.IGNORECASE)),
    (
        "pointwise",
        re.compile(r"act_and|activation|unary|silu|gelu|rotary|rope|quant|cvt|cast|add|mul|scale", re.IGNORECASE),
    ),
    ("copy", re.compile(r"copy|transpose", re.IGNORECASE)),
)
_GATED = re.compile(
    r"&?\(?(?:[\w:]{1,48} )?(?:\w{1,32}::){0,4}(silu|gelu(?:_tanh)?|fatrelu|swigluoai\w*)(?:_kernel)?\b", re.ASCII
)
_TYPED_GEMM = re.compile(r"(?:\A|_)(fp8|bf16)_gemm", re.ASCII)
_LIGER_OPS = {
    "geglu_tanh": "pointwise",
    "geglu": "pointwise",
    "swiglu": "pointwise",
    "swiglu_fused_gate_up": "pointwise",
    "relu_squared": "pointwise",
    "dyt": "pointwise",
    "llama4_rope": "pointwise",
    "rms_norm": "normalization",
    "block_rms_norm": "normalization",
    "fused_add_rms_norm": "normalization",
    "modulated_rms_norm": "normalization",
    "layer_norm": "normalization",
    "group_norm": "normalization",
    "poly_norm": "normalization",
    "softmax_single_block": "softmax",
    "softmax_multi_block": "softmax",
    "sparsemax": "softmax",
    "kldiv": "reduction",
    "jsd": "reduction",
    "tv_distance": "reduction",
}
_LIGER_FUSED = {"geglu_tanh": ("gelu", "mul"), "geglu": ("gelu", "mul"), "swiglu": ("silu", "mul")}
_LIGER = re.compile(
    rf"_(?P<op>{'|'.join(_LIGER_OPS)})(?:_(?P<way>forward|backward))?_kernel(?:_(?P<late>forward|backward))?(?:_tiled)?"
    r"|liger_(?P<loss>\w{1,48})_kernel|_triton_(?P<rope>rope|qwen2vl_mrope)",
    re.ASCII,
)
_AITER = re.compile(
    r"_(?:batched_)?gemm_a(?P<a>fp4|[0-9]{1,2})w(?P<w>fp4|[0-9]{1,2})(?P<words>\w{0,96}?)_kernel_(?P<knobs>[A-Z]\w*)",
    re.ASCII,
)
_KNOB = re.compile(r"(BLOCK_SIZE_[MNK]|NUM_KSPLIT)_([0-9]{1,4})(?:_|\Z)", re.ASCII)
_CUTE = re.compile(r"(?:\w{1,200}?_)?kernel_cutlass_(?P<what>\w+)", re.ASCII)
_CUTE_TYPE = re.compile(r"(?:ptr|tensor_?)(bf16|f16|f32|f8E4M3\w*|f4E2M1\w*)gmem", re.ASCII | re.IGNORECASE)
_CUTE_ARCH = re.compile(r"sm(80|90|100|103|110|120)(?![0-9])")  # in the name of the class or of its module
# QuACK's GemmGated holds two projections, their activation and product; GemmDGated its backward
_CUTE_GATED = re.compile(r"gemm(?P<backward>d)?gated")
_CUTE_KINDS = (
    ("attention", "flash_attn|flash_fwd|flash_bwd|flashattn|fmha|attention"),
    ("normalization", "norm"),
    ("softmax", "softmax"),
    ("reduction", "crossentropy|cross_entropy"),
    ("sort", "topk"),
    ("gemm", "gemm"),
)
_MTIA = re.compile(r"aten::(?P<op>\w{1,64})(?:\.[\w-]{1,64}?)?-dtype_(?P<type>\w{1,24})-extraKey_\w+", re.ASCII)
_MTIA_CLASSES = {
    "gemm": {"mm", "bmm", "addmm", "linear", "matmul", "baddbmm"},
    "copy": {"cat", "copy", "copy_", "_to_copy", "clone", "contiguous", "stack"},
    "fill": {"fill_", "zero_", "zeros", "full", "ones", "arange"},
    "pointwise": {"add", "mul", "sub", "div", "relu", "gelu", "silu", "sigmoid", "tanh", "exp", "where", "clamp"},
    "reduction": {"sum", "mean", "max", "min", "amax", "amin", "norm"},
    "softmax": {"_softmax", "softmax", "_log_softmax"},
    "normalization": {"native_layer_norm", "layer_norm", "rms_norm", "native_batch_norm"},
    "gather-scatter": {"embedding", "index_select", "gather", "scatter", "index", "index_put"},
    "sort": {"sort", "topk", "argsort"},
}


def parse(symbol: Symbol) -> Identity | None:
    """Decode a name of one of these libraries, or ``None``."""
    return next((identity for grammar in _GRAMMARS if (identity := grammar(symbol))), None)


def _namespace(symbol: Symbol) -> Identity | None:
    parts = symbol.path.split("::")
    root = next((root for root in ("::".join(parts[:-1][:2]), "::".join(parts[:-1][:1])) if root in _NAMESPACES), None)
    if root is None:
        return None
    library = _NAMESPACES[root]
    gate = next((found[1] for arg in symbol.args if (found := _GATED.match(arg))), None)
    gated = gate is not None and "act_and_mul" in symbol.base
    op_class = next((kind for kind, pattern in _KINDS if pattern.search(symbol.base)), "other")
    dtype = from_cpp(symbol.args[0]) if symbol.args else None
    arch = re.match(r"(sm[0-9]{2,3})_", symbol.base, re.ASCII)
    identity = Identity(
        symbol.name,
        family=root.split("::")[0],
        library=library,
        arch=arch[1] if arch else None,
        op_class=op_class,
        in_dtype=dtype or (typed[1] if (typed := _TYPED_GEMM.search(symbol.base)) else None),
        acc_dtype="f32" if gated and dtype else None,
        fused_ops=(gate, "mul") if gated and gate else None,
    )
    return told(
        identity, f"{library} {symbol.base}", f"a gated activation, {gate}(gate) × up, fused already" if gated else None
    )


def _liger(symbol: Symbol) -> Identity | None:
    found = _LIGER.fullmatch(symbol.path)
    if not found:
        return None
    op = found["op"] or found["loss"] or found["rope"]
    op_class = _LIGER_OPS.get(op, "pointwise" if found["rope"] else "reduction")
    way = found["way"] or found["late"]
    identity = Identity(
        symbol.name,
        family="liger",
        library="Liger Kernel",
        op_class=op_class,
        fused_ops=_LIGER_FUSED.get(op) if way != "backward" else None,
    )
    return told(identity, f"Liger {op} {way}" if way else f"Liger {op}", "a Triton kernel, known by its name alone")


def _aiter(symbol: Symbol) -> Identity | None:
    found = _AITER.fullmatch(symbol.path)
    if not found:
        return None
    knobs = {knob: int(value) for knob, value in _KNOB.findall(f"{found['knobs']}_")}
    sides = [knobs.get(f"BLOCK_SIZE_{side}") for side in "MNK"]
    m, n, k = sides
    both = found["a"] if found["a"] == found["w"] else None
    scaled_fp8 = both == "8" and "blockscale" in found["words"]
    splits = knobs.get("NUM_KSPLIT")
    identity = Identity(
        symbol.name,
        family="aiter",
        library="AITER",
        op_class="gemm",
        in_dtype="fp4" if both == "fp4" else "fp8" if scaled_fp8 else None,
        tile=(m, n, k) if m and n else None,
        split_k=splits > 1 if splits is not None else None,
    )
    scales = "operands carry block scales" if "blockscale" in found["words"] else None
    return told(identity, f"AITER Triton GEMM, {found['a']}-bit activations and {found['w']}-bit weights", scales)


def _cute(symbol: Symbol) -> Identity | None:
    found = _CUTE.fullmatch(symbol.path)
    if not found:
        return None
    what = found["what"].split("_object_at", 1)[0].lower()
    op_class = next((kind for kind, words in _CUTE_KINDS if re.search(words, what)), "other")
    library = (
        "QuACK" if "quack" in what else "FlashAttention" if op_class == "attention" and "flash" in what else "CuTe DSL"
    )
    dtype = from_token(re.sub(r"(?i)(f8|f4)e.*", r"\1", t[1])) if (t := _CUTE_TYPE.search(found["what"])) else None
    gated = _CUTE_GATED.search(what)
    epilogue = None if gated is None else "gated backward" if gated["backward"] else "gated"
    arch = named[0] if (named := _CUTE_ARCH.search(what)) else None
    identity = Identity(
        symbol.name,
        family="cute-dsl",
        library=library,
        arch=arch,
        op_class=op_class,
        in_dtype=dtype,
        epilogue=epilogue,
    )
    kind = f"{epilogue} {op_class}" if epilogue else op_class if op_class != "other" else "kernel"
    return told(identity, f"{library} {kind}{made_for(arch)}", "written in the CuTe DSL")


def _mtia(symbol: Symbol) -> Identity | None:
    found = _MTIA.fullmatch(symbol.name)
    if not found:
        return None
    op_class = next((kind for kind, ops in _MTIA_CLASSES.items() if found["op"] in ops), "other")
    dtype = from_token(found["type"])
    identity = Identity(symbol.name, family="mtia", library="MTIA", op_class=op_class, in_dtype=dtype)
    return told(identity, f"MTIA {found['op']}")


_GRAMMARS: tuple[Callable[[Symbol], Identity | None], ...] = (_namespace, _liger, _aiter, _cute, _mtia)
