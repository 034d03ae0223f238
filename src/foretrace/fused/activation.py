"""The activations of a gated MLP: their names here, and the same function in PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch.nn import functional as F  # noqa: N812 - PyTorch's own convention

if TYPE_CHECKING:
    from torch import Tensor

ACTIVATIONS = ("gelu", "gelu_tanh", "silu", "relu", "none")
"""Exact GELU (GeGLU), its tanh approximation, SiLU (SwiGLU), ReLU (ReGLU), and no activation (bilinear)."""

_ALIASES = {"swish": "silu", "gelu_pytorch_tanh": "gelu_tanh", "identity": "none", "linear": "none"}


def canonical(name: str) -> str:
    """The name used here for ``name``; common aliases (``swish``, ``gelu_pytorch_tanh``) are understood.

    Raises:
        ValueError: No such activation.
    """
    name = _ALIASES.get(name, name)
    if name not in ACTIVATIONS:
        known = ", ".join(ACTIVATIONS)
        msg = f"unknown activation {name!r}: choose one of {known}"
        raise ValueError(msg)
    return name


def gelu_name(approximate: str) -> str:
    """The activation that ``torch.nn.functional.gelu(approximate=...)`` computes.

    Raises:
        ValueError: ``approximate`` is neither ``"none"`` nor ``"tanh"``.
    """
    if approximate == "none":
        return "gelu"
    if approximate == "tanh":
        return "gelu_tanh"
    msg = f"approximate is 'none' or 'tanh', not {approximate!r}"
    raise ValueError(msg)


def activate(gate: Tensor, activation: str) -> Tensor:
    """``act(gate)`` in plain PyTorch, rounded to ``gate``'s dtype as eager rounds it."""
    if activation == "gelu":
        return F.gelu(gate)
    if activation == "gelu_tanh":
        return F.gelu(gate, approximate="tanh")
    if activation == "silu":
        return F.silu(gate)
    if activation == "relu":
        return F.relu(gate)
    return gate
