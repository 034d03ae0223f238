"""The gated MLP in plain PyTorch: what runs where no kernel does, and what every kernel is compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch.nn import functional as F  # noqa: N812 - PyTorch's own convention

from .activation import activate

if TYPE_CHECKING:
    from torch import Tensor


def glu(gate: Tensor, up: Tensor, activation: str) -> Tensor:
    """``act(gate) * up``, with eager's two roundings (the activation's, then the product's)."""
    return activate(gate, activation) * up


def gated_mlp(
    x: Tensor,
    gate_weight: Tensor,
    up_weight: Tensor,
    down_weight: Tensor,
    gate_bias: Tensor | None = None,
    up_bias: Tensor | None = None,
    down_bias: Tensor | None = None,
    *,
    activation: str,
) -> Tensor:
    """``down(act(gate(x)) * up(x))``: ``x`` ``[..., dim]``, weights ``[hidden, dim]`` twice and ``[dim, hidden]``."""
    hidden = glu(F.linear(x, gate_weight, gate_bias), F.linear(x, up_weight, up_bias), activation)
    return F.linear(hidden, down_weight, down_bias)
