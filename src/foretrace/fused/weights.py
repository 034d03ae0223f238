"""What a gated MLP is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor


class Weights(NamedTuple):
    """``gate`` and ``up`` ``[N, K]``, ``down`` ``[K, N]``, and their biases where the layer has them."""

    gate: Tensor
    up: Tensor
    down: Tensor
    gate_bias: Tensor | None = None
    up_bias: Tensor | None = None
    down_bias: Tensor | None = None


def fit(x: Tensor, weights: Weights) -> bool:
    """Whether the shapes belong together, as the kernels take for granted; ``x`` is ``[..., K]``."""
    gate, up, down, gate_bias, up_bias, down_bias = weights
    if gate.ndim != 2 or not x.ndim:  # noqa: PLR2004 - a matrix
        return False
    hidden, dim = gate.shape
    if up.shape != gate.shape or down.shape != (dim, hidden) or x.shape[-1] != dim:
        return False
    return (
        (gate_bias is None or gate_bias.shape == (hidden,))
        and (up_bias is None or up_bias.shape == (hidden,))
        and (down_bias is None or down_bias.shape == (dim,))
    )
