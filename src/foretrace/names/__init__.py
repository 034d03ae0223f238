"""Kernel names: what a GPU kernel's name says about it, field by field; no torch."""

from __future__ import annotations

from foretrace.names.decode import decode
from foretrace.names.explain import gemm_tile_MN, has_bias
from foretrace.names.identity import Identity
from foretrace.names.memory import copy_way

__all__ = ["Identity", "copy_way", "decode", "gemm_tile_MN", "has_bias"]
