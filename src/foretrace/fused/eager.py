"""The gated MLP's gradients for plain eager calls, without the operators that a compiler needs."""

# ruff: noqa: ANN401 - autograd hands over a context of its own
from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from . import ops, paths, plan
from .gradients import give, keep
from .paths import Gradients, Needs, Weights


class Glu(Function):
    """``act(gate) * up``; saves both inputs."""

    @staticmethod
    def forward(ctx: Any, gate: Tensor, up: Tensor, activation: str) -> Tensor:
        """Tensors of one shape and dtype."""
        ctx.save_for_backward(gate, up)
        ctx.activation = activation
        return paths.glu(gate, up, activation)

    @staticmethod
    def backward(ctx: Any, dout: Tensor) -> tuple[Tensor | None, ...]:
        """One kernel for both gradients."""
        gate, up = ctx.saved_tensors
        with torch.no_grad():
            backward = paths.glu_backward if plan.unwatched([dout, gate, up]) else ops.glu_backward
            dgate, dup = backward(dout, gate, up, ctx.activation)
        need_gate, need_up, _ = ctx.needs_input_grad
        return once((dgate if need_gate else None, dup if need_up else None, None))


class GatedMlp(Function):
    """The whole MLP; saves x and gate's and up's outputs, as far as a wanted gradient reads them."""

    @staticmethod
    def forward(ctx: Any, x_MK: Tensor, activation: str, *weights: Tensor | None) -> Tensor:
        """``weights`` as in ``paths.Weights``."""
        w = Weights(*weights)  # type: ignore[arg-type] # the first three are there
        path = plan.path_for(x_MK, w, training=True)
        y, gate_out, up_out = paths.forward_saving(path, x_MK, w, activation)
        ctx.needs = Needs(ctx.needs_input_grad[0], *ctx.needs_input_grad[2:])
        ctx.save_for_backward(*keep(ctx.needs, x_MK, w, gate_out, up_out))
        ctx.activation, ctx.hidden = activation, gate_out.shape[1]
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        """Only the GEMMs of wanted gradients."""
        saved = ctx.saved_tensors
        with torch.no_grad():
            if plan.unwatched([dy]):
                dy = paths.as_matrix(dy)
                path = plan.backward_path_for(dy, saved[1], saved[5])
                found = paths.backward(path, dy, saved[:3], saved[3:], ctx.activation, ctx.needs)
            else:
                found = Gradients(*ops.mlp_backward(dy, *saved, ctx.activation, list(ctx.needs)))
            x, *weights = give(found, ctx.needs, ctx.hidden)
        return once((x, None, *weights))


class _Refuse(Function):
    @staticmethod
    def forward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:  # noqa: ARG004 - autograd's signature
        return tuple(g.view_as(g) for g in gradients)

    @staticmethod
    def backward(ctx: Any, *_: Any) -> None:  # noqa: ARG004 - as above
        raise RuntimeError(ops.TWICE)


def once(gradients: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
    """The same gradients, which raise when a second backward reaches them and would take them for constants.

    ``torch.autograd.function.once_differentiable`` overlooks a second derivative that comes through saved tensors.
    """
    if not torch.is_grad_enabled():
        return gradients
    wanted = [g.detach().requires_grad_() for g in gradients if g is not None]
    refusing = iter(_Refuse.apply(*wanted))  # type: ignore[no-untyped-call] # autograd's own
    return tuple(None if g is None else next(refusing) for g in gradients)
