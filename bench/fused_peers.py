"""Who takes part in ``fused_mlp.py``: each is a gated MLP as a function of x and the three weights."""

from __future__ import annotations

import importlib
import types
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from foretrace.fused import gated_mlp, plan, reference

Mlp = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]

FOR_FEW_ROWS = frozenset({"reduce-overhead", "rows", "rows_tma"})
FOR_MANY_ROWS = frozenset({"fused"})
ARE_GRAPHS = frozenset({"reduce-overhead"})


def eager(activation: str) -> Mlp:
    """Three linears, the activation and a product."""
    return partial(reference.gated_mlp, activation=activation)


def compiled(activation: str, mode: str | None = None) -> Mlp:
    """Eager under ``torch.compile``."""
    return torch.compile(eager(activation), mode=mode, fullgraph=True)


class Layer(torch.nn.Module):
    """The MLP with its weights as parameters."""

    def __init__(self, activation: str, gate: Tensor, up: Tensor, down: Tensor) -> None:
        super().__init__()
        self.activation = activation
        self.gate, self.up, self.down = (torch.nn.Parameter(t.detach(), requires_grad=False) for t in (gate, up, down))

    def forward(self, x: Tensor) -> Tensor:
        """[rows, dim] → [rows, dim]."""
        return reference.gated_mlp(x, self.gate, self.up, self.down, activation=self.activation)


def layer_class(number: int) -> type[Layer]:
    """``Layer`` whose forward has a code object of its own.

    Dynamo keeps what it compiled by code object. Under one, the sets would share one compiled function, whose CUDA
    graph is recorded anew for each set and looked for at every call; a model's only layer has no such search.
    """
    code = Layer.forward.__code__.replace(co_name=f"forward_{number}")
    return type(f"Layer{number}", (Layer,), {"forward": types.FunctionType(code, globals())})


def reduce_overhead(activation: str) -> Mlp:
    """Eager under ``torch.compile(mode="reduce-overhead")``: CUDA graphs, without gradients; one compiled layer a set.

    The weights are parameters: a CUDA graph reads those in place, and copies arguments into its own buffers each call.
    """
    layers: dict[int, Callable[[Tensor], Tensor]] = {}

    def mlp(x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
        layer = layers.get(gate.data_ptr())
        if layer is None:
            module = layer_class(len(layers))(activation, gate, up, down)
            layer = layers[gate.data_ptr()] = torch.compile(module, mode="reduce-overhead", fullgraph=True)
        return layer(x)

    return mlp


def liger(activation: str) -> Mlp:
    """Liger's pointwise kernel between three linears, as its layers call it."""
    ops = importlib.import_module("liger_kernel.ops")
    function = {"gelu_tanh": ops.LigerGELUMulFunction, "silu": ops.LigerSiLUMulFunction}[activation]

    def mlp(x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
        linear = torch.nn.functional.linear
        return linear(function.apply(linear(x, gate), linear(x, up)), down)

    return mlp


def quack(activation: str, *, tuned: bool) -> Mlp:
    """QuACK's gated MLP; its first weight interleaves the rows of gate and up, packed beforehand.

    Tuned is what its function and its layer do unless told otherwise: each GEMM tries its configurations at each shape.
    Otherwise every GEMM takes one fixed configuration.
    """
    function = importlib.import_module("quack.mlp").mlp_func
    name = {"gelu_tanh": "geglu", "silu": "swiglu"}[activation]
    packed: dict[int, Tensor] = {}

    def mlp(x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
        weight = packed.get(gate.data_ptr())
        if weight is None:
            weight = torch.stack((gate.detach(), up.detach()), 1).flatten(0, 1).requires_grad_(gate.requires_grad)
            packed[gate.data_ptr()] = weight
        weight.grad = None
        y: Tensor = function(x, weight, down, activation=name, tuned=tuned)
        return y

    return mlp


def ours(activation: str) -> Mlp:
    """The layer's own function, by the path its plan picks."""
    return partial(gated_mlp, activation=activation)


def forced(activation: str, path: str) -> Mlp:
    """Ours by one path, for the table the plan reads."""

    def mlp(*args: Tensor) -> Tensor:
        with plan.forced(path):
            return gated_mlp(*args, activation=activation)

    return mlp


PEERS: dict[str, Callable[[str], Mlp]] = {
    "ours": ours,
    "eager": eager,
    "compile": compiled,
    "max-autotune": partial(compiled, mode="max-autotune-no-cudagraphs"),
    "reduce-overhead": reduce_overhead,
    "liger": liger,
    "quack": partial(quack, tuned=False),
    "quack-tuned": partial(quack, tuned=True),
    "pointwise": partial(forced, path="pointwise"),
    "fused": partial(forced, path="fused"),
    "rows": partial(forced, path="rows"),
    "rows_tma": partial(forced, path="rows_tma"),
}
