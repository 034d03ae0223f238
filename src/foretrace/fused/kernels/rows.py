"""Few rows (1 to 64): both weights streamed once at memory speed, in two kernels.

Shape legend: M rows, K the summed dimension, N outputs. Weights are the wide operand of the product and the rows its
16 to 64 columns, so a tensor-core instruction is never padded to 128 rows. The down projection splits K over enough
programs to fill the device; the last program of a tile adds the parts up, always in the same order, so that two calls
give the same bits.
"""

# ruff: noqa: ANN001, ANN201, D103, FBT003, PLR0917 - Triton gives arguments their types, and constants go by place
# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, misc"
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from ..recorded import recorded  # noqa: TID252 - in the Hub package it has another parent
from .device_activation import act
from .launch import aligned, cdiv, kind, launch

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Config:
    """Weight tile ``bn`` x ``bk``, pipeline ``stages``, ``warps``, and programs wanted on the device."""

    bn: int
    bk: int
    stages: int
    warps: int
    programs: int = 132


GATE_UP = Config(bn=64, bk=64, stages=4, warps=4)
DOWN = Config(bn=64, bk=128, stages=4, warps=4)


@triton.jit(do_not_specialize=["m"])
def foretrace_gate_up(
    x_ptr, gate_ptr, up_ptr, h_ptr, counters_ptr, m, n, k, x_stride, gate_stride, up_stride, tiles_down,
    ACTIVATION: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, DEPENDENT: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    if DEPENDENT:
        # the down projection may take the multiprocessors that this kernel frees; it waits for the rest before it reads
        gdc_launch_dependents()
    if pid == 0:
        # the down projection counts its arrivals from zero, and runs after this kernel
        for start in range(0, tiles_down, 128):
            tile = start + tl.arange(0, 128)
            tl.store(counters_ptr + tile, tl.zeros([128], tl.int32), tile < tiles_down)
    rows = tl.arange(0, BM)
    cols = pid * BN + tl.arange(0, BN)
    ks = tl.arange(0, BK)
    x_ptrs = x_ptr + rows[None, :].to(tl.int64) * x_stride + ks[:, None]
    gate_ptrs = gate_ptr + cols[:, None].to(tl.int64) * gate_stride + ks[None, :]
    up_ptrs = up_ptr + cols[:, None].to(tl.int64) * up_stride + ks[None, :]
    gate = tl.zeros([BN, BM], tl.float32)
    up = tl.zeros([BN, BM], tl.float32)
    for k0 in range(0, k, BK):
        inside = k0 + ks < k
        w_mask = (cols < n)[:, None] & inside[None, :]
        x = tl.load(x_ptrs + k0, (rows < m)[None, :] & inside[:, None], other=0.0)
        gate = tl.dot(tl.load(gate_ptrs + k0, w_mask, other=0.0), x, gate)
        up = tl.dot(tl.load(up_ptrs + k0, w_mask, other=0.0), x, up)
    h = (act(gate, ACTIVATION, False) * up).to(h_ptr.dtype.element_ty)
    tl.store(h_ptr + rows[None, :] * n + cols[:, None], h, (rows < m)[None, :] & (cols < n)[:, None])


@triton.jit(do_not_specialize=["m"])
def foretrace_down(
    h_ptr, weight_ptr, out_ptr, parts_ptr, counters_ptr, m, n, k, weight_stride, k_share,
    SPLIT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, DEPENDENT: tl.constexpr,
):  # fmt: skip
    if DEPENDENT:
        gdc_wait()
    tile = tl.program_id(0) // SPLIT
    part = tl.program_id(0) % SPLIT
    rows = tl.arange(0, BM)
    cols = tile * BN + tl.arange(0, BN)
    ks = tl.arange(0, BK)
    h_ptrs = h_ptr + rows[None, :] * k + ks[:, None]
    w_ptrs = weight_ptr + cols[:, None].to(tl.int64) * weight_stride + ks[None, :]
    stop = tl.minimum(k, (part + 1) * k_share)
    acc = tl.zeros([BN, BM], tl.float32)
    for k0 in range(part * k_share, stop, BK):
        inside = k0 + ks < stop
        h = tl.load(h_ptrs + k0, (rows < m)[None, :] & inside[:, None], other=0.0)
        w = tl.load(w_ptrs + k0, (cols < n)[:, None] & inside[None, :], other=0.0)
        acc = tl.dot(w, h, acc)
    mask = (rows < m)[None, :] & (cols < n)[:, None]
    offs = rows[None, :] * n + cols[:, None]
    if SPLIT > 1:
        tl.store(parts_ptr + part * m * n + offs, acc, mask)
        tl.debug_barrier()
        if tl.atomic_add(counters_ptr + tile, 1, sem="acq_rel") != SPLIT - 1:
            return
        acc = tl.zeros([BN, BM], tl.float32)
        for other in range(SPLIT):  # a loop: unrolled, 64 rows spill
            acc += tl.load(parts_ptr + other * m * n + offs, mask, other=0.0, cache_modifier=".cg")
    tl.store(out_ptr + offs, acc.to(out_ptr.dtype.element_ty), mask)


def _split(tiles: int, k: int, config: Config) -> int:
    """How many ways to split ``k``: a power of two that fills the device and leaves each part two steps at least."""
    split = 1
    while split < 16 and tiles * split * 2 <= config.programs and k >= split * 4 * config.bk:  # noqa: PLR2004 - cap
        split *= 2
    return split


def _chains_kernels(device: torch.device) -> bool:
    """Whether a kernel can start before the one ahead of it has ended: NVIDIA, sm_90 and later."""
    return device.type == "cuda" and torch.version.hip is None and torch.cuda.get_device_capability(device)[0] >= 9  # noqa: PLR2004


def forward(
    x_MK: Tensor,
    gate_weight_NK: Tensor,
    up_weight_NK: Tensor,
    down_weight_KN: Tensor,
    activation: str,
    gate_up: Config = GATE_UP,
    down: Config = DOWN,
) -> Tensor:
    """The whole MLP for 1 to 64 rows: ``[M, dim]`` from ``x`` ``[M, dim]``, bf16 or fp16, columns adjacent.

    ``h`` is rounded once on its way between the two kernels, as eager rounds it.
    """
    (m, dim), hidden = x_MK.shape, gate_weight_NK.shape[0]
    bm = max(16, 1 << (m - 1).bit_length())
    tiles = cdiv(dim, down.bn)
    split = _split(tiles, hidden, down)
    k_share = cdiv(cdiv(hidden, split), down.bk) * down.bk
    h = x_MK.new_empty(m, hidden)
    out = x_MK.new_empty(m, dim)
    # the arrival counters share the allocation of the parts
    space = x_MK.new_empty(tiles + (split * m * dim if split > 1 else 0), dtype=torch.float32)
    counters, parts = space[:tiles].view(torch.int32), space[tiles:]
    dependent = _chains_kernels(x_MK.device)
    strides = (x_MK.stride(0), gate_weight_NK.stride(0), up_weight_NK.stride(0), down_weight_KN.stride(0))
    starts = aligned(x_MK, gate_weight_NK, up_weight_NK, down_weight_KN)
    key = (x_MK.dtype, bm, dim, hidden, tuple(map(kind, strides)), starts, gate_up, down, dependent)
    args = (
        x_MK, gate_weight_NK, up_weight_NK, h, counters, m, hidden, dim, *strides[:3], tiles,
        activation, bm, gate_up.bn, gate_up.bk, dependent,
    )  # fmt: skip
    grid = cdiv(hidden, gate_up.bn)
    with recorded("gate_up", x_MK, gate_weight_NK, up_weight_NK):
        launch(
            foretrace_gate_up, (*key, activation), grid, args, num_warps=gate_up.warps, num_stages=gate_up.stages
        )  # fmt: skip
    down_args = (
        h, down_weight_KN, out, parts, counters, m, dim, hidden, strides[3], k_share,
        split, bm, down.bn, down.bk, dependent,
    )  # fmt: skip
    chain = {"launch_pdl": True} if dependent else {}
    grid = tiles * split
    with recorded("down", x_MK, down_weight_KN):
        launch(foretrace_down, key, grid, down_args, num_warps=down.warps, num_stages=down.stages, **chain)
    return out
