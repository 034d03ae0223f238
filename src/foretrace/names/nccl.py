"""Collectives of NCCL and RCCL, and the peer-to-peer ones that others ship.

::

    ncclDevKernel_<collective>[_<op>_<type>][_<algorithm>_<protocol>](…)      NCCL 2.19 and newer
    ncclKernel_<collective>_<algorithm>_<protocol>_<op>_<type>(…)             before
    nccl<Collective>[<Algorithm>[<Protocol>]]Kernel_<op>_<type>(…)            before 2.8
    ncclSymkDevKernel_…, ncclSymDevKernel_<collective>_…                      symmetric memory

RCCL keeps NCCL's names, among them ``Generic``; its ``Generic_<n>``, ``Generic(…, channelMasks, …)`` or
``rcclGenericKernel`` is one kernel for every collective, as is MSCCL's ``mscclKernel_<op>_<type>_<protocol>``, which
runs whatever algorithm it was given.

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
_OLD_NCCL = re.compile(
    r"nccl(?P<what>[A-Z][A-Za-z]{1,16}?)(?:(?P<algorithm>Ring|Tree|CollNet)(?P<protocol>LL128|LL)?)?Kernel"
    r"_(?P<op>sum|prod|min|max|avg|copy)_(?P<type>[a-z0-9]{2,8})",
    re.ASCII,
)
_ALGORITHMS = {"RING": "ring", "TREE": "tree", "NVLS": "NVLink SHARP", "COLLNET": "CollNet", "PAT": "PAT"}
_PROTOCOLS = {"LL": "LL (low latency)", "LL128": "LL128", "SIMPLE": "simple"}
_ONE_FOR_ALL = (
    "one kernel for every collective: which one, and its type, are not in the name",
    "one kernel for every collective: which one is not in the name",
)
_REDUCING = ("allreduce", "reducescatter", "reduce")
_OPS = frozenset({"sum", "prod", "max", "min", "minmax", "avg", "premulsum", "sumpostdiv"})
_PEER = re.compile(
    r"""(?:vllm|quickreduce|sglang|trtllm\w*|flashinfer(?:::\w+)*|tensorrt_llm(?:::\w+)*|c10d(?:::\w+)*|aiter)::
    \w*(?:cross_device_reduce|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|broadcast|barrier)\w*""",
    re.ASCII | re.VERBOSE | re.IGNORECASE,
)
# PyTorch's symmetric memory, in an anonymous namespace
_SYMMETRIC = re.compile(
    r"(?:multimem_(?:one_shot_)?|(?:one|two)_shot_)(?:all_reduce|all_gather|reduce_scatter)\w*_kernel\w*", re.ASCII
)
# others' of the same kind; what says no transport may as well reduce inside one GPU
_TRANSPORT = re.compile(
    r"(?=\w*(?:one_?shot|two_?shot|cross_device|multimem|lamport))\w*(?:all_?reduce|all_?gather|reduce_?scatter)\w*",
    re.ASCII | re.IGNORECASE,
)
_MORI = re.compile(r"mori::(?:\w+::)*Ep(?:Dispatch|Combine)\w*", re.ASCII)
# Transformer Engine's, and those that others made of them; their fp16 stands for any type
_USER_BUFFERS = re.compile(r"(?:\w+::){0,4}k?userbuffers_(?!inc\Z)\w+", re.ASCII)
_LIBRARIES = {
    "vllm": "vLLM",
    "quickreduce": "vLLM",
    "sglang": "SGLang",
    "flashinfer": "FlashInfer",
    "tensorrt_llm": "TensorRT-LLM",
    "c10d": "PyTorch",
    "aiter": "AITER",
}
_DEEP_EP = re.compile(r"(?:\w+::){0,2}deep_ep::(?!layout::)(?:\w+::)*\w*(?:dispatch|combine|barrier)\w*", re.ASCII)


def parse(symbol: Symbol) -> Identity | None:
    """Decode a collective's name, or ``None``."""
    if found := _NCCL.fullmatch(symbol.path):
        return _nccl(symbol, found["what"], found["words"].split("_")[1:])
    if found := _OLD_NCCL.fullmatch(symbol.path):
        algorithm, protocol = found["algorithm"], found["protocol"] or "SIMPLE"
        schedule = [algorithm.upper(), protocol] if algorithm else []
        return _nccl(symbol, found["what"], [found["op"], found["type"], *schedule])
    if symbol.path == "rcclGenericKernel" or symbol.path.startswith("mscclKernel_"):
        return _nccl(symbol, "Generic", [])
    dtype = from_cpp(symbol.args[0]) if symbol.args else None
    library = _peer_library(symbol, dtype)
    if library is None and not (dtype and _TRANSPORT.fullmatch(symbol.path)):
        return None
    words = joined(
        f"{f'{library} ' if library else ''}collective {symbol.base}: moves data between GPUs",
        dtype and dtype_words(dtype),
    )
    return Identity(symbol.name, family="p2p", library=library, op_class="collective", in_dtype=dtype, in_words=words)


def _peer_library(symbol: Symbol, dtype: str | None) -> str | None:
    """Who ships a peer-to-peer collective; ``None`` for every other name."""
    if _DEEP_EP.fullmatch(symbol.path):
        return "DeepEP"
    if _MORI.fullmatch(symbol.path):
        return "MORI"
    if dtype and _SYMMETRIC.fullmatch(symbol.path):
        return "PyTorch"
    root = symbol.path.split("::", 1)[0]
    if _USER_BUFFERS.fullmatch(symbol.path):
        return _LIBRARIES.get(root, root) if symbol.scope else "Transformer Engine"
    return _LIBRARIES.get(root, root) if _PEER.fullmatch(symbol.path) else None


def _nccl(symbol: Symbol, what: str, words: list[str]) -> Identity:
    generic = what == "Generic"
    of_rccl = "rccl" in symbol.path or "channelMasks" in symbol.text or (generic and words)
    library = "MSCCL" if symbol.path.startswith("msccl") else "RCCL" if of_rccl else "NCCL"
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
        _ONE_FOR_ALL[library == "MSCCL"] if generic else None,
        None if reduces or generic else "moves raw bytes: the type is not in the name",
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
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", collective.replace("Allto", "AllTo")).lower()
