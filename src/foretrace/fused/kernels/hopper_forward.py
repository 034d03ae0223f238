"""``h = act(x Wg^T) * (x Wu^T)`` on Hopper: one GEMM whose epilogue is the activation and the product.

Shape legend: M rows, K dim, N hidden. A persistent program is one producer warp and two consumer warpgroups. The
producer streams ``[BM, BK]`` of x and ``[BN, BK]`` of each weight through a ring of shared-memory stages; the gate's
rows and the up's land in the two halves of one buffer, so that a single wgmma of width 2 BN reads both weights as
``nn.Linear`` keeps them: nothing is packed. Each consumer owns half of the tile's rows and runs its own epilogue; the
other keeps the tensor cores busy meanwhile, as far ahead as the ring allows.
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

from .device_activation import act
from .gluon_tiles import descriptor, multiprocessors, tile_of

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Config:
    """Tile ``bm`` x (``bn`` gate + ``bn`` up) columns, ``bk`` deep, ``stages`` buffers, ``group`` tile rows a group."""

    bm: int = 128
    bn: int = 128
    bk: int = 64
    stages: int = 4
    group: int = 8


INFERENCE = Config()
TRAINING = Config(bk=32, stages=7)


@gluon.jit
def _produce(x_desc, gate_desc, up_desc, x_bufs, w_bufs, full, empty, m, n, k, GROUP: gl.constexpr):
    BM: gl.constexpr = x_desc.block_type.shape[0]
    BK: gl.constexpr = x_desc.block_type.shape[1]
    BN: gl.constexpr = gate_desc.block_type.shape[0]
    STAGES: gl.constexpr = x_bufs.shape[0]
    tiles_m = gl.cdiv(m, BM)
    tiles_n = gl.cdiv(n, BN)
    step = 0
    for tile in range(gl.program_id(0), tiles_m * tiles_n, gl.num_programs(0)):
        tile_m, tile_n = tile_of(tile, tiles_m, tiles_n, GROUP)
        for k0 in range(0, k, BK):
            stage = step % STAGES
            mbarrier.wait(empty.index(stage), (step // STAGES & 1) ^ 1)
            bar = full.index(stage)
            mbarrier.expect(bar, x_desc.block_type.nbytes + 2 * gate_desc.block_type.nbytes)
            weights = w_bufs.index(stage)
            tma.async_copy_global_to_shared(x_desc, [tile_m * BM, k0], bar, x_bufs.index(stage))
            tma.async_copy_global_to_shared(gate_desc, [tile_n * BN, k0], bar, weights.slice(0, BN))
            tma.async_copy_global_to_shared(up_desc, [tile_n * BN, k0], bar, weights.slice(BN, BN))
            step += 1


@gluon.jit
def _consume(
    h_desc, g_desc, u_desc, x_bufs, w_bufs, out_bufs, full, empty, lead, m, n, k,
    HALF: gl.constexpr, SAVE: gl.constexpr, ACTIVATION: gl.constexpr, GROUP: gl.constexpr,
):  # fmt: skip
    STAGES: gl.constexpr = x_bufs.shape[0]
    BM: gl.constexpr = x_bufs.shape[1]
    BK: gl.constexpr = x_bufs.shape[2]
    BN: gl.constexpr = w_bufs.shape[1] // 2
    ROWS: gl.constexpr = BM // 2
    COLS: gl.constexpr = BN // 2
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 2 * BN, 16])
    tiles_m = gl.cdiv(m, BM)
    tiles_n = gl.cdiv(n, BN)
    step = 0
    acc = gl.zeros([ROWS, 2 * BN], gl.float32, layout)
    # the first half starts as many steps ahead as the ring holds, and stays ahead: the halves' epilogues then
    # meet the other's products instead of each other
    head_start = gl.minimum(STAGES, gl.cdiv(k, BK)) - 1
    if HALF == 1:
        mbarrier.wait(lead, 0)
    for tile in range(gl.program_id(0), tiles_m * tiles_n, gl.num_programs(0)):
        tile_m, tile_n = tile_of(tile, tiles_m, tiles_n, GROUP)
        for k0 in range(0, k, BK):
            stage = step % STAGES
            mbarrier.wait(full.index(stage), step // STAGES & 1)
            x = x_bufs.index(stage).slice(HALF * ROWS, ROWS)
            w = w_bufs.index(stage).permute((1, 0))
            acc = warpgroup_mma(x, w, acc, use_acc=k0 > 0, is_async=True)
            # one product in flight: the one before has read its stage, which goes back to the producer
            acc = warpgroup_mma_wait(1, deps=(acc,))
            mbarrier.arrive(empty.index((step + STAGES - 1) % STAGES), pred=k0 > 0)
            if HALF == 0:
                mbarrier.arrive(lead, pred=step == head_start)
            step += 1
        acc = warpgroup_mma_wait(0, deps=(acc,))
        mbarrier.arrive(empty.index((step + STAGES - 1) % STAGES))
        row = tile_m * BM + HALF * ROWS
        gate, up = acc.reshape([ROWS, 2, BN]).permute((0, 2, 1)).split()
        if SAVE:
            # half of the columns at a time: six buffers of a half are what the ring leaves room for
            gates = gate.reshape([ROWS, 2, COLS]).permute((0, 2, 1)).split()
            ups = up.reshape([ROWS, 2, COLS]).permute((0, 2, 1)).split()
            for side in gl.static_range(2):
                h = act(gates[side], ACTIVATION, True) * ups[side]
                tma.store_wait(0)
                out_bufs.index(3 * HALF).store(h.to(h_desc.dtype))
                out_bufs.index(3 * HALF + 1).store(gates[side].to(h_desc.dtype))
                out_bufs.index(3 * HALF + 2).store(ups[side].to(h_desc.dtype))
                fence_async_shared()
                at = [row, tile_n * BN + side * COLS]
                tma.async_copy_shared_to_global(h_desc, at, out_bufs.index(3 * HALF))
                tma.async_copy_shared_to_global(g_desc, at, out_bufs.index(3 * HALF + 1))
                tma.async_copy_shared_to_global(u_desc, at, out_bufs.index(3 * HALF + 2))
        else:
            h = act(gate, ACTIVATION, True) * up
            tma.store_wait(0)
            out_bufs.index(HALF).store(h.to(h_desc.dtype))
            fence_async_shared()
            tma.async_copy_shared_to_global(h_desc, [row, tile_n * BN], out_bufs.index(HALF))
    tma.store_wait(0)


@gluon.jit(do_not_specialize=["m"])
def gated_forward_kernel(
    x_desc, gate_desc, up_desc, h_desc, g_desc, u_desc, m, n, k,
    SAVE: gl.constexpr, ACTIVATION: gl.constexpr, STAGES: gl.constexpr, GROUP: gl.constexpr,
):  # fmt: skip
    BM: gl.constexpr = x_desc.block_type.shape[0]
    BK: gl.constexpr = x_desc.block_type.shape[1]
    BN: gl.constexpr = gate_desc.block_type.shape[0]
    dtype: gl.constexpr = x_desc.dtype
    x_bufs = gl.allocate_shared_memory(dtype, [STAGES, BM, BK], x_desc.layout)
    w_bufs = gl.allocate_shared_memory(dtype, [STAGES, 2 * BN, BK], gate_desc.layout)
    OUTS: gl.constexpr = 6 if SAVE else 2
    out_bufs = gl.allocate_shared_memory(dtype, [OUTS] + h_desc.block_type.shape, h_desc.layout)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    lead = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    for i in gl.static_range(STAGES):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(empty.index(i), count=2)
    mbarrier.init(lead, count=1)
    fence_async_shared()
    gl.warp_specialize(
        [
            (_consume, (h_desc, g_desc, u_desc, x_bufs, w_bufs, out_bufs, full, empty, lead,
                        m, n, k, 0, SAVE, ACTIVATION, GROUP)),
            (_consume, (h_desc, g_desc, u_desc, x_bufs, w_bufs, out_bufs, full, empty, lead,
                        m, n, k, 1, SAVE, ACTIVATION, GROUP)),
            (_produce, (x_desc, gate_desc, up_desc, x_bufs, w_bufs, full, empty, m, n, k, GROUP)),
        ],
        [4, 1],
        [232, 40],
    )  # fmt: skip


def gated_forward(
    x_MK: Tensor,
    gate_weight_NK: Tensor,
    up_weight_NK: Tensor,
    h_MN: Tensor,
    saved: tuple[Tensor, Tensor] | None,
    activation: str,
    config: Config | None = None,
) -> None:
    """Write ``h``, and ``x Wg^T`` and ``x Wu^T`` where ``saved`` has room for them.

    bf16 or fp16, fp32 accumulation; ``h`` is computed from the unrounded products and rounded once. Every row starts
    on 16 bytes, columns are adjacent, nothing is empty.
    """
    cfg = config or (TRAINING if saved else INFERENCE)
    (m, k), n = x_MK.shape, h_MN.shape[1]
    g, u = saved or (h_MN, h_MN)
    grid = (min(multiprocessors(x_MK.device.index), triton.cdiv(m, cfg.bm) * triton.cdiv(n, cfg.bn)),)
    gated_forward_kernel[grid](
        descriptor(x_MK, cfg.bm, cfg.bk),
        descriptor(gate_weight_NK, cfg.bn, cfg.bk),
        descriptor(up_weight_NK, cfg.bn, cfg.bk),
        *(descriptor(t, cfg.bm // 2, cfg.bn // (2 if saved else 1)) for t in (h_MN, g, u)),
        m, n, k,
        SAVE=saved is not None, ACTIVATION=activation, STAGES=cfg.stages, GROUP=cfg.group, num_warps=4,
    )  # fmt: skip
