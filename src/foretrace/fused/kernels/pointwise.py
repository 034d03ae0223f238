"""``act(gate) * up`` and its gradients: one read of every input, one write of every output.

Shape legend: M rows, N columns. Inputs may have any row stride (halves of a packed projection, expanded rows) as long
as columns are adjacent; offsets are 64-bit, rows and column blocks share grid x, so no size meets a grid limit.
"""

# ruff: noqa: ANN001, ANN201, D103, ANN401, FBT003, PLR0917 - Triton gives arguments their types, and constants go by place
# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, misc"
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import triton
import triton.language as tl

from .device_activation import act, act_and_slope
from .launch import aligned, cdiv, kind, launch

if TYPE_CHECKING:
    from torch import Tensor

# 16 elements a thread: two 16-byte accesses of bf16 for each operand in flight
_BLOCK = 2048
_WARPS = 4


@triton.jit
def foretrace_glu(
    gate_ptr, up_ptr, out_ptr, n, gate_stride, up_stride, out_stride,
    ACTIVATION: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    blocks = (n - 1) // BLOCK + 1  # not n + BLOCK, which 32 bits may not hold
    pid = tl.program_id(0)
    m = (pid // blocks).to(tl.int64)
    offs = (pid % blocks).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    gate = tl.load(gate_ptr + m * gate_stride + offs, mask, other=0.0).to(tl.float32)
    up = tl.load(up_ptr + m * up_stride + offs, mask, other=0.0).to(tl.float32)
    out = act(gate, ACTIVATION, False) * up
    tl.store(out_ptr + m * out_stride + offs, out.to(out_ptr.dtype.element_ty), mask)


@triton.jit
def foretrace_glu_backward(
    dout_ptr, gate_ptr, up_ptr, dgate_ptr, dup_ptr, out_ptr,
    n, dout_stride, gate_stride, up_stride, dgate_stride, dup_stride, out_stride,
    WRITE_OUT: tl.constexpr, ACTIVATION: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    blocks = (n - 1) // BLOCK + 1  # not n + BLOCK, which 32 bits may not hold
    pid = tl.program_id(0)
    m = (pid // blocks).to(tl.int64)
    offs = (pid % blocks).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    dout = tl.load(dout_ptr + m * dout_stride + offs, mask, other=0.0).to(tl.float32)
    gate = tl.load(gate_ptr + m * gate_stride + offs, mask, other=0.0).to(tl.float32)
    up = tl.load(up_ptr + m * up_stride + offs, mask, other=0.0).to(tl.float32)
    value, slope = act_and_slope(gate, ACTIVATION, False)
    tl.store(dgate_ptr + m * dgate_stride + offs, (dout * up * slope).to(dgate_ptr.dtype.element_ty), mask)
    tl.store(dup_ptr + m * dup_stride + offs, (dout * value).to(dup_ptr.dtype.element_ty), mask)
    if WRITE_OUT:
        tl.store(out_ptr + m * out_stride + offs, (value * up).to(out_ptr.dtype.element_ty), mask)


def _collapse(*tensors: Tensor) -> list[Tensor]:
    """All-contiguous matrices as one long row, so that narrow ones do not leave threads without work."""
    if all(t.is_contiguous() for t in tensors):
        return [t.view(1, -1) for t in tensors]
    return list(tensors)


def forward(gate_MN: Tensor, up_MN: Tensor, out_MN: Tensor, activation: str) -> None:
    """Write ``act(gate) * up`` to ``out``: computed in fp32 from the given dtypes and rounded once.

    All three are ``[M, N]`` with adjacent columns, on one device, and not empty.
    """
    gate, up, out = _collapse(gate_MN, up_MN, out_MN)
    m, n = gate.shape
    _launch(foretrace_glu, (gate, up, out), m, n, (activation, _BLOCK))


def backward(
    dout_MN: Tensor,
    gate_MN: Tensor,
    up_MN: Tensor,
    dgate_MN: Tensor,
    dup_MN: Tensor,
    out_MN: Tensor | None,
    activation: str,
) -> None:
    """Write the gradients of gate and up, and ``act(gate) * up`` again where ``out`` is given.

    All are ``[M, N]`` with adjacent columns, on one device, and not empty; inputs are only read.
    """
    given = [dout_MN, gate_MN, up_MN, dgate_MN, dup_MN]
    dout, gate, up, dgate, dup, out = _collapse(*given, out_MN if out_MN is not None else dup_MN)
    m, n = gate.shape
    _launch(foretrace_glu_backward, (dout, gate, up, dgate, dup, out), m, n, (out_MN is not None, activation, _BLOCK))


def _launch(kernel: Any, tensors: tuple[Tensor, ...], m: int, n: int, constants: tuple[Any, ...]) -> None:
    strides = tuple([t.stride(0) for t in tensors])
    kinds = (kind(n), *map(kind, strides))
    key = (tuple([t.dtype for t in tensors]), aligned(*tensors), kinds, constants)
    launch(kernel, key, m * cdiv(n, _BLOCK), (*tensors, n, *strides, *constants), num_warps=_WARPS)
