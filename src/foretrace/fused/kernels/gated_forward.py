"""``h = act(x Wg^T) * (x Wu^T)`` on any Triton device: two accumulators, masked pointer loads, any size and stride.

Shape legend: M rows, K dim, N hidden. For devices without TMA (sm_80, sm_86, sm_89); on Hopper ``hopper_forward`` is
faster.
"""

# ruff: noqa: ANN001, ANN201, D103, FBT003, PLR0917 - Triton gives arguments their types, and constants go by place
# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, misc"
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import triton
import triton.language as tl

from .device_activation import act
from .launch import aligned, cdiv, kind, launch

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Config:
    """Tile ``bm`` x (``bn`` gate + ``bn`` up) columns, ``bk`` deep; ``group`` tile rows share weights in L2."""

    bm: int = 128
    bn: int = 64
    bk: int = 32
    stages: int = 4
    warps: int = 8
    group: int = 8


DEFAULT = Config()


@triton.jit(do_not_specialize=["m"])
def foretrace_gated_forward_portable(
    x_ptr, gate_ptr, up_ptr, h_ptr, g_ptr, u_ptr, m, n, k, x_stride, gate_stride, up_stride, g_stride, u_stride,
    SAVE: tl.constexpr, ACTIVATION: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    tiles_m = tl.cdiv(m, BM)
    tile_m, tile_n = tl.swizzle2d(
        tl.program_id(0) % tiles_m, tl.program_id(0) // tiles_m, tiles_m, tl.cdiv(n, BN), GROUP
    )
    rows = tile_m.to(tl.int64) * BM + tl.arange(0, BM)
    cols = tile_n.to(tl.int64) * BN + tl.arange(0, BN)
    ks = tl.arange(0, BK)
    x_ptrs = x_ptr + rows[:, None] * x_stride + ks[None, :]
    gate_ptrs = gate_ptr + cols[None, :] * gate_stride + ks[:, None]
    up_ptrs = up_ptr + cols[None, :] * up_stride + ks[:, None]
    gate = tl.zeros([BM, BN], tl.float32)
    up = tl.zeros([BM, BN], tl.float32)
    for k0 in range(0, k, BK):
        inside = k0 + ks < k
        x = tl.load(x_ptrs + k0, (rows < m)[:, None] & inside[None, :], other=0.0)
        w_mask = (cols < n)[None, :] & inside[:, None]
        gate = tl.dot(x, tl.load(gate_ptrs + k0, w_mask, other=0.0), gate)
        up = tl.dot(x, tl.load(up_ptrs + k0, w_mask, other=0.0), up)
    mask = (rows < m)[:, None] & (cols < n)[None, :]
    dtype = h_ptr.dtype.element_ty
    tl.store(h_ptr + rows[:, None] * n + cols[None, :], (act(gate, ACTIVATION, False) * up).to(dtype), mask)
    if SAVE:
        tl.store(g_ptr + rows[:, None] * g_stride + cols[None, :], gate.to(dtype), mask)
        tl.store(u_ptr + rows[:, None] * u_stride + cols[None, :], up.to(dtype), mask)


def gated_forward(
    x_MK: Tensor,
    gate_weight_NK: Tensor,
    up_weight_NK: Tensor,
    h_MN: Tensor,
    saved: tuple[Tensor, Tensor] | None,
    activation: str,
    config: Config = DEFAULT,
) -> None:
    """Write ``h``, and ``x Wg^T`` and ``x Wu^T`` where ``saved`` has room for them.

    bf16 or fp16 with adjacent columns, fp32 accumulation; ``h`` is computed from the unrounded products and rounded
    once. ``h`` is contiguous, the others have adjacent columns, nothing is empty.
    """
    cfg = config
    (m, k), n = x_MK.shape, h_MN.shape[1]
    g, u = saved or (h_MN, h_MN)
    strides = tuple([t.stride(0) for t in (x_MK, gate_weight_NK, up_weight_NK, g, u)])
    starts = aligned(x_MK, gate_weight_NK, up_weight_NK, h_MN, g, u)
    key = (x_MK.dtype, n, k, tuple(map(kind, strides)), starts, saved is not None, activation, cfg)
    args = (
        x_MK, gate_weight_NK, up_weight_NK, h_MN, g, u, m, n, k, *strides,
        saved is not None, activation, cfg.bm, cfg.bn, cfg.bk, cfg.group,
    )  # fmt: skip
    grid = cdiv(m, cfg.bm) * cdiv(n, cfg.bn)
    launch(foretrace_gated_forward_portable, key, grid, args, num_warps=cfg.warps, num_stages=cfg.stages)
