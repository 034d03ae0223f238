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
from .paths import Gradients, Needs
from .weights import Weights


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
        return once((dgate if need_gate else None, dup if need_up else None, None), (dout, gate, up))


class GatedMlp(Function):
    """The whole MLP; saves x and gate's and up's outputs, as far as a wanted gradient reads them."""

    @staticmethod
    def forward(ctx: Any, x_MK: Tensor, activation: str, *weights: Tensor | None) -> Tensor:
        """``weights`` as in ``Weights``."""
        w = Weights(*weights)  # type: ignore[arg-type] # the first three are there
        path = plan.path_for(x_MK, w, training=True)
        y, gate_up = paths.forward_saving(path, x_MK, w, activation)
        ctx.needs = Needs(ctx.needs_input_grad[0], *ctx.needs_input_grad[2:])
        ctx.save_for_backward(*keep(ctx.needs, x_MK, w, gate_up))
        # not saved: these are read only by a second derivative, which is refused
        ctx.parameters = tuple(t for t in weights if t is not None and t.requires_grad)
        # a hook may give another tensor back, over memory that is its own
        ctx.activation, ctx.hidden, ctx.memory = activation, w.gate.shape[0], _memory(gate_up)
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        """Only the GEMMs of wanted gradients."""
        x, gate_up, *weights = ctx.saved_tensors
        with torch.no_grad():
            if plan.unwatched([dy]):
                dy = paths.as_matrix(dy)
                path = plan.backward_path_for(dy, gate_up, weights[2])
                free = (
                    forget(ctx)
                    and gate_up is not None
                    and holders(gate_up) == _ALONE
                    and ctx.memory == _memory(gate_up) != 0
                )
                given = (dy, (x, gate_up), tuple(weights), ctx.activation, ctx.needs)
                found = paths.backward(path, *given, overwrite=free)
            else:
                found = Gradients(*ops.mlp_backward(dy, x, gate_up, *weights, ctx.activation, list(ctx.needs)))
            dx, *dweights = give(found, ctx.needs, ctx.hidden)
        return once((dx, None, *dweights), (dy, x, *ctx.parameters))


def forget(ctx: Any) -> bool:
    """Let a node drop its saved tensors before its backward ends, and say so; it keeps them where its graph is kept."""
    if torch._C._autograd._get_current_graph_task_keep_graph():  # noqa: SLF001 - as PyTorch's own AOT autograd asks
        return False
    ctx.maybe_clear_saved_tensors()
    return True


def holders(tensor: Tensor) -> tuple[int, int, int]:
    """How many refer to a tensor, to its storage in Python, and to the storage: a hook can hold what it was shown."""
    storage = tensor.untyped_storage()
    count = torch._C._storage_Use_Count(storage._cdata)  # noqa: SLF001 - without a public form
    return sys.getrefcount(tensor), sys.getrefcount(storage), count


def _alone() -> tuple[int, int, int]:
    """What ``holders`` counts where one variable refers to a tensor, and nothing else."""
    tensor = torch.empty(0)
    return holders(tensor)


_ALONE = _alone()


def _memory(tensor: Tensor) -> int:
    """Whose memory a tensor has; nothing while a CUDA graph is captured, whose replays read it again."""
    if tensor.is_cuda and torch.cuda.is_current_stream_capturing():
        return 0
    return int(tensor.untyped_storage()._cdata)  # noqa: SLF001 - without a public form


class _Refuse(Function):
    @staticmethod
    def forward(ctx: Any, count: int, *tensors: Tensor | None) -> tuple[Tensor | None, ...]:  # noqa: ARG004 - autograd's
        return tuple(None if t is None else t.clone() for t in tensors[count:])

    @staticmethod
    def backward(ctx: Any, *_: Any) -> None:  # noqa: ARG004 - as above
        raise RuntimeError(ops.TWICE)


def once(gradients: tuple[Tensor | None, ...], sources: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
    """The same gradients, which raise when a second backward goes through them to one of their ``sources``.

    ``torch.autograd.function.once_differentiable`` overlooks a second derivative that comes through saved tensors.
    """
    if not torch.is_grad_enabled():
        return gradients
    refused: tuple[Tensor | None, ...] = _Refuse.apply(len(sources), *sources, *gradients)  # type: ignore[no-untyped-call] # autograd's own
    return refused
