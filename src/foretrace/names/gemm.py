"""The sentence that every GEMM-like grammar ends in: dtypes, tile, pipeline, then what is particular."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from foretrace.names.dtypes import bits
from foretrace.names.words import dtype_words, joined, stage_words, tile_words, times

if TYPE_CHECKING:
    from foretrace.names.identity import Identity

_BEFORE_WGMMA = frozenset({"sm50", "sm60", "sm70", "sm75", "sm80", "sm86", "sm89"})
_VECTOR_BYTES = 16  # one 128-bit load, the widest that a thread can issue


def told(identity: Identity, head: str, *particulars: str | None) -> Identity:
    """``identity`` with its sentence: ``head: bf16 in, …; 256×128 tile, …; particulars``."""
    sentence = joined(
        _dtypes(identity), _shape(identity), _alignment(identity), _split_k(identity), *particulars, _older(identity)
    )
    return replace(identity, in_words=f"{head}: {sentence}" if sentence else head)


def _dtypes(i: Identity) -> str | None:
    parts = (
        i.in_dtype and f"{dtype_words(i.in_dtype)} in",
        i.acc_dtype and f"{dtype_words(i.acc_dtype)} accumulate",
        i.out_dtype and f"{dtype_words(i.out_dtype)} out",
    )
    return joined(*parts, by=", ") or None


def _shape(i: Identity) -> str | None:
    parts = (
        i.tile and f"{tile_words((i.tile[0], i.tile[1], None))} tile",
        i.tile and i.tile[2] and f"K {i.tile[2]}",
        stage_words(i.stages),
        i.cluster and f"cluster {times(i.cluster)}",
        i.mma and f"{times(i.mma)} matrix instructions",
        i.layout and f"layout {i.layout}",
    )
    return joined(*(part or None for part in parts), by=", ") or None


def _alignment(i: Identity) -> str | None:
    if i.align is None:
        return None
    elements = f"operands aligned to {i.align} element{'s' if i.align > 1 else ''}"
    width = bits(i.in_dtype)
    if width is None:
        return elements
    n_bytes = i.align * width // 8
    narrow = ", too little for 16-byte loads" if n_bytes < _VECTOR_BYTES else ""
    return f"{elements} ({n_bytes} bytes{narrow})"


def _older(i: Identity) -> str | None:
    """A binary for an older architecture is no sign of an older GPU."""
    older = i.arch is not None and i.arch in _BEFORE_WGMMA and i.op_class in {"gemm", "conv"}
    return f"built for {i.arch}, and newer GPUs run it too, without their own matrix instructions" if older else None


def _split_k(i: Identity) -> str | None:
    return "K is split over several blocks whose parts are added up afterwards (split-K)" if i.split_k else None
