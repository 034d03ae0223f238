"""The gated MLP's gradients for plain eager calls, without the operators that a compiler needs."""

# ruff: noqa: ANN401 - autograd hands over a context of its own
from __future__ import annotations

import sys
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from . import ops, paths, plan
from .gradients import give, keep
from .paths import Gradients, Needs, Weights


def apply(function: type[Function], *args: Any) -> Any:
    """``function.apply`` without its search of the arguments for functorch's wrappers: here nobody watches."""
    return super(Function, function).apply(*args)  # type: ignore[misc] # of the class below it, in C


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
        y, gate_up = paths.forward_saving(path, x_MK, w, activation)
        ctx.needs = Needs(ctx.needs_input_grad[0], *ctx.needs_input_grad[2:])
        ctx.save_for_backward(*keep(ctx.needs, x_MK, w, gate_up))
        ctx.activation, ctx.hidden = activation, w.gate.shape[0]
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        """Only the GEMMs of wanted gradients."""
        x, gate_up, *weights = ctx.saved_tensors
        with torch.no_grad():
            if plan.unwatched([dy]):
                dy = paths.as_matrix(dy)
                path = plan.backward_path_for(dy, gate_up, weights[2])
                free = forget(ctx) and gate_up is not None and holders(gate_up) == _ALONE
                given = (dy, (x, gate_up), tuple(weights), ctx.activation, ctx.needs)
                found = paths.backward(path, *given, overwrite=free)
            else:
                found = Gradients(*ops.mlp_backward(dy, x, gate_up, *weights, ctx.activation, list(ctx.needs)))
            dx, *dweights = give(found, ctx.needs, ctx.hidden)
        return once((dx, None, *dweights))


def forget(ctx: Any) -> bool:
    """Let a node drop its saved tensors before its backward ends, and say so; it keeps them where its graph is kept."""
    if torch._C._autograd._get_current_graph_task_keep_graph():  # noqa: SLF001 - as PyTorch's own AOT autograd asks
        return False
    ctx.maybe_clear_saved_tensors()
    return True


def holders(tensor: Tensor) -> tuple[int, int]:
    """How many refer to a tensor and to its memory: hooks on saved tensors, say, can hold what they were shown."""
    storage = tensor.untyped_storage()
    return sys.getrefcount(tensor), torch._C._storage_Use_Count(storage._cdata)  # noqa: SLF001 - without a public form


def _alone() -> tuple[int, int]:
    """What ``holders`` counts where one variable refers to a tensor, and nothing else."""
    tensor = torch.empty(0)
    return holders(tensor)


_ALONE = _alone()


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
