"""``dH = dY Wd`` on Hopper with the activation's backward as its epilogue: dG, dU and h again, and no dH in memory.

Shape legend: M rows, K dim, N hidden. One warp streams dY and Wd through a ring of stages, another fetches the saved
gate and up, and two consumer warpgroups own half of the tile's rows each. As in the forward, the epilogue runs one
tile late, a slice of columns a step, while the tensor cores work on the next tile. A slice's dG and dU are written
over its gate and up in shared memory and sent from there.
"""

# ruff: noqa: ANN001, ANN201, ANN202, FBT003, PLR0917, RUF005 - Triton types arguments, goes by place, has no star
# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, misc"
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

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
from .gluon_tiles import SLICES, descriptor, multiprocessors, slices, tile_of
from .launch import cdiv, launch

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Config:
    """Tile ``bm`` x ``bn``, ``bk`` deep, ``stages`` buffers, ``group`` tile rows a group."""

    bm: int = 128
    bn: int = 128
    bk: int = 32
    stages: int = 9
    group: int = 8


DEFAULT = Config()


@gluon.jit
def _stream(dy_desc, down_desc, dy_bufs, w_bufs, full, empty, m, n, steps, GROUP: gl.constexpr):
    BM: gl.constexpr = dy_desc.block_type.shape[0]
    BK: gl.constexpr = dy_desc.block_type.shape[1]
    BN: gl.constexpr = down_desc.block_type.shape[1]
    STAGES: gl.constexpr = dy_bufs.shape[0]
    tiles_m = gl.cdiv(m, BM)
    tiles_n = gl.cdiv(n, BN)
    step = 0
    for tile in range(gl.program_id(0), tiles_m * tiles_n, gl.num_programs(0)):
        tile_m, tile_n = tile_of(tile, tiles_m, tiles_n, GROUP)
        for i in range(steps):
            stage = step % STAGES
            mbarrier.wait(empty.index(stage), (step // STAGES & 1) ^ 1)
            bar = full.index(stage)
            mbarrier.expect(bar, dy_desc.block_type.nbytes + down_desc.block_type.nbytes)
            tma.async_copy_global_to_shared(dy_desc, [tile_m * BM, i * BK], bar, dy_bufs.index(stage))
            tma.async_copy_global_to_shared(down_desc, [i * BK, tile_n * BN], bar, w_bufs.index(stage))
            step += 1


@gluon.jit
def _fetch_tile(g_desc, u_desc, g_bufs, u_bufs, gu_full, gu_empty, row, col, turn):
    ROWS: gl.constexpr = g_desc.block_type.shape[0]
    COLS: gl.constexpr = g_desc.block_type.shape[1]
    for part in gl.static_range(SLICES):
        for half in gl.static_range(2):
            slot = half * SLICES + part
            bar = gu_full.index(slot)
            mbarrier.wait(gu_empty.index(slot), (turn & 1) ^ 1)
            mbarrier.expect(bar, 2 * g_desc.block_type.nbytes)
            at = [row + half * ROWS, col + part * COLS]
            tma.async_copy_global_to_shared(g_desc, at, bar, g_bufs.index(slot))
            tma.async_copy_global_to_shared(u_desc, at, bar, u_bufs.index(slot))


@gluon.jit
def _fetch(
    g_desc, u_desc, g_bufs, u_bufs, gu_full, gu_empty, m, n, BM: gl.constexpr, BN: gl.constexpr, GROUP: gl.constexpr
):  # fmt: skip
    tiles_m = gl.cdiv(m, BM)
    tiles_n = gl.cdiv(n, BN)
    # what the consumers finish before their first tile: zeros from below the last row
    _fetch_tile(g_desc, u_desc, g_bufs, u_bufs, gu_full, gu_empty, tiles_m * BM, 0, 0)
    turn = 1
    for tile in range(gl.program_id(0), tiles_m * tiles_n, gl.num_programs(0)):
        tile_m, tile_n = tile_of(tile, tiles_m, tiles_n, GROUP)
        _fetch_tile(g_desc, u_desc, g_bufs, u_bufs, gu_full, gu_empty, tile_m * BM, tile_n * BN, turn)
        turn += 1


@gluon.jit
def _issue(dy_bufs, w_bufs, full, acc, step, use_acc, HALF: gl.constexpr):
    STAGES: gl.constexpr = dy_bufs.shape[0]
    ROWS: gl.constexpr = dy_bufs.shape[1] // 2
    stage = step % STAGES
    mbarrier.wait(full.index(stage), step // STAGES & 1)
    dy = dy_bufs.index(stage).slice(HALF * ROWS, ROWS)
    return warpgroup_mma(dy, w_bufs.index(stage), acc, use_acc=use_acc, is_async=True)


@gluon.jit
def _settle(acc, empty, step, started, STAGES: gl.constexpr):
    """Keep one product in flight: the one before has read its stage, which goes back to the producer."""
    acc = warpgroup_mma_wait(1, deps=(acc,))
    mbarrier.arrive(empty.index((step + STAGES - 1) % STAGES), pred=started)
    return acc


@gluon.jit
def _products(dy_bufs, w_bufs, full, empty, acc, step, i, stop, HALF: gl.constexpr):
    """Steps ``i`` to ``stop`` of a tile, ``step`` counting over all tiles."""
    while i < stop:
        acc = _issue(dy_bufs, w_bufs, full, acc, step, i > 0, HALF)
        acc = _settle(acc, empty, step, i > 0, dy_bufs.shape[0])
        step += 1
        i += 1
    return acc, step, i


@gluon.jit
def _finish(
    dh, dg_desc, du_desc, h_desc, g_bufs, u_bufs, h_bufs, gu_full, gu_empty, row, col, turn, part,
    HALF: gl.constexpr, ACTIVATION: gl.constexpr,
):  # fmt: skip
    """One slice of a tile: gradients over gate and up in shared memory, h beside them, and out."""
    slot = HALF * SLICES + part
    g_buf = g_bufs.index(slot)
    u_buf = u_bufs.index(slot)
    h_buf = h_bufs.index(2 * HALF + part % 2)
    mbarrier.wait(gu_full.index(slot), turn & 1)
    up = u_buf.load(dh.type.layout).to(gl.float32)
    value, slope = act_and_slope(g_buf.load(dh.type.layout).to(gl.float32), ACTIVATION, True)
    g_buf.store((dh * up * slope).to(dg_desc.dtype))
    u_buf.store((dh * value).to(du_desc.dtype))
    h_buf.store((value * up).to(h_desc.dtype))
    fence_async_shared()
    tma.async_copy_shared_to_global(dg_desc, [row, col], g_buf)
    tma.async_copy_shared_to_global(du_desc, [row, col], u_buf)
    tma.async_copy_shared_to_global(h_desc, [row, col], h_buf)
    # all but these three have left: the slot of the slice before can be filled again
    tma.store_wait(3)
    mbarrier.arrive(gu_empty.index(HALF * SLICES + (part + SLICES - 1) % SLICES), pred=(turn > 0) | (part > 0))


@gluon.jit
def _consume(
    dg_desc, du_desc, h_desc, dy_bufs, w_bufs, g_bufs, u_bufs, h_bufs, full, empty, gu_full, gu_empty, m, n, steps,
    HALF: gl.constexpr, ACTIVATION: gl.constexpr, GROUP: gl.constexpr,
):  # fmt: skip
    STAGES: gl.constexpr = dy_bufs.shape[0]
    BM: gl.constexpr = dy_bufs.shape[1]
    BN: gl.constexpr = w_bufs.shape[2]
    ROWS: gl.constexpr = BM // 2
    COLS: gl.constexpr = BN // SLICES
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BN, 16])
    tiles_m = gl.cdiv(m, BM)
    tiles_n = gl.cdiv(n, BN)
    acc = gl.zeros([ROWS, BN], gl.float32, layout)
    p0, p1, p2, p3 = slices(acc)
    # before the first tile there is none to finish: its stores lie below the last row, where TMA drops them
    row = tiles_m * BM
    col = 0
    turn = 0
    step = 0
    for tile in range(gl.program_id(0), tiles_m * tiles_n, gl.num_programs(0)):
        i = 0
        for part in range(SLICES):
            stop = steps * (part + 1) // SLICES
            # the halves finish slices at different steps, as in the forward
            at = i if HALF == 0 else (i + stop) // 2
            acc, step, i = _products(dy_bufs, w_bufs, full, empty, acc, step, i, at, HALF)
            acc = _issue(dy_bufs, w_bufs, full, acc, step, i > 0, HALF)
            _finish(p0, dg_desc, du_desc, h_desc, g_bufs, u_bufs, h_bufs, gu_full, gu_empty,
                    row, col + part * COLS, turn, part, HALF, ACTIVATION)  # fmt: skip
            acc = _settle(acc, empty, step, i > 0, STAGES)
            p0, p1, p2 = p1, p2, p3
            acc, step, i = _products(dy_bufs, w_bufs, full, empty, acc, step + 1, i + 1, stop, HALF)
        acc = warpgroup_mma_wait(0, deps=(acc,))
        mbarrier.arrive(empty.index((step + STAGES - 1) % STAGES))
        p0, p1, p2, p3 = slices(acc)
        tile_m, tile_n = tile_of(tile, tiles_m, tiles_n, GROUP)
        row = tile_m * BM + HALF * ROWS
        col = tile_n * BN
        turn += 1
    for part in range(SLICES):
        _finish(p0, dg_desc, du_desc, h_desc, g_bufs, u_bufs, h_bufs, gu_full, gu_empty,
                row, col + part * COLS, turn, part, HALF, ACTIVATION)  # fmt: skip
        p0, p1, p2 = p1, p2, p3
    tma.store_wait(0)


@gluon.jit(do_not_specialize=["m"])
def foretrace_gated_backward(  # noqa: D103 - see the module
    dy_desc, down_desc, g_desc, u_desc, dg_desc, du_desc, h_desc, m, n, steps,
    ACTIVATION: gl.constexpr, STAGES: gl.constexpr, GROUP: gl.constexpr,
):  # fmt: skip
    BM: gl.constexpr = dy_desc.block_type.shape[0]
    BK: gl.constexpr = dy_desc.block_type.shape[1]
    BN: gl.constexpr = down_desc.block_type.shape[1]
    SLOTS: gl.constexpr = 2 * SLICES
    dtype: gl.constexpr = dy_desc.dtype
    dy_bufs = gl.allocate_shared_memory(dtype, [STAGES, BM, BK], dy_desc.layout)
    w_bufs = gl.allocate_shared_memory(dtype, [STAGES, BK, BN], down_desc.layout)
    g_bufs = gl.allocate_shared_memory(dtype, [SLOTS] + g_desc.block_type.shape, g_desc.layout)
    u_bufs = gl.allocate_shared_memory(dtype, [SLOTS] + u_desc.block_type.shape, u_desc.layout)
    h_bufs = gl.allocate_shared_memory(dtype, [4] + h_desc.block_type.shape, h_desc.layout)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    gu_full = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], mbarrier.MBarrierLayout())
    gu_empty = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(STAGES):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(empty.index(i), count=2)
    for i in gl.static_range(SLOTS):
        mbarrier.init(gu_full.index(i), count=1)
        mbarrier.init(gu_empty.index(i), count=1)
    fence_async_shared()
    gl.warp_specialize(
        [
            (_consume, (dg_desc, du_desc, h_desc, dy_bufs, w_bufs, g_bufs, u_bufs, h_bufs, full, empty, gu_full,
                        gu_empty, m, n, steps, 0, ACTIVATION, GROUP)),
            (_consume, (dg_desc, du_desc, h_desc, dy_bufs, w_bufs, g_bufs, u_bufs, h_bufs, full, empty, gu_full,
                        gu_empty, m, n, steps, 1, ACTIVATION, GROUP)),
            (_stream, (dy_desc, down_desc, dy_bufs, w_bufs, full, empty, m, n, steps, GROUP)),
            (_fetch, (g_desc, u_desc, g_bufs, u_bufs, gu_full, gu_empty, m, n, BM, BN, GROUP)),
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
    steps = max(cdiv(k, cfg.bk), SLICES.value)
    tensors = (gate_MN, up_MN, dgate_MN, dup_MN, h_MN)
    args = (
        descriptor(dy_MK, cfg.bm, cfg.bk),
        descriptor(down_weight_KN, cfg.bk, cfg.bn),
        *(descriptor(t, cfg.bm // 2, cfg.bn // SLICES.value) for t in tensors),
        m, n, steps, activation, cfg.stages, cfg.group,
    )  # fmt: skip
    grid = min(multiprocessors(dy_MK.device.index), cdiv(m, cfg.bm) * cdiv(n, cfg.bn))
    launch(foretrace_gated_backward, (dy_MK.dtype, n, steps, activation, cfg), grid, args, num_warps=4)
