"""Fused gated MLPs (GeGLU, SwiGLU, ReGLU): functions, and layers for the kernels library."""

from __future__ import annotations

from . import layers
from .activation import ACTIVATIONS
from .functional import gated_mlp, geglu, glu, swiglu

__all__ = ["ACTIVATIONS", "gated_mlp", "geglu", "glu", "layers", "swiglu"]
