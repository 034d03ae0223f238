"""Collectives of NCCL and RCCL, and the peer-to-peer ones that others ship.

::

    ncclDevKernel_<collective>[_<op>_<type>][_<algorithm>_<protocol>](…)      NCCL 2.19 and newer
    ncclKernel_<collective>_<algorithm>_<protocol>_<op>_<type>(…)             before
    ncclSymkDevKernel_…, ncclSymDevKernel_<collective>_…                      symmetric memory

``Sum_int8_t`` on a collective that does not reduce is a placeholder: bytes are moved, and the type is not in the name.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from foretrace.names.dtypes import from_cpp, from_token
from foretrace.names.identity import Identity
from foretrace.names.words import dtype_words, joined

if TYPE_CHECKING:
    from foretrace.names.symbol import Symbol

_NCCL = re.compile(
    r"(?:nccl|rccl)(?:Sym[a-z]?)?(?:Dev)?Kernel(?:_Debug)?_(?P<what>[A-Za-z0-9]{1,24})(?P<words>(?:_\w+)?)", re.ASCII
)
_ALGORITHMS = {"RING": "ring", "TREE": "tree", "NVLS": "NVLink SHARP", "COLLNET": "CollNet", "PAT": "PAT"}
_PROTOCOLS = {"LL": "LL (low latency)", "LL128": "LL128", "SIMPLE": "simple"}
_REDUCING = ("allreduce", "reducescatter", "reduce")
_OPS = frozenset({"sum", "prod", "max", "min", "minmax", "avg", "premulsum", "sumpostdiv"})
_PEER = re.compile(
    r"""(?:vllm|sglang|trtllm\w*|flashinfer(?:::\w+)*|tensorrt_llm(?:::\w+)*|c10d(?:::\w+)*|aiter)::
    (?P<what>\w*(?:cross_device_reduce|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|broadcast|barrier)\w*)""",
    re.ASCII | re.VERBOSE | re.IGNORECASE,
)
_LIBRARIES = {
    "vllm": "vLLM",
    "sglang": "SGLang",
    "flashinfer": "FlashInfer",
    "tensorrt_llm": "TensorRT-LLM",
    "c10d": "PyTorch",
    "aiter": "AITER",
    "deep_ep": "DeepEP",
}
_DEEP_EP = re.compile(r"deep_ep::(?:\w+::)*(?P<what>\w*(?:dispatch|combine|barrier)\w*)", re.ASCII)


def parse(symbol: Symbol) -> Identity | None:
    """Decode a collective's name, or ``None``."""
    if found := _NCCL.fullmatch(symbol.path):
        return _nccl(symbol, found["what"], found["words"].split("_")[1:])
    if found := _PEER.fullmatch(symbol.path) or _DEEP_EP.fullmatch(symbol.path):
        root = symbol.path.split("::", 1)[0]
        library = _LIBRARIES.get(root, root)
        dtype = from_cpp(symbol.args[0]) if symbol.args else None
        words = joined(f"{library} collective {found['what']}: moves data between GPUs", dtype and dtype_words(dtype))
        return Identity(
            symbol.name, family="p2p", library=library, op_class="collective", in_dtype=dtype, in_words=words
        )
    return None


def _nccl(symbol: Symbol, what: str, words: list[str]) -> Identity:
    library = "RCCL" if symbol.name.startswith("rccl") else "NCCL"
    reduces = what.lower().startswith(_REDUCING)
    dtype = _dtype(words) if reduces else None
    op = next((word for word in words if word.lower() in _OPS), None) if reduces else None
    algorithm = next((said for word, said in _ALGORITHMS.items() if word in words), None)
    protocol = next((_PROTOCOLS[word] for word in words if word in _PROTOCOLS), None)
    says = joined(
        op and f"{op.lower()} over the ranks",
        dtype_words(dtype),
        algorithm and f"{algorithm} algorithm",
        protocol and f"{protocol} protocol",
        None if reduces else "moves raw bytes: the type is not in the name",
        by=", ",
    )
    return Identity(
        symbol.name,
        family="nccl",
        library=library,
        op_class="collective",
        in_dtype=dtype,
        out_dtype=dtype,
        in_words=f"{library} {_spaced(what)}: {says}" if says else f"{library} {_spaced(what)}",
    )


def _dtype(words: list[str]) -> str | None:
    """The type word; older names spell C++ types (``float``, ``half``, ``int8_t``, ``__nv_bfloat16``)."""
    if "bfloat16" in words:
        return "bf16"
    return next((dtype for word in words if (dtype := from_token(word))), None)


def _spaced(collective: str) -> str:
    """``ReduceScatter`` → ``reduce-scatter``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", collective).lower()
