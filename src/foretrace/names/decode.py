"""One kernel name in, one identity out: the ordered table of grammars."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from foretrace.names import (
    aten,
    attention,
    community,
    cub,
    cublas,
    cudnn,
    cutlass,
    memory,
    nccl,
    nvjet,
    own,
    packages,
    rocm,
    sass,
    tensile,
    triton,
    trtllm,
    xmma,
)
from foretrace.names.identity import Identity
from foretrace.names.symbol import read_symbol

if TYPE_CHECKING:
    from collections.abc import Callable

    from foretrace.names.symbol import Symbol

# Attention before GEMM (FlashAttention 3 is a CUTLASS kernel), collectives before the libraries that ship their own,
# helpers (in cublas) before what they help, and Triton's bare suffix after everything that has a grammar.
GRAMMARS: tuple[tuple[str, Callable[[Symbol], Identity | None]], ...] = (
    ("memory", memory.parse),
    ("nvjet", nvjet.parse),
    ("foretrace", own.parse),
    ("trtllm", trtllm.parse),
    ("attention", attention.parse),
    ("collective", nccl.parse),
    ("cublas", cublas.parse),
    ("sass", sass.parse),
    ("xmma", xmma.parse),
    ("tensile", tensile.parse),
    ("rocm", rocm.parse),
    ("community", community.parse),
    ("packages", packages.parse),
    ("cub", cub.parse),
    ("aten", aten.parse),
    ("cudnn", cudnn.parse),
    ("cutlass", cutlass.parse),
    ("triton", triton.parse),
)


@lru_cache(maxsize=65_536)
def decode(name: str) -> Identity:
    """What a kernel's name says about the kernel.

    Args:
        name: A kernel, copy or set as a trace names it: demangled, mangled (``_Z…``), or cut short.

    Returns:
        Its identity. A name that no grammar knows has ``family == "unknown"`` and no other field; nothing raises.
    """
    symbol = read_symbol(name)
    return next((identity for _, parse in GRAMMARS if (identity := parse(symbol))), Identity(name))
