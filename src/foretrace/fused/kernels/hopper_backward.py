"""``dH = dY Wd`` on Hopper with the activation's backward as its epilogue: dG, dU and h again, and no dH in memory.

Shape legend: M rows, K dim, N hidden. One warp streams dY and Wd through a ring of stages, another fetches the tile's
saved gate and up while the product runs, and two consumer warpgroups own half of the tile's rows each. A consumer
writes dG and dU over its copies of gate and up in shared memory and sends them from there.
"""

# ruff: noqa: ANN001, ANN202 - Triton gives kernel arguments their types
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from .device_activation import act_and_slope
from .gluon_tiles import descriptor, multiprocessors, tile_of

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Config:
    """Tile ``bm`` x ``bn``, ``bk`` deep, ``stages`` buffers, ``group`` tile rows a group."""

    bm: int = 128
    bn: int = 128
    bk: int = 32
    stages: int = 6
    group: int = 8


DEFAULT = Config()


@gluon.jit
def _stream(dy_desc, down_desc, dy_bufs, w_bufs, full, empty, m, n, k, GROUP: gl.constexpr):
    BM: gl.constexpr = dy_desc.block_type.shape[0]
    BK: gl.constexpr = dy_desc.block_type.shape[1]
    BN: gl.constexpr = down_desc.block_type.shape[1]
    STAGES: gl.constexpr = dy_bufs.shape[0]
    tiles_m = gl.cdiv(m, BM)
    tiles_n = gl.cdiv(n, BN)
    step = 0
    for tile in range(gl.program_id(0), tiles_m * tiles_n, gl.num_programs(0)):
        tile_m, tile_n = tile_of(tile, tiles_m, tiles_n, GROUP)
        for k0 in range(0, k, BK):
            stage = step % STAGES
            mbarrier.wait(empty.index(stage), (step // STAGES & 1) ^ 1)
            bar = full.index(stage)
            mbarrier.expect(bar, dy_desc.block_type.nbytes + down_desc.block_type.nbytes)
            tma.async_copy_global_to_shared(dy_desc, [tile_m * BM, k0], bar, dy_bufs.index(stage))
            tma.async_copy_global_to_shared(down_desc, [k0, tile_n * BN], bar, w_bufs.index(stage))
            step += 1


@gluon.jit
def _fetch(g_desc, u_desc, g_bufs, u_bufs, gu_full, gu_empty, m, n, BM: gl.constexpr, GROUP: gl.constexpr):
    ROWS: gl.constexpr = g_desc.block_type.shape[0]
    COLS: gl.constexpr = g_desc.block_type.shape[1]
    BN: gl.constexpr = 2 * COLS
    tiles_m = gl.cdiv(m, BM)
    tiles_n = gl.cdiv(n, BN)
    turn = 0
    for tile in range(gl.program_id(0), tiles_m * tiles_n, gl.num_programs(0)):
        tile_m, tile_n = tile_of(tile, tiles_m, tiles_n, GROUP)
        for half in gl.static_range(2):
            row = tile_m * BM + half * ROWS
            bar = gu_full.index(half)
            mbarrier.wait(gu_empty.index(half), (turn & 1) ^ 1)
            mbarrier.expect(bar, 4 * g_desc.block_type.nbytes)
            for side in gl.static_range(2):
                col = tile_n * BN + side * COLS
                tma.async_copy_global_to_shared(g_desc, [row, col], bar, g_bufs.index(2 * half + side))
                tma.async_copy_global_to_shared(u_desc, [row, col], bar, u_bufs.index(2 * half + side))
        turn += 1


@gluon.jit
def _consume(
    dg_desc, du_desc, h_desc, dy_bufs, w_bufs, g_bufs, u_bufs, h_bufs, full, empty, gu_full, gu_empty, lead, m, n, k,
    HALF: gl.constexpr, ACTIVATION: gl.constexpr, GROUP: gl.constexpr,
):  # fmt: skip
    STAGES: gl.constexpr = dy_bufs.shape[0]
    BM: gl.constexpr = dy_bufs.shape[1]
    BK: gl.constexpr = dy_bufs.shape[2]
    BN: gl.constexpr = w_bufs.shape[2]
    ROWS: gl.constexpr = BM // 2
    COLS: gl.constexpr = BN // 2
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BN, 16])
    tiles_m = gl.cdiv(m, BM)
    tiles_n = gl.cdiv(n, BN)
    turn = 0
    step = 0
    acc = gl.zeros([ROWS, BN], gl.float32, layout)
    head_start = gl.minimum(STAGES, gl.cdiv(k, BK)) - 1
    # the first half starts ahead, as in the forward
    if HALF == 1:
        mbarrier.wait(lead, 0)
    for tile in range(gl.program_id(0), tiles_m * tiles_n, gl.num_programs(0)):
        tile_m, tile_n = tile_of(tile, tiles_m, tiles_n, GROUP)
        for k0 in range(0, k, BK):
            stage = step % STAGES
            mbarrier.wait(full.index(stage), step // STAGES & 1)
            dy = dy_bufs.index(stage).slice(HALF * ROWS, ROWS)
            acc = warpgroup_mma(dy, w_bufs.index(stage), acc, use_acc=k0 > 0, is_async=True)
            # one product in flight: the one before has read its stage, which goes back to the producer
            acc = warpgroup_mma_wait(1, deps=(acc,))
            mbarrier.arrive(empty.index((step + STAGES - 1) % STAGES), pred=k0 > 0)
            if HALF == 0:
                mbarrier.arrive(lead, pred=step == head_start)
            step += 1
        dh = warpgroup_mma_wait(0, deps=(acc,))
        mbarrier.arrive(empty.index((step + STAGES - 1) % STAGES))
        row = tile_m * BM + HALF * ROWS
        mbarrier.wait(gu_full.index(HALF), turn & 1)
        # in two halves of the columns: all 128 at once spill
        sides = dh.reshape([ROWS, 2, COLS]).permute((0, 2, 1)).split()
        for side in gl.static_range(2):
            dh_side = sides[side]
            col = tile_n * BN + side * COLS
            g_buf = g_bufs.index(2 * HALF + side)
            u_buf = u_bufs.index(2 * HALF + side)
            h_buf = h_bufs.index(2 * HALF + side)
            up = u_buf.load(dh_side.type.layout).to(gl.float32)
            value, slope = act_and_slope(g_buf.load(dh_side.type.layout).to(gl.float32), ACTIVATION, True)
            g_buf.store((dh_side * up * slope).to(dg_desc.dtype))
            u_buf.store((dh_side * value).to(du_desc.dtype))
            h_buf.store((value * up).to(h_desc.dtype))
            fence_async_shared()
            tma.async_copy_shared_to_global(dg_desc, [row, col], g_buf)
            tma.async_copy_shared_to_global(du_desc, [row, col], u_buf)
            tma.async_copy_shared_to_global(h_desc, [row, col], h_buf)
        tma.store_wait(0)
        mbarrier.arrive(gu_empty.index(HALF))
        turn += 1


@gluon.jit(do_not_specialize=["m"])
def gated_backward_kernel(
    dy_desc, down_desc, g_desc, u_desc, dg_desc, du_desc, h_desc, m, n, k,
    ACTIVATION: gl.constexpr, STAGES: gl.constexpr, GROUP: gl.constexpr,
):  # fmt: skip
    BM: gl.constexpr = dy_desc.block_type.shape[0]
    BK: gl.constexpr = dy_desc.block_type.shape[1]
    BN: gl.constexpr = down_desc.block_type.shape[1]
    dtype: gl.constexpr = dy_desc.dtype
    dy_bufs = gl.allocate_shared_memory(dtype, [STAGES, BM, BK], dy_desc.layout)
    w_bufs = gl.allocate_shared_memory(dtype, [STAGES, BK, BN], down_desc.layout)
    g_bufs = gl.allocate_shared_memory(dtype, [4, BM // 2, BN // 2], g_desc.layout)
    u_bufs = gl.allocate_shared_memory(dtype, [4, BM // 2, BN // 2], u_desc.layout)
    h_bufs = gl.allocate_shared_memory(dtype, [4, BM // 2, BN // 2], h_desc.layout)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    lead = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    gu_full = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    gu_empty = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(STAGES):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(empty.index(i), count=2)
    mbarrier.init(lead, count=1)
    for i in gl.static_range(2):
        mbarrier.init(gu_full.index(i), count=1)
        mbarrier.init(gu_empty.index(i), count=1)
    fence_async_shared()
    gl.warp_specialize(
        [
            (_consume, (dg_desc, du_desc, h_desc, dy_bufs, w_bufs, g_bufs, u_bufs, h_bufs, full, empty, gu_full,
                        gu_empty, lead, m, n, k, 0, ACTIVATION, GROUP)),
            (_consume, (dg_desc, du_desc, h_desc, dy_bufs, w_bufs, g_bufs, u_bufs, h_bufs, full, empty, gu_full,
                        gu_empty, lead, m, n, k, 1, ACTIVATION, GROUP)),
            (_stream, (dy_desc, down_desc, dy_bufs, w_bufs, full, empty, m, n, k, GROUP)),
            (_fetch, (g_desc, u_desc, g_bufs, u_bufs, gu_full, gu_empty, m, n, BM, GROUP)),
        ],
        [4, 1, 1],
        [232, 40, 40],
    )  # fmt: skip


def gated_backward(
    dy_MK: Tensor,
    down_weight_KN: Tensor,
    gate_MN: Tensor,
    up_MN: Tensor,
    dgate_MN: Tensor,
    dup_MN: Tensor,
    h_MN: Tensor,
    activation: str,
    config: Config = DEFAULT,
) -> None:
    """Write ``dgate``, ``dup`` and ``h = act(gate) * up`` from ``dY`` and the saved gate and up, which are only read.

    bf16 or fp16, fp32 accumulation; every result is rounded once. Every row starts on 16 bytes, columns are adjacent,
    nothing is empty.
    """
    cfg = config
    (m, k), n = dy_MK.shape, gate_MN.shape[1]
    grid = (min(multiprocessors(dy_MK.device.index), triton.cdiv(m, cfg.bm) * triton.cdiv(n, cfg.bn)),)
    gated_backward_kernel[grid](
        descriptor(dy_MK, cfg.bm, cfg.bk),
        descriptor(down_weight_KN, cfg.bk, cfg.bn),
        *(descriptor(t, cfg.bm // 2, cfg.bn // 2) for t in (gate_MN, up_MN, dgate_MN, dup_MN, h_MN)),
        m, n, k,
        ACTIVATION=activation, STAGES=cfg.stages, GROUP=cfg.group, num_warps=4,
    )  # fmt: skip
