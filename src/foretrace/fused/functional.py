"""The fused functions: any leading dimensions, autocast, and the way round operators that nobody watches."""

from __future__ import annotations

import torch
from torch import Tensor

from . import ops, paths, plan, reference
from .activation import canonical, gelu_name
from .paths import Weights

_PLAIN_TYPES = (torch.Tensor, torch.nn.Parameter)


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
        dtype = torch.result_type(gate, up)
        gate, up = gate.to(dtype), up.to(dtype)
    if gate.shape != up.shape:
        gate, up = torch.broadcast_tensors(gate, up)
    if not plan.runs_kernels(gate, up):
        return reference.glu(gate, up, activation)
    if _unwatched(gate, up) and not (torch.is_grad_enabled() and (gate.requires_grad or up.requires_grad)):
        return paths.glu(gate, up, activation)
    return ops.glu_forward(gate, up, activation)


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
    """
    activation = canonical(activation)
    given = (x, gate_weight, up_weight, down_weight, gate_bias, up_bias, down_bias)
    if torch.is_autocast_enabled(x.device.type):
        given = _autocast(given)
        x = given[0]
    tensors = [t for t in given if t is not None]
    if not plan.runs_kernels(*tensors):
        return reference.gated_mlp(*given, activation=activation)
    training = torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
    x_MK = paths.as_matrix(x)
    if not training and _unwatched(*tensors):
        weights = Weights(*given[1:])
        y_MK = paths.forward(plan.path_for(x_MK, weights, training=False), x_MK, weights, activation)
    else:
        y_MK = ops.mlp_forward(x_MK, *given[1:], activation, training)[0]
    return y_MK.view(*x.shape[:-1], y_MK.shape[1])


def _autocast(given: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
    device = next(t.device.type for t in given if t is not None)
    dtype = torch.get_autocast_dtype(device)
    return tuple(t if t is None or t.dtype == torch.float64 else t.to(dtype) for t in given)


def _unwatched(*tensors: Tensor) -> bool:
    """Whether nobody traces: then a plain call saves the dispatcher's round trip (about 20 µs in Python)."""
    return (
        not torch.compiler.is_compiling()
        and all(type(t) in _PLAIN_TYPES for t in tensors)
        and torch._C._len_torch_dispatch_stack() == 0  # noqa: SLF001 - modes have no public count
        and torch._C._functorch.maybe_current_level() is None  # noqa: SLF001 - as above
    )
