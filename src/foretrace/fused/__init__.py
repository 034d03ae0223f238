"""Fused gated MLPs (GeGLU, SwiGLU, ReGLU, bilinear): functions, layers, and the swap of a model's own.

Needs torch; the kernels need triton and a GPU, and plain PyTorch serves everything else.
"""

from __future__ import annotations

from .activation import ACTIVATIONS
from .functional import gated_mlp, geglu, glu, swiglu
from .layers import GatedMLP, GeGLUMLP, SwiGLUMLP
from .plan import Choice, explain
from .swap import Refused, Replaced, Swap, find, replace

__all__ = [
    "ACTIVATIONS",
    "Choice",
    "GatedMLP",
    "GeGLUMLP",
    "Refused",
    "Replaced",
    "Swap",
    "SwiGLUMLP",
    "explain",
    "find",
    "gated_mlp",
    "geglu",
    "glu",
    "replace",
    "swiglu",
]
