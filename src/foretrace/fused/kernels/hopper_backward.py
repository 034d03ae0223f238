"""``dH = dY Wd`` on Hopper with the activation's backward as its epilogue: dG, dU and h again, and no dH in memory.

Shape legend: M rows, K dim, N hidden. One warp streams dY and Wd through a ring of stages, another fetches the saved
gate and up, and two consumer warpgroups own half of the tile's rows each. As in the forward, the epilogue runs one
tile late, a slice of columns a step, while the tensor cores work on the next tile; until then dH waits in registers,
rounded and packed in pairs. Two more warps store what each warpgroup computed. dG and dU may be written over gate and
up: each element is read before it is written.
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
    warpgroup_mma_wait,
)

from ..plan import multiprocessors  # noqa: TID252 - in the Hub package it has another parent
from .device_activation import act_and_slope
from .gluon_tiles import (
    SLICES,
    descriptor,
    halves,
    issue,
    pack,
    products,
    settle,
    slices,
    tile_of,
    unpack_side,
)
from .launch import cdiv, launch

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Config:
    """Tile ``bm`` x ``bn``, ``bk`` deep in ``stages`` buffers; slices of ``cols``; ``group`` tile rows a group."""

    bm: int = 128
    bn: int = 256
    bk: int = 32
    stages: int = 7
    cols: int = 32
    group: int = 8

    def steps(self, k: int) -> int:
        """Steps of a tile: blocks beyond K read as zeros, so that even a short product has one for every slice."""
        return max(cdiv(k, self.bk), self.bn // self.cols)


# µs on an H200, 8192 rows of 768, 1024, 1536, 2048 (of 16384), 2304 and 4096 features. A narrow slice keeps no half
# waiting for long, so that four stages do, and deeper ones need half the barriers; a short product cannot hide as many.
SHALLOW = Config()  # 104, 150, 271, 922, 531, 1540
DEEP = Config(bk=64, stages=4, cols=16)  # none, 164, 274, 887, 510, 1394
_DEEP_FROM = 2048


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
def _place(number, BN: gl.constexpr, COLS: gl.constexpr):
    """Whether a slice is in the left or right half of its tile (0, 1), and its first column.

    A packed word holds a column of either half: first come all slices of its left one, then those of its right one.
    """
    WORDS: gl.constexpr = BN // (2 * SLICES)
    SUBS: gl.constexpr = WORDS // COLS
    side = number // SUBS % 2
    return side, side * (BN // 2) + number // (2 * SUBS) * WORDS + number % SUBS * COLS


@gluon.jit
def _fetch_tile(g_desc, u_desc, g_bufs, u_bufs, gu_full, gu_empty, row, col, BN: gl.constexpr):
    """A tile's gate and up, slice by slice, each half's through two buffers in turn."""
    ROWS: gl.constexpr = g_desc.block_type.shape[0]
    COLS: gl.constexpr = g_desc.block_type.shape[1]
    # both halves come to a slice at about the same time
    for turn in range(2 * (BN // COLS)):
        number, half = turn // 2, turn % 2
        slot = 2 * half + number % 2
        bar = gu_full.index(slot)
        mbarrier.wait(gu_empty.index(slot), (number // 2 & 1) ^ 1)
        mbarrier.expect(bar, 2 * g_desc.block_type.nbytes)
        _, first = _place(number, BN, COLS)
        at = [row + half * ROWS, col + first]
        tma.async_copy_global_to_shared(g_desc, at, bar, g_bufs.index(slot))
        tma.async_copy_global_to_shared(u_desc, at, bar, u_bufs.index(slot))


@gluon.jit
def _fetch(
    g_desc, u_desc, g_bufs, u_bufs, gu_full, gu_empty, m, n, BM: gl.constexpr, BN: gl.constexpr, GROUP: gl.constexpr
):  # fmt: skip
    tiles_m = gl.cdiv(m, BM)
    tiles_n = gl.cdiv(n, BN)
    # what the consumers finish before their first tile: zeros from below the last row
    _fetch_tile(g_desc, u_desc, g_bufs, u_bufs, gu_full, gu_empty, tiles_m * BM, 0, BN)
    for tile in range(gl.program_id(0), tiles_m * tiles_n, gl.num_programs(0)):
        tile_m, tile_n = tile_of(tile, tiles_m, tiles_n, GROUP)
        _fetch_tile(g_desc, u_desc, g_bufs, u_bufs, gu_full, gu_empty, tile_m * BM, tile_n * BN, BN)


@gluon.jit
def _compute(
    packed, side, START: gl.constexpr, g_buf, u_buf, dg_buf, du_buf, h_buf, ACTIVATION: gl.constexpr
):  # fmt: skip
    """Some columns of a slice, from START on; more at a time would spill registers."""
    COLS: gl.constexpr = packed.shape[1]
    dtype: gl.constexpr = g_buf.dtype
    dh = unpack_side(packed, side, dtype)
    gate = g_buf.slice(START, COLS, dim=1).load(dh.type.layout).to(gl.float32)
    value, slope = act_and_slope(gate, ACTIVATION, True)
    up = u_buf.slice(START, COLS, dim=1).load(dh.type.layout).to(gl.float32)
    dg_buf.slice(START, COLS, dim=1).store((dh * up * slope).to(dtype))
    du_buf.slice(START, COLS, dim=1).store((dh * value).to(dtype))
    h_buf.slice(START, COLS, dim=1).store((value * up).to(dtype))


@gluon.jit
def _finish(
    packed, g_bufs, u_bufs, dg_bufs, du_bufs, h_bufs, gu_full, out_full, out_empty, number, side,
    SUB: gl.constexpr, HALF: gl.constexpr, ACTIVATION: gl.constexpr,
):  # fmt: skip
    """One slice of a tile, once gate and up are there: its gradients and h to the storing warp."""
    COLS: gl.constexpr = g_bufs.shape[2]
    slot = 2 * HALF + number % 2
    g_buf = g_bufs.index(slot)
    u_buf = u_bufs.index(slot)
    dg_buf = dg_bufs.index(HALF)
    du_buf = du_bufs.index(HALF)
    h_buf = h_bufs.index(HALF)
    first, second = halves(packed)
    mbarrier.wait(gu_full.index(slot), number // 2 & 1)
    mbarrier.wait(out_empty.index(HALF), (number & 1) ^ 1)
    if packed.shape[1] == COLS:
        left, right = halves(first)
        _compute(left, side, 0, g_buf, u_buf, dg_buf, du_buf, h_buf, ACTIVATION)
        _compute(right, side, COLS // 4, g_buf, u_buf, dg_buf, du_buf, h_buf, ACTIVATION)
        left, right = halves(second)
        _compute(left, side, COLS // 2, g_buf, u_buf, dg_buf, du_buf, h_buf, ACTIVATION)
        _compute(right, side, COLS // 4 * 3, g_buf, u_buf, dg_buf, du_buf, h_buf, ACTIVATION)
    elif SUB == 0:
        _compute(first, side, 0, g_buf, u_buf, dg_buf, du_buf, h_buf, ACTIVATION)
    else:
        _compute(second, side, 0, g_buf, u_buf, dg_buf, du_buf, h_buf, ACTIVATION)
    fence_async_shared()
    mbarrier.arrive(out_full.index(HALF))


@gluon.jit
def _consume(
    dy_bufs, w_bufs, g_bufs, u_bufs, dg_bufs, du_bufs, h_bufs, full, empty, gu_full, out_full, out_empty,
    tiles, steps, HALF: gl.constexpr, ACTIVATION: gl.constexpr,
):  # fmt: skip
    STAGES: gl.constexpr = dy_bufs.shape[0]
    BM: gl.constexpr = dy_bufs.shape[1]
    BN: gl.constexpr = w_bufs.shape[2]
    ROWS: gl.constexpr = BM // 2
    PARTS: gl.constexpr = BN // g_bufs.shape[2]
    SUBS: gl.constexpr = PARTS // (2 * SLICES)
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BN, 16])
    acc = gl.zeros([ROWS, BN], gl.float32, layout)
    left, right = halves(acc)
    p0, p1, p2, p3 = slices(pack(left, right, h_bufs.dtype))
    step = 0
    for _ in range(tiles):
        i = 0
        for word in range(SLICES):
            for side in range(2):
                for sub in gl.static_range(SUBS):
                    number = (2 * word + side) * SUBS + sub
                    stop = steps * (number + 1) // PARTS
                    # the halves finish slices at different steps, as in the forward
                    at = i if HALF == 0 else (i + stop) // 2
                    acc, step, i = products(dy_bufs, w_bufs, full, empty, acc, step, i, at, HALF, False)
                    acc = issue(dy_bufs, w_bufs, full, acc, step, i > 0, HALF, False)
                    acc = settle(acc, empty, step, i > 0, STAGES)
                    _finish(p0, g_bufs, u_bufs, dg_bufs, du_bufs, h_bufs, gu_full, out_full, out_empty,
                            number, side, sub, HALF, ACTIVATION)  # fmt: skip
                    acc, step, i = products(dy_bufs, w_bufs, full, empty, acc, step + 1, i + 1, stop, HALF, False)
            p0, p1, p2 = p1, p2, p3
        acc = warpgroup_mma_wait(0, deps=(acc,))
        mbarrier.arrive(empty.index((step + STAGES - 1) % STAGES))
        left, right = halves(acc)
        p0, p1, p2, p3 = slices(pack(left, right, h_bufs.dtype))
    for word in range(SLICES):
        for side in range(2):
            for sub in gl.static_range(SUBS):
                number = (2 * word + side) * SUBS + sub
                _finish(p0, g_bufs, u_bufs, dg_bufs, du_bufs, h_bufs, gu_full, out_full, out_empty,
                        number, side, sub, HALF, ACTIVATION)  # fmt: skip
        p0, p1, p2 = p1, p2, p3


@gluon.jit
def _store_tile(
    dg_desc, du_desc, h_desc, dg_bufs, du_bufs, h_bufs, gu_empty, out_full, out_empty, row, col,
    HALF: gl.constexpr, BN: gl.constexpr,
):  # fmt: skip
    COLS: gl.constexpr = h_desc.block_type.shape[1]
    for number in range(BN // COLS):
        mbarrier.wait(out_full.index(HALF), number & 1)
        # every thread has read its share of gate and up: what it computed has been written
        mbarrier.arrive(gu_empty.index(2 * HALF + number % 2))
        _, first = _place(number, BN, COLS)
        at = [row, col + first]
        tma.async_copy_shared_to_global(dg_desc, at, dg_bufs.index(HALF))
        tma.async_copy_shared_to_global(du_desc, at, du_bufs.index(HALF))
        tma.async_copy_shared_to_global(h_desc, at, h_bufs.index(HALF))
        tma.store_wait(0)
        mbarrier.arrive(out_empty.index(HALF))


@gluon.jit
def _store(
    dg_desc, du_desc, h_desc, dg_bufs, du_bufs, h_bufs, gu_empty, out_full, out_empty, m, n,
    HALF: gl.constexpr, BM: gl.constexpr, BN: gl.constexpr, GROUP: gl.constexpr,
):  # fmt: skip
    tiles_m = gl.cdiv(m, BM)
    tiles_n = gl.cdiv(n, BN)
    # before the first tile there was none to finish: it lies below the last row, where TMA drops stores
    _store_tile(dg_desc, du_desc, h_desc, dg_bufs, du_bufs, h_bufs, gu_empty, out_full, out_empty,
                tiles_m * BM, 0, HALF, BN)  # fmt: skip
    for tile in range(gl.program_id(0), tiles_m * tiles_n, gl.num_programs(0)):
        tile_m, tile_n = tile_of(tile, tiles_m, tiles_n, GROUP)
        row = tile_m * BM + HALF * (BM // 2)
        _store_tile(dg_desc, du_desc, h_desc, dg_bufs, du_bufs, h_bufs, gu_empty, out_full, out_empty,
                    row, tile_n * BN, HALF, BN)  # fmt: skip


@gluon.jit(do_not_specialize=["m"])
def foretrace_gated_backward(  # noqa: D103 - see the module
    dy_desc, down_desc, g_desc, u_desc, dg_desc, du_desc, h_desc, m, n, steps,
    ACTIVATION: gl.constexpr, STAGES: gl.constexpr, GROUP: gl.constexpr,
):  # fmt: skip
    BM: gl.constexpr = dy_desc.block_type.shape[0]
    BK: gl.constexpr = dy_desc.block_type.shape[1]
    BN: gl.constexpr = down_desc.block_type.shape[1]
    dtype: gl.constexpr = dy_desc.dtype
    dy_bufs = gl.allocate_shared_memory(dtype, [STAGES, BM, BK], dy_desc.layout)
    w_bufs = gl.allocate_shared_memory(dtype, [STAGES, BK, BN], down_desc.layout)
    g_bufs = gl.allocate_shared_memory(dtype, [4] + g_desc.block_type.shape, g_desc.layout)
    u_bufs = gl.allocate_shared_memory(dtype, [4] + u_desc.block_type.shape, u_desc.layout)
    dg_bufs = gl.allocate_shared_memory(dtype, [2] + dg_desc.block_type.shape, dg_desc.layout)
    du_bufs = gl.allocate_shared_memory(dtype, [2] + du_desc.block_type.shape, du_desc.layout)
    h_bufs = gl.allocate_shared_memory(dtype, [2] + h_desc.block_type.shape, h_desc.layout)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    gu_full = gl.allocate_shared_memory(gl.int64, [4, 1], mbarrier.MBarrierLayout())
    gu_empty = gl.allocate_shared_memory(gl.int64, [4, 1], mbarrier.MBarrierLayout())
    out_full = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    out_empty = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(STAGES):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(empty.index(i), count=2)
    for i in gl.static_range(2):
        mbarrier.init(out_full.index(i), count=1)
        mbarrier.init(out_empty.index(i), count=1)
    for i in gl.static_range(4):
        mbarrier.init(gu_full.index(i), count=1)
        mbarrier.init(gu_empty.index(i), count=1)
    fence_async_shared()
    tiles = gl.cdiv(gl.cdiv(m, BM) * gl.cdiv(n, BN) - gl.program_id(0), gl.num_programs(0))
    gl.warp_specialize(
        [
            (_consume, (dy_bufs, w_bufs, g_bufs, u_bufs, dg_bufs, du_bufs, h_bufs, full, empty, gu_full,
                        out_full, out_empty, tiles, steps, 0, ACTIVATION)),
            (_consume, (dy_bufs, w_bufs, g_bufs, u_bufs, dg_bufs, du_bufs, h_bufs, full, empty, gu_full,
                        out_full, out_empty, tiles, steps, 1, ACTIVATION)),
            (_stream, (dy_desc, down_desc, dy_bufs, w_bufs, full, empty, m, n, steps, GROUP)),
            (_fetch, (g_desc, u_desc, g_bufs, u_bufs, gu_full, gu_empty, m, n, BM, BN, GROUP)),
            (_store, (dg_desc, du_desc, h_desc, dg_bufs, du_bufs, h_bufs, gu_empty, out_full, out_empty, m, n,
                      0, BM, BN, GROUP)),
            (_store, (dg_desc, du_desc, h_desc, dg_bufs, du_bufs, h_bufs, gu_empty, out_full, out_empty, m, n,
                      1, BM, BN, GROUP)),
        ],
        [4, 1, 1, 1, 1],
        [232, 40, 40, 40, 40],
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
    config: Config | None = None,
) -> None:
    """Write ``dgate``, ``dup`` and ``h = act(gate) * up`` from ``dY`` and the saved gate and up, which are only read.

    bf16 or fp16, fp32 accumulation; every result is rounded once. Every row starts on 16 bytes, columns are adjacent,
    nothing is empty.
    """
    (m, k), n = dy_MK.shape, gate_MN.shape[1]
    cfg = config or (DEEP if k >= _DEEP_FROM else SHALLOW)
    steps = cfg.steps(k)
    tensors = (gate_MN, up_MN, dgate_MN, dup_MN, h_MN)
    args = (
        descriptor(dy_MK, cfg.bm, cfg.bk),
        descriptor(down_weight_KN, cfg.bk, cfg.bn),
        *(descriptor(t, cfg.bm // 2, cfg.cols) for t in tensors),
        m, n, steps, activation, cfg.stages, cfg.group,
    )  # fmt: skip
    grid = min(multiprocessors(dy_MK.device.index), cdiv(m, cfg.bm) * cdiv(n, cfg.bn))
    launch(foretrace_gated_backward, (dy_MK.dtype, n, steps, activation, cfg), grid, args, num_warps=4)
