"""The gated MLP's own kernels, which show themselves as ops under a profiler: ``foretrace::gated_forward`` and others.

Shape legend: M rows, K dim, N hidden.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from foretrace.ops.bytes import Tensor
from foretrace.ops.flops import matmul_flops
from foretrace.ops.unsaid import UnsaidError
from foretrace.ops.work import Entry, Figures, unknown

if TYPE_CHECKING:
    from foretrace.ops.args import Args


def _sizes(rows: Tensor, weight: Tensor) -> tuple[int, int, int]:
    """M, N and K of ``[M, K]`` and a weight ``[N, K]``."""
    (m, k), (n, also_k) = rows.shape, weight.shape
    if k != also_k:
        raise UnsaidError
    return m, n, k


def _gated_forward(args: Args) -> Figures:
    """``(x[M, K], gate[N, K], up[N, K])``; then, where they are kept, gate's and up's outputs, written beside h."""
    x, gate, up = (args.tensor(index) for index in range(3))
    m, n, k = _sizes(x, gate)
    kept = (tensor for index in (3, 4) if (tensor := args.find(index)) is not None)
    return Figures(matmul_flops(m, 2 * n, k), (x, gate, up), (Tensor((m, n), x.dtype), *kept))


def _gated_mlp(args: Args) -> Figures:
    """``(x[M, K], gate[N, K], up[N, K], down[K, N])``: the whole MLP, with h written and read on its way."""
    x, gate, up, down = (args.tensor(index) for index in range(4))
    m, n, k = _sizes(x, gate)
    h = Tensor((m, n), x.dtype)
    return Figures(
        matmul_flops(m, 2 * n, k) + matmul_flops(m, k, n), (x, gate, up, h, down), (h, Tensor((m, k), x.dtype))
    )


def _gated_backward(args: Args) -> Figures:
    """``(dy[M, K], down[K, N], gate[M, N], up[M, N])``: writes the gradients of gate and up, and h again."""
    dy, down, gate, up = (args.tensor(index) for index in range(4))
    (m, k), (also_k, n) = dy.shape, down.shape
    if k != also_k:
        raise UnsaidError
    return Figures(matmul_flops(m, n, k), (dy, down, gate, up), (gate, up, Tensor((m, n), dy.dtype)))


def _gate_up(args: Args) -> Figures:
    """``(x[M, K], gate[N, K], up[N, K])`` for few rows: writes h."""
    x, gate, up = (args.tensor(index) for index in range(3))
    m, n, k = _sizes(x, gate)
    return Figures(matmul_flops(m, 2 * n, k), (x, gate, up), (Tensor((m, n), x.dtype),))


def _down(args: Args) -> Figures:
    """``(x[M, K], down[K, N])`` for few rows: reads h ``[M, N]``, writes y ``[M, K]``."""
    x, down = args.tensor(0), args.tensor(1)
    (m, k), (also_k, n) = x.shape, down.shape
    if k != also_k:
        raise UnsaidError
    return Figures(matmul_flops(m, k, n), (Tensor((m, n), x.dtype), down), (Tensor((m, k), x.dtype),))


def _pointwise(args: Args) -> Figures:
    """``(gate, up)`` to ``act(gate) * up``, two operations an element."""
    gate, up = args.tensor(0), args.tensor(1)
    return Figures(2 * gate.elements, (gate, up), (Tensor(gate.shape, gate.dtype),))


def _pointwise_backward(args: Args) -> Figures:
    """``(dout, gate, up)`` to both gradients, four operations an element; h again where a fourth tensor takes it."""
    dout, gate, up = (args.tensor(index) for index in range(3))
    hidden = args.find(3)
    written = (gate, up) if hidden is None else (gate, up, hidden)
    return Figures(4 * gate.elements, (dout, gate, up), written)


SEVERAL_PRODUCTS = frozenset({"foretrace::gated_mlp"})
"""Ops whose one kernel does products of different shapes."""

OPS: dict[str, Entry] = {
    "foretrace::gated_forward": Entry("gemm", _gated_forward),
    "foretrace::gated_mlp": Entry("gemm", _gated_mlp),
    "foretrace::gated_backward": Entry("gemm", _gated_backward),
    "foretrace::gate_up": Entry("gemm", _gate_up),
    "foretrace::down": Entry("gemm", _down),
    "foretrace::pointwise": Entry("pointwise", _pointwise),
    "foretrace::pointwise_backward": Entry("pointwise", _pointwise_backward),
    # the operators that a compiler sees do their work through those above and ATen's
    **dict.fromkeys(("foretrace::mlp_forward", "foretrace::mlp_backward"), Entry("gemm", unknown, composite=True)),
    **dict.fromkeys(("foretrace::glu_forward", "foretrace::glu_backward"), Entry("pointwise", unknown, composite=True)),
}
"""By full names: ATen has ops of the same last part."""
