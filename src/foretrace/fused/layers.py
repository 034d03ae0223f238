"""Drop-in layers: real ``nn.Linear`` projections under the stock names, one fused call for the three of them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from . import plan
from .activation import canonical, gelu_name
from .functional import gated_mlp
from .weights import Weights


class GatedMLP(nn.Module):
    """``down_proj(act(gate_proj(x)) * up_proj(x))``.

    State-dict keys and shapes are those of the module it replaces: ``gate_proj.weight`` ``[hidden, dim]``,
    ``up_proj.weight`` ``[hidden, dim]``, ``down_proj.weight`` ``[dim, hidden]``, and biases where asked for.

    Args:
        dim: Features of the input and the output.
        hidden: Features between.
        activation: ``gelu`` (exact), ``gelu_tanh``, ``silu``, ``relu`` or ``none``.
        bias: Whether the projections have biases.
        device: Where the parameters live.
        dtype: Their dtype.

    Raises:
        ValueError: No such activation.
    """

    def __init__(
        self,
        dim: int,
        hidden: int,
        *,
        activation: str = "gelu",
        bias: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.activation = canonical(activation)
        self.gate_proj = nn.Linear(dim, hidden, bias=bias, device=device, dtype=dtype)
        self.up_proj = nn.Linear(dim, hidden, bias=bias, device=device, dtype=dtype)
        self.down_proj = nn.Linear(hidden, dim, bias=bias, device=device, dtype=dtype)

    @staticmethod
    def around(gate: nn.Linear, up: nn.Linear, down: nn.Linear, activation: str) -> GatedMLP:
        """A layer that uses three linears as they are, parameters and all."""
        layer = GatedMLP.__new__(GatedMLP)
        nn.Module.__init__(layer)
        layer.activation = canonical(activation)
        layer.gate_proj, layer.up_proj, layer.down_proj = gate, up, down
        return layer

    def forward(self, x: Tensor) -> Tensor:
        """``[..., dim]`` to ``[..., dim]``."""
        gate, up, down = self.gate_proj, self.up_proj, self.down_proj
        return gated_mlp(
            x, gate.weight, up.weight, down.weight, gate.bias, up.bias, down.bias, activation=self.activation
        )

    def explain(self, rows: int, *, training: bool = False) -> plan.Choice:
        """Which path ``rows`` rows take with the parameters as they are now, and why."""
        gate, up, down = self.gate_proj, self.up_proj, self.down_proj
        weights = Weights(gate.weight, up.weight, down.weight, gate.bias, up.bias, down.bias)
        return plan.explain_weights(rows, weights, training=training)

    def extra_repr(self) -> str:
        """The activation, beside the projections that PyTorch lists."""
        return f"activation={self.activation!r}"


class GeGLUMLP(GatedMLP):
    """A gated MLP with GELU: exact by default, ``approximate="tanh"`` for the approximation; see ``GatedMLP``."""

    def __init__(
        self,
        dim: int,
        hidden: int,
        *,
        approximate: str = "none",
        bias: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        activation = gelu_name(approximate)
        super().__init__(dim, hidden, activation=activation, bias=bias, device=device, dtype=dtype)


class SwiGLUMLP(GatedMLP):
    """A gated MLP with SiLU; see ``GatedMLP``."""

    def __init__(
        self,
        dim: int,
        hidden: int,
        *,
        bias: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(dim, hidden, activation="silu", bias=bias, device=device, dtype=dtype)
