"""The fused functions: any leading dimensions, autocast, and the way round operators that nobody watches."""

from __future__ import annotations

import torch
from torch import Tensor

from . import eager, ops, paths, plan, reference
from .activation import canonical, gelu_name
from .weights import Weights, fit

_Given = tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None, Tensor | None, Tensor | None]


def geglu(gate: Tensor, up: Tensor, *, approximate: str = "none") -> Tensor:
    """``gelu(gate) * up`` in one kernel, forward and backward.

    Args:
        gate: Any shape; bf16, fp16 or fp32 on a GPU run fused, anything else in plain PyTorch.
        up: Broadcasts with ``gate``; mixed dtypes promote as PyTorch promotes them.
        approximate: ``"none"`` for exact GELU, ``"tanh"`` for its approximation, as in ``torch.nn.functional.gelu``.

    Returns:
        Computed in fp32 and rounded once; eager rounds the activation first, so the two can differ by one ulp.
    """
    return glu(gate, up, activation=gelu_name(approximate))


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    """``silu(gate) * up`` in one kernel, forward and backward; see ``geglu``."""
    return glu(gate, up, activation="silu")


def glu(gate: Tensor, up: Tensor, *, activation: str) -> Tensor:
    """``act(gate) * up`` for any of ``ACTIVATIONS``; see ``geglu``.

    Raises:
        ValueError: No such activation.
    """
    activation = canonical(activation)
    if gate.dtype != up.dtype:
        # of numbers without dimensions PyTorch asks less; a compiler can follow the other question alone
        both = gate.ndim and up.ndim
        dtype = torch.promote_types(gate.dtype, up.dtype) if both else torch.result_type(gate, up)
        gate, up = gate.to(dtype), up.to(dtype)
    if gate.shape != up.shape:
        shape = torch.broadcast_shapes(gate.shape, up.shape)  # type: ignore[no-untyped-call] # PyTorch's own
        gate, up = gate.expand(shape), up.expand(shape)
    if plan.takes_tangents() or not plan.runs_kernels([gate, up]):
        return reference.glu(gate, up, activation)
    out: Tensor
    if not plan.unwatched([gate, up]):
        out = ops.glu_forward(gate, up, activation)
    elif torch.is_grad_enabled() and (gate.requires_grad or up.requires_grad):
        out = eager.apply(eager.Glu, gate, up, activation)
    else:
        out = paths.glu(gate, up, activation)
    return out


def gated_mlp(
    x: Tensor,
    gate_weight: Tensor,
    up_weight: Tensor,
    down_weight: Tensor,
    gate_bias: Tensor | None = None,
    up_bias: Tensor | None = None,
    down_bias: Tensor | None = None,
    *,
    activation: str = "gelu",
) -> Tensor:
    """``down(act(gate(x)) * up(x))``, by the path that was measured fastest for the shape.

    Args:
        x: ``[..., dim]``, any strides.
        gate_weight: ``[hidden, dim]``, as ``nn.Linear`` keeps it.
        up_weight: ``[hidden, dim]``.
        down_weight: ``[dim, hidden]``.
        gate_bias: ``[hidden]`` or nothing.
        up_bias: ``[hidden]`` or nothing.
        down_bias: ``[dim]`` or nothing.
        activation: One of ``ACTIVATIONS``.

    Returns:
        ``[..., dim]``. On a GPU with one dtype throughout the kernels run; otherwise (CPU, fp64, mixed dtypes without
        autocast, meta tensors) plain PyTorch, with its own errors. Under autocast everything is cast as for ``linear``.

    Raises:
        ValueError: No such activation.
        NotImplementedError: The weights are DTensors sharded in another way than ``parallel`` serves.
    """
    activation = canonical(activation)
    given: _Given = (x, gate_weight, up_weight, down_weight, gate_bias, up_bias, down_bias)
    if hasattr(gate_weight, "placements") or hasattr(down_weight, "placements"):
        from . import parallel  # noqa: PLC0415 - torch.distributed only where a weight is a DTensor

        return parallel.gated_mlp(gated_mlp, x, given[1:], activation=activation)
    device = "cuda" if x.is_cuda else x.device.type  # the latter takes half a microsecond
    if torch.is_autocast_enabled(device):
        given = _autocast(given, device)
        x = given[0]
    tensors = [t for t in given if t is not None]
    weights = Weights(*given[1:])
    if plan.takes_tangents() or not plan.runs_kernels(tensors) or not fit(x, weights):
        return reference.gated_mlp(*given, activation=activation)
    x_MK = paths.as_matrix(x)
    training = torch.is_grad_enabled() and any([t.requires_grad for t in tensors])  # noqa: C419 - half a generator's time
    y_MK: Tensor
    if not plan.unwatched(tensors):
        y_MK = ops.mlp_forward(x_MK, *weights, activation, training)[0]
    elif training:
        y_MK = eager.apply(eager.GatedMlp, x_MK, activation, *weights)
    else:
        y_MK = paths.forward(plan.path_for(x_MK, weights, training=False), x_MK, weights, activation)
    return y_MK if x.ndim == 2 else y_MK.view(*x.shape[:-1], y_MK.shape[1])  # noqa: PLR2004 - a matrix already


def _autocast(given: _Given, device: str) -> _Given:
    dtype = torch.get_autocast_dtype(device)
    cast = [t if t is None or t.dtype == torch.float64 else t.to(dtype) for t in given]
    return tuple(cast)  # type: ignore[return-value] # the same seven
