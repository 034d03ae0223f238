"""The operators that autograd and the compiler see: opaque, with shapes for fake tensors and first derivatives.

``mlp_forward`` keeps ``gate(x)`` beside ``up(x)`` (and autograd keeps ``x``) when ``save`` is set; inputs are only
read. The backward operators have no derivative of their own, so a second backward raises and says so.
"""

# ruff: noqa: ANN401, ARG001 - autograd hands over a context; fake versions take what the real ones take
from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from . import paths, plan
from ._ops import add_op_namespace_prefix
from .gradients import give, keep
from .paths import Gradients, Needs
from .weights import Weights

TWICE = "the fused gated MLP is differentiable once: use foretrace.fused.reference for a double backward"


@torch.library.custom_op(add_op_namespace_prefix("glu_forward"), mutates_args=())
def glu_forward(gate: Tensor, up: Tensor, activation: str) -> Tensor:
    """``act(gate) * up`` for two tensors of one shape and dtype."""
    return paths.glu(gate, up, activation)


@torch.library.custom_op(add_op_namespace_prefix("glu_backward"), mutates_args=())
def glu_backward(dout: Tensor, gate: Tensor, up: Tensor, activation: str) -> tuple[Tensor, Tensor]:
    """The gradients of ``glu_forward``."""
    return paths.glu_backward(dout, gate, up, activation)


@torch.library.custom_op(add_op_namespace_prefix("mlp_forward"), mutates_args=())
def mlp_forward(
    x: Tensor, gate: Tensor, up: Tensor, down: Tensor,
    gate_bias: Tensor | None, up_bias: Tensor | None, down_bias: Tensor | None,
    activation: str, save: bool,  # noqa: FBT001 - an operator's schema has positional arguments
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """``x`` ``[M, K]`` to the output ``[M, K]``, and gate's and up's outputs ``[M, 2N]`` (empty without ``save``)."""
    weights = Weights(gate, up, down, gate_bias, up_bias, down_bias)
    path = plan.path_for(x, weights, training=save)
    if save:
        return paths.forward_saving(path, x, weights, activation)
    return paths.forward(path, x, weights, activation, compiled=True), x.new_empty(0)


@torch.library.custom_op(add_op_namespace_prefix("mlp_backward"), mutates_args=())
def mlp_backward(
    dy: Tensor, x: Tensor | None, gate_up: Tensor | None,
    gate: Tensor | None, up: Tensor | None, down: Tensor | None,
    activation: str, needs: list[bool],
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradients of ``mlp_forward`` that ``needs`` names, as ``paths.Gradients`` has them; empty where not named."""
    dy = paths.as_matrix(dy)
    path = plan.backward_path_for(dy, gate_up, down)
    found = paths.backward(path, dy, (x, gate_up), (gate, up, down), activation, Needs(*needs))
    return tuple(dy.new_empty(0) if t is None else t for t in found)  # type: ignore[return-value] # five of them


@glu_forward.register_fake
def _(gate: Tensor, up: Tensor, activation: str) -> Tensor:
    return torch.empty_like(gate, memory_format=torch.contiguous_format)


@glu_backward.register_fake
def _(dout: Tensor, gate: Tensor, up: Tensor, activation: str) -> tuple[Tensor, Tensor]:
    form = torch.contiguous_format
    return torch.empty_like(gate, memory_format=form), torch.empty_like(up, memory_format=form)


@mlp_forward.register_fake
def _(
    x: Tensor, gate: Tensor, up: Tensor, down: Tensor,
    gate_bias: Tensor | None, up_bias: Tensor | None, down_bias: Tensor | None,
    activation: str, save: bool,  # noqa: FBT001 - as above
) -> tuple[Tensor, Tensor]:  # fmt: skip
    y = x.new_empty(x.shape[0], down.shape[0])
    return y, x.new_empty((x.shape[0], 2 * gate.shape[0]) if save else (0,))


@mlp_backward.register_fake
def _(
    dy: Tensor, x: Tensor | None, gate_up: Tensor | None,
    gate: Tensor | None, up: Tensor | None, down: Tensor | None,
    activation: str, needs: list[bool],
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    want, n, k = Needs(*needs), 0 if gate_up is None else gate_up.shape[1] // 2, dy.shape[1]
    weights = n * (want.gate + want.up)
    return (
        dy.new_empty((dy.shape[0], k) if want.x else 0),
        dy.new_empty((weights, k) if weights else 0),
        dy.new_empty((k, n) if want.down else 0),
        dy.new_empty(2 * n if want.gate_bias or want.up_bias else 0),
        dy.new_empty(k if want.down_bias else 0),
    )


def _setup_glu(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    gate, up, ctx.activation = inputs
    ctx.save_for_backward(gate, up)


def _glu_gradient(ctx: Any, dout: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
    gate, up = ctx.saved_tensors
    dgate, dup = glu_backward(dout, gate, up, ctx.activation)
    need_gate, need_up, _ = ctx.needs_input_grad
    return dgate if need_gate else None, dup if need_up else None, None


def _setup_mlp(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    x, *weights, ctx.activation, save = inputs
    if not save:
        msg = "mlp_forward was called without save although a gradient is wanted"
        raise RuntimeError(msg)
    ctx.set_materialize_grads(value=False)
    ctx.hidden = output[1].shape[1] // 2
    ctx.save_for_backward(*keep(Needs(*ctx.needs_input_grad[:7]), x, Weights(*weights), output[1]))


def _mlp_gradient(ctx: Any, dy: Tensor | None, *_: Tensor | None) -> tuple[Tensor | None, ...]:
    needs = Needs(*ctx.needs_input_grad[:7])
    if dy is None or not any(needs):
        return (None,) * 9
    found = mlp_backward(dy, *ctx.saved_tensors, ctx.activation, list(needs))
    return *give(Gradients(*found), needs, ctx.hidden), None, None


def _refuse_twice(ctx: Any, *_: Any) -> None:
    raise RuntimeError(TWICE)


glu_forward.register_autograd(_glu_gradient, setup_context=_setup_glu)
mlp_forward.register_autograd(_mlp_gradient, setup_context=_setup_mlp)
glu_backward.register_autograd(_refuse_twice)
mlp_backward.register_autograd(_refuse_twice)
