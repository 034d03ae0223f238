"""Layers in the Hub's form: no state and no constructor; everything is read from the module that adopts them.

The adopting module keeps its forward's signature, ``forward(self, x)``, and has either ``gate_proj``, ``up_proj`` and
``down_proj`` or a packed ``gate_up_proj`` (gate's rows, then up's) and ``down_proj``. Its activation is read, not
assumed: a layer refuses a module whose activation it does not compute.
"""

from __future__ import annotations

from torch import Tensor, nn

from .functional import gated_mlp

_NAMES = {
    "SiLU": "silu",
    "SiLUActivation": "silu",
    "ReLU": "relu",
    "GELUActivation": "gelu",
    "GELUTanh": "gelu_tanh",
    "PytorchGELUTanh": "gelu_tanh",
    "NewGELUActivation": "gelu_tanh",
    "silu": "silu",
    "relu": "relu",
    "gelu": "gelu",
}


def _activation_of(module: nn.Module) -> str:
    for attribute in ("act_fn", "activation_fn", "act"):
        act = getattr(module, attribute, None)
        if act is None:
            continue
        if isinstance(act, nn.GELU):
            return "gelu" if act.approximate == "none" else "gelu_tanh"
        name = type(act).__name__ if isinstance(act, nn.Module) else getattr(act, "__name__", "")
        if name in _NAMES:
            return _NAMES[name]
        msg = f"{type(module).__name__}.{attribute} is {act!r}, which no fused gated MLP computes"
        raise TypeError(msg)
    msg = f"{type(module).__name__} has no act_fn, activation_fn or act that says what it computes"
    raise TypeError(msg)


def _forward(module: nn.Module, x: Tensor, served: tuple[str, ...]) -> Tensor:
    activation = _activation_of(module)
    if activation not in served:
        msg = f"{type(module).__name__} computes {activation}; this layer is for {' and '.join(served)}"
        raise TypeError(msg)
    down = module.down_proj
    if hasattr(module, "gate_up_proj"):
        both = module.gate_up_proj
        weights = both.weight.chunk(2)
        biases = (None, None) if both.bias is None else both.bias.chunk(2)
    else:
        gate, up = module.gate_proj, module.up_proj
        weights, biases = (gate.weight, up.weight), (gate.bias, up.bias)
    return gated_mlp(x, *weights, down.weight, *biases, down.bias, activation=activation)


class GatedMLP(nn.Module):
    """Any gated MLP: GELU exact or tanh, SiLU, ReLU."""

    has_backward = True
    can_torch_compile = True

    def forward(self, x: Tensor) -> Tensor:
        """``[..., dim]`` to ``[..., dim]``."""
        return _forward(self, x, ("gelu", "gelu_tanh", "silu", "relu"))


class GeGLUMLP(nn.Module):
    """A gated MLP with GELU, exact or tanh as the adopting module says."""

    has_backward = True
    can_torch_compile = True

    def forward(self, x: Tensor) -> Tensor:
        """``[..., dim]`` to ``[..., dim]``."""
        return _forward(self, x, ("gelu", "gelu_tanh"))


class SwiGLUMLP(nn.Module):
    """A gated MLP with SiLU."""

    has_backward = True
    can_torch_compile = True

    def forward(self, x: Tensor) -> Tensor:
        """``[..., dim]`` to ``[..., dim]``."""
        return _forward(self, x, ("silu",))
