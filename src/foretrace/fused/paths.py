"""The ways through a gated MLP, over matrices: what each path launches forward and backward.

Shape legend: M rows, K dim, N hidden. ``pointwise`` is cuBLAS with one fused pointwise kernel; ``fused`` puts the
activation into the GEMMs' epilogues; ``rows`` and ``rows_tma`` stream the weights for a few rows. Every path needs CUDA
(or Triton's interpreter), triton and one dtype throughout; ``plan`` knows which shapes each can serve.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext, suppress
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - PyTorch's own convention

if torch.version.cuda is not None or torch.version.hip is not None:
    # Triton takes 0.3 s to import: here rather than in the first call
    with suppress(ImportError):
        from .kernels import hopper_backward, hopper_forward, pointwise  # noqa: F401 - imported for the calls below


class Weights(NamedTuple):
    """``gate`` and ``up`` ``[N, K]``, ``down`` ``[K, N]``, and their biases where the layer has them."""

    gate: Tensor
    up: Tensor
    down: Tensor
    gate_bias: Tensor | None = None
    up_bias: Tensor | None = None
    down_bias: Tensor | None = None


class Needs(NamedTuple):
    """Which gradients are wanted, in the order of the operator's inputs."""

    x: bool
    gate: bool
    up: bool
    down: bool
    gate_bias: bool = False
    up_bias: bool = False
    down_bias: bool = False


class Gradients(NamedTuple):
    """What a backward computed, nothing where it was not wanted.

    ``x`` ``[M, K]``, ``gate_up`` ``[2N, K]`` and ``gate_up_bias`` ``[2N]`` with gate's share first and up's after it,
    ``down`` ``[K, N]``, ``down_bias`` ``[K]``.
    """

    x: Tensor | None = None
    gate_up: Tensor | None = None
    down: Tensor | None = None
    gate_up_bias: Tensor | None = None
    down_bias: Tensor | None = None


def on(device: torch.device) -> AbstractContextManager[object]:
    """Make ``device`` current while kernels launch: Triton launches on the current one, whatever its arguments."""
    if device.type != "cuda" or device.index == torch.cuda.current_device():
        return nullcontext()
    return torch.cuda.device(device)


def as_matrix(tensor: Tensor) -> Tensor:
    """``tensor`` as ``[rows, last]`` with adjacent columns: a view where one exists, a copy where none does."""
    if tensor.ndim == 2:  # noqa: PLR2004 - a matrix already
        matrix = tensor
    else:
        matrix = tensor.reshape(-1, tensor.shape[-1]) if tensor.ndim else tensor.reshape(1, 1)
    return matrix if matrix.stride(1) == 1 or matrix.shape[1] <= 1 else matrix.contiguous()


def glu(gate: Tensor, up: Tensor, activation: str) -> Tensor:
    """``act(gate) * up`` in one kernel; both of one shape, dtype and device."""
    from .kernels import pointwise  # noqa: PLC0415 - triton only where a kernel runs

    out = torch.empty_like(gate, memory_format=torch.contiguous_format)
    if gate.numel():
        with on(gate.device):
            pointwise.forward(as_matrix(gate), as_matrix(up), as_matrix(out), activation)
    return out


def glu_backward(dout: Tensor, gate: Tensor, up: Tensor, activation: str) -> tuple[Tensor, Tensor]:
    """The gradients of ``glu`` in one kernel."""
    from .kernels import pointwise  # noqa: PLC0415 - as above

    dgate = torch.empty_like(gate, memory_format=torch.contiguous_format)
    dup = torch.empty_like(up, memory_format=torch.contiguous_format)
    if gate.numel():
        with on(gate.device):
            given = (as_matrix(dout), as_matrix(gate), as_matrix(up))
            pointwise.backward(*given, as_matrix(dgate), as_matrix(dup), None, activation)
    return dgate, dup


def forward(path: str, x_MK: Tensor, w: Weights, activation: str) -> Tensor:
    """The output ``[M, K]`` by ``path``, keeping nothing for a backward."""
    if path in ("rows", "rows_tma"):
        if path == "rows":
            from .kernels import rows  # noqa: PLC0415 - as above
        else:
            from .kernels import hopper_rows as rows  # type: ignore[no-redef]  # noqa: PLC0415 - as above
        with on(x_MK.device):
            return rows.forward(x_MK, w.gate, w.up, w.down, activation)
    hidden, _, _ = _hidden(path, x_MK, w, activation, save=False)
    return F.linear(hidden, w.down, w.down_bias)


def forward_saving(path: str, x_MK: Tensor, w: Weights, activation: str) -> tuple[Tensor, Tensor, Tensor]:
    """The output, and ``gate(x)`` and ``up(x)`` for the backward; ``act(gate) * up`` is computed again there."""
    hidden, gate, up = _hidden(path, x_MK, w, activation, save=True)
    assert gate is not None
    assert up is not None
    return F.linear(hidden, w.down, w.down_bias), gate, up


