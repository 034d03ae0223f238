"""The ways through a gated MLP, over matrices: what each path launches forward and backward.

Shape legend: M rows, K dim, N hidden. ``pointwise`` is cuBLAS with one fused pointwise kernel; ``fused`` puts the
activation into the GEMMs' epilogues, and the whole forward into one kernel where rows suffice and nothing is kept;
``rows`` and ``rows_tma`` stream the weights for a few rows. Every path needs CUDA (or Triton's interpreter), triton and
one dtype throughout; ``plan`` knows which shapes each can serve.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - PyTorch's own convention

from .plan import communicates, multiprocessors
from .recorded import recorded
from .schedule import Schedule, schedule

if TYPE_CHECKING:
    from .weights import Weights

if torch.version.cuda is not None or torch.version.hip is not None:
    # Triton takes 0.3 s to import: here rather than in the first call
    with suppress(ImportError):
        from .kernels import hopper_backward, hopper_forward, pointwise  # noqa: F401 - imported for the calls below


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


_HERE = nullcontext()


def on(device: torch.device) -> AbstractContextManager[object]:
    """Make ``device`` current while kernels launch: Triton launches on the current one, whatever its arguments."""
    # the public torch.cuda.current_device() takes 1 µs
    if device.type != "cuda" or device.index == torch._C._cuda_getDevice():  # noqa: SLF001
        return _HERE
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
        with on(gate.device), recorded("pointwise", gate, up):
            pointwise.forward(as_matrix(gate), as_matrix(up), as_matrix(out), activation)
    return out


def glu_backward(dout: Tensor, gate: Tensor, up: Tensor, activation: str) -> tuple[Tensor, Tensor]:
    """The gradients of ``glu`` in one kernel."""
    from .kernels import pointwise  # noqa: PLC0415 - as above

    dgate = torch.empty_like(gate, memory_format=torch.contiguous_format)
    dup = torch.empty_like(up, memory_format=torch.contiguous_format)
    if gate.numel():
        with on(gate.device), recorded("pointwise_backward", dout, gate, up):
            given = (as_matrix(dout), as_matrix(gate), as_matrix(up))
            pointwise.backward(*given, as_matrix(dgate), as_matrix(dup), None, activation)
    return dgate, dup


def forward(path: str, x_MK: Tensor, w: Weights, activation: str, *, compiled: bool = False) -> Tensor:
    """The output ``[M, K]`` by ``path``, keeping nothing for a backward; ``compiled`` where a compiler may call."""
    if path in ("rows", "rows_tma"):
        return _few_rows(path, x_MK, w, activation)
    order = in_one_kernel(x_MK, w) if path == "fused" else None
    if order is not None:
        return _whole(x_MK, w, activation, order, compiled=compiled)
    return F.linear(_hidden(path, x_MK, w, activation, None), w.down, w.down_bias)


def _few_rows(path: str, x_MK: Tensor, w: Weights, activation: str) -> Tensor:
    """The output by the two kernels that stream the weights."""
    if path == "rows":
        from .kernels import rows  # noqa: PLC0415 - as above
    else:
        from .kernels import hopper_rows as rows  # type: ignore[no-redef]  # noqa: PLC0415 - as above
    with on(x_MK.device):
        return rows.forward(x_MK, w.gate, w.up, w.down, activation)


def in_one_kernel(x_MK: Tensor, w: Weights) -> Schedule | None:
    """How one kernel would share out a whole ``fused`` forward that keeps nothing; nothing where it takes two.

    It needs every multiprocessor at once, and would wait for communication that perhaps waits for it.
    """
    if communicates():
        return None
    return schedule(x_MK.shape[0], *w.down.shape, multiprocessors(x_MK.device.index))


def _whole(x_MK: Tensor, w: Weights, activation: str, order: Schedule, *, compiled: bool) -> Tensor:
    """The output by one kernel; a compiler wants no memory kept between calls."""
    from .kernels.hopper_forward import gated_mlp  # noqa: PLC0415 - as above

    with on(x_MK.device), recorded("gated_mlp", x_MK, w.gate, w.up, w.down):
        return gated_mlp(x_MK, w.gate, w.up, w.down, activation, order, keep_counters=not compiled)


def forward_saving(path: str, x_MK: Tensor, w: Weights, activation: str) -> tuple[Tensor, Tensor]:
    """The output, and ``gate(x)`` beside ``up(x)`` ``[M, 2N]``; the backward computes ``act(gate) * up`` again."""
    gate_up = x_MK.new_empty(x_MK.shape[0], 2 * w.gate.shape[0])
    hidden = _hidden(path, x_MK, w, activation, halves(gate_up))
    return F.linear(hidden, w.down, w.down_bias), gate_up


def halves(matrix_M2N: Tensor) -> tuple[Tensor, Tensor]:
    """Gate's and up's share of a matrix that holds both."""
    first, second = matrix_M2N.chunk(2, 1)
    return first, second


def _hidden(path: str, x_MK: Tensor, w: Weights, activation: str, saved: tuple[Tensor, Tensor] | None) -> Tensor:
    """``act(gate) * up`` ``[M, N]``, with gate's and up's outputs written to ``saved`` where it is given."""
    if path == "pointwise":
        gate, up = saved or (None, None)
        gate, up = _linear(x_MK, w.gate, w.gate_bias, gate), _linear(x_MK, w.up, w.up_bias, up)
        return glu(gate, up, activation)
    hidden = x_MK.new_empty(x_MK.shape[0], w.gate.shape[0])
    if path == "fused":
        from .kernels.hopper_forward import gated_forward  # noqa: PLC0415 - as above
    else:
        from .kernels.gated_forward import gated_forward  # noqa: PLC0415 - as above
    with on(x_MK.device), recorded("gated_forward", x_MK, w.gate, w.up, *(saved or ())):
        gated_forward(x_MK, w.gate, w.up, hidden, saved, activation)
    return hidden


def _linear(x_MK: Tensor, weight_NK: Tensor, bias_N: Tensor | None, out_MN: Tensor | None) -> Tensor:
    if out_MN is None:
        return F.linear(x_MK, weight_NK, bias_N)
    if bias_N is None:
        return torch.mm(x_MK, weight_NK.t(), out=out_MN)
    return torch.addmm(bias_N, x_MK, weight_NK.t(), out=out_MN)


def backward(
    path: str,
    dy_MK: Tensor,
    saved: tuple[Tensor | None, Tensor | None],
    weights: tuple[Tensor | None, Tensor | None, Tensor | None],
    activation: str,
    needs: Needs,
    *,
    overwrite: bool = False,
) -> Gradients:
    """The gradients that ``needs`` names, without a GEMM for any other.

    Args:
        path: ``fused``, or any other for cuBLAS and the pointwise kernel.
        dy_MK: The output's gradient.
        saved: x for gate's and up's weights; gate's and up's outputs ``[M, 2N]`` for anything but down's bias.
        weights: Gate's and up's for x's gradient, down's for any but its own.
        activation: One of ``ACTIVATIONS``.
        needs: The wanted gradients.
        overwrite: Whether gate's and up's outputs may be lost, to save the memory of their gradients; otherwise every
            input is only read.
    """
    (x_MK, gate_up), (gate_weight, up_weight, down_weight) = saved, weights
    down_bias = dy_MK.sum(0) if needs.down_bias else None
    if gate_up is None:
        return Gradients(down_bias=down_bias)
    gate_up = gate_up.contiguous()  # a hook on saved tensors may give other strides back
    gate, up = halves(gate_up)
    if not (needs.x or needs.gate or needs.up or needs.gate_bias or needs.up_bias):
        ddown = torch.mm(dy_MK.t(), glu(gate, up, activation)) if needs.down else None
        return Gradients(down=ddown, down_bias=down_bias)
    assert down_weight is not None
    dgate_up = gate_up if overwrite else torch.empty_like(gate_up)
    dgate, dup = (gate, up) if overwrite else halves(dgate_up)
    hidden = _inner(path, dy_MK, gate, up, down_weight, dgate, dup, activation, keep_hidden=needs.down)
    ddown = torch.mm(dy_MK.t(), hidden) if needs.down and hidden is not None else None
    del hidden  # its memory serves the other gradients
    dx = None
    if needs.x:
        assert gate_weight is not None
        assert up_weight is not None
        # a second accumulating GEMM instead of a sum of two: no [M, K] add afterwards
        dx = torch.mm(dgate, gate_weight).addmm_(dup, up_weight)
    bias = dgate_up.sum(0) if needs.gate_bias or needs.up_bias else None
    return Gradients(dx, _gate_up_gradient(dgate_up, x_MK, needs), ddown, bias, down_bias)


def _inner(
    path: str, dy_MK: Tensor, gate_MN: Tensor, up_MN: Tensor, down_weight_KN: Tensor, dgate_MN: Tensor, dup_MN: Tensor,
    activation: str, *, keep_hidden: bool,
) -> Tensor | None:  # fmt: skip
    """Fill the gradients of gate and up; give ``act(gate) * up`` where it is asked for."""
    hidden = gate_MN.new_empty(gate_MN.shape) if keep_hidden or path == "fused" else None
    if path == "fused":
        from .kernels.hopper_backward import gated_backward  # noqa: PLC0415 - as above

        assert hidden is not None
        with on(dy_MK.device), recorded("gated_backward", dy_MK, down_weight_KN, gate_MN, up_MN):
            gated_backward(dy_MK, down_weight_KN, gate_MN, up_MN, dgate_MN, dup_MN, hidden, activation)
    else:
        from .kernels import pointwise  # noqa: PLC0415 - as above

        dh = torch.mm(dy_MK, down_weight_KN)
        if dh.numel():
            with on(dy_MK.device), recorded("pointwise_backward", dh, gate_MN, up_MN, hidden):
                pointwise.backward(dh, gate_MN, up_MN, dgate_MN, dup_MN, hidden, activation)
    return hidden


def _gate_up_gradient(dgate_up: Tensor, x_MK: Tensor | None, needs: Needs) -> Tensor | None:
    """Both weights' gradients as one GEMM: twice the tiles fill the device's last wave better."""
    if x_MK is None:
        return None
    if needs.gate and needs.up:
        return torch.mm(dgate_up.t(), x_MK)
    if not (needs.gate or needs.up):
        return None
    dgate, dup = halves(dgate_up)
    return torch.mm((dgate if needs.gate else dup).t(), x_MK)
