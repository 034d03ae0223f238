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