def _hidden(
    path: str, x_MK: Tensor, w: Weights, activation: str, *, save: bool
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    if path == "pointwise":
        gate, up = F.linear(x_MK, w.gate, w.gate_bias), F.linear(x_MK, w.up, w.up_bias)
        return glu(gate, up, activation), gate, up
    shape = (x_MK.shape[0], w.gate.shape[0])
    hidden = x_MK.new_empty(shape)
    saved = (x_MK.new_empty(shape), x_MK.new_empty(shape)) if save else None
    if path == "fused":
        from .kernels.hopper_forward import gated_forward  # noqa: PLC0415 - as above
    else:
        from .kernels.gated_forward import gated_forward  # type: ignore[assignment]  # noqa: PLC0415 - as above
    with on(x_MK.device):
        gated_forward(x_MK, w.gate, w.up, hidden, saved, activation)
    return hidden, *(saved or (None, None))


def backward(
    path: str,
    dy_MK: Tensor,
    saved: tuple[Tensor | None, Tensor | None, Tensor | None],
    weights: tuple[Tensor | None, Tensor | None, Tensor | None],
    activation: str,
    needs: Needs,
) -> Gradients:
    """The gradients that ``needs`` names, without a GEMM for any other; inputs are only read.

    Args:
        path: ``fused``, or any other for cuBLAS and the pointwise kernel.
        dy_MK: The output's gradient.
        saved: x for gate's and up's weights; gate's and up's outputs for anything but down's bias.
        weights: Gate's and up's for x's gradient, down's for any but its own.
        activation: One of ``ACTIVATIONS``.
        needs: The wanted gradients.
    """
    (x_MK, gate_MN, up_MN), (gate_weight, up_weight, down_weight) = saved, weights
    down_bias = dy_MK.sum(0) if needs.down_bias else None
    if gate_MN is None or up_MN is None:
        return Gradients(down_bias=down_bias)
    m, n = gate_MN.shape
    dgate_up = hidden = None
    if needs.x or needs.gate or needs.up or needs.gate_bias or needs.up_bias:
        assert down_weight is not None
        dgate_up = gate_MN.new_empty(m, 2 * n)
        hidden = _inner(path, dy_MK, gate_MN, up_MN, down_weight, dgate_up, activation, keep_hidden=needs.down)
    elif needs.down:
        hidden = glu(gate_MN, up_MN, activation)
    dx = None
    if needs.x:
        assert dgate_up is not None
        assert gate_weight is not None
        assert up_weight is not None
        # a second accumulating GEMM instead of a sum of two: no [M, K] add afterwards
        dx = (dgate_up[:, :n] @ gate_weight).addmm_(dgate_up[:, n:], up_weight)
    return Gradients(
        dx,
        _gate_up_gradient(dgate_up, x_MK, n, needs),
        dy_MK.t() @ hidden if needs.down and hidden is not None else None,
        dgate_up.sum(0) if dgate_up is not None and (needs.gate_bias or needs.up_bias) else None,
        down_bias,
    )


def _inner(
    path: str, dy_MK: Tensor, gate_MN: Tensor, up_MN: Tensor, down_weight_KN: Tensor, dgate_up_M2N: Tensor,
    activation: str, *, keep_hidden: bool,
) -> Tensor | None:  # fmt: skip
    """Fill the gradients of gate and up; give ``act(gate) * up`` where it is asked for."""
    n = gate_MN.shape[1]
    hidden = torch.empty_like(gate_MN) if keep_hidden or path == "fused" else None
    dgate, dup = dgate_up_M2N[:, :n], dgate_up_M2N[:, n:]
    if path == "fused":
        from .kernels.hopper_backward import gated_backward  # noqa: PLC0415 - as above

        assert hidden is not None
        with on(dy_MK.device):
            gated_backward(dy_MK, down_weight_KN, gate_MN, up_MN, dgate, dup, hidden, activation)
    else:
        from .kernels import pointwise  # noqa: PLC0415 - as above

        dh = dy_MK @ down_weight_KN
        if dh.numel():
            with on(dy_MK.device):
                pointwise.backward(dh, gate_MN, up_MN, dgate, dup, hidden, activation)
    return hidden


def _gate_up_gradient(dgate_up: Tensor | None, x_MK: Tensor | None, n: int, needs: Needs) -> Tensor | None:
    """Both weights' gradients as one GEMM: twice the tiles fill the device's last wave better."""
    if dgate_up is None or x_MK is None:
        return None
    if needs.gate and needs.up:
        return dgate_up.t() @ x_MK
    if not (needs.gate or needs.up):
        return None
    wanted = dgate_up[:, :n] if needs.gate else dgate_up[:, n:]
    return wanted.t() @ x_MK
