"""Kernel names: what a GPU kernel's name says about it, field by field; no torch."""

from __future__ import annotations

from foretrace.names.decode import decode
from foretrace.names.explain import gemm_tile_MN, has_bias
from foretrace.names.identity import Identity

__all__ = ["Identity", "decode", "gemm_tile_MN", "has_bias"]
