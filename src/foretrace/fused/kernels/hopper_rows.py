"""Few rows (1 to 64) on Hopper: both weights streamed once through deep rings, in two kernels that overlap.

Shape legend: M rows, K the summed dimension, N outputs. The weights are the tall operand of each wgmma and the rows
its 16 to 64 columns. One warp streams weights, another the rows; the weights' warp of the second kernel starts as soon
as its program gets a multiprocessor, while the rest of the first kernel still runs, and only the rows' warp waits.
The down projection splits K over enough programs to fill the device; the last program of a tile adds the parts up,
always in the same order, so that two calls give the same bits.
"""

# ruff: noqa: ANN001, ANN201, ANN202, FBT003, PLR0917 - Triton types arguments, goes by place, has no star
# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, misc"
from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from .device_activation import act
from .gluon_tiles import descriptor, multiprocessors
from .launch import cdiv, launch

if TYPE_CHECKING:
    from torch import Tensor

MAX_ROWS = 64


@dataclass(frozen=True, slots=True)
class Config:
    """Weight rows a tile (of gate and of up each), depth of a stage, and bytes of shared memory for the rings."""

    bn: int = 64
    bk: int = 128
    ring_bytes: int = 192 * 1024

    def stages(self, weight_rows: int, rows: int) -> int:
        """How many stages the rings hold; more than 16 only lengthen the start."""
        return min(16, self.ring_bytes // ((weight_rows + rows) * self.bk * 2))


# 128 deep: 51.1, 51.2 and 55.1 µs for 1, 16 and 64 rows of 2048 × 16384 on an H200, against 52.4, 52.4 and 55.2 at 64
GATE_UP = Config()
DOWN = Config()


@gluon.jit
def _stream_rows(x_desc, x_bufs, full, empty, tiles, start, steps, DEPENDENT: gl.constexpr):
    """Blocks ``[BM, BK]`` of the rows: each of ``tiles`` tiles reads the same ``steps`` blocks from ``start`` on."""
    STAGES: gl.constexpr = x_bufs.shape[0]
    BK: gl.constexpr = x_bufs.shape[2]
    if DEPENDENT:
        gdc_wait()
    step = 0
    for _ in range(tiles):
        for i in range(steps):
            stage = step % STAGES
            mbarrier.wait(empty.index(stage), (step // STAGES & 1) ^ 1)
            mbarrier.expect(full.index(stage), x_desc.block_type.nbytes)
            tma.async_copy_global_to_shared(x_desc, [0, (start + i) * BK], full.index(stage), x_bufs.index(stage))
            step += 1


@gluon.jit
def _stream_gate_up(gate_desc, up_desc, w_bufs, full, empty, tiles, steps):
    STAGES: gl.constexpr = w_bufs.shape[0]
    BN: gl.constexpr = gate_desc.block_type.shape[0]
    BK: gl.constexpr = gate_desc.block_type.shape[1]
    step = 0
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        for i in range(steps):
            stage = step % STAGES
            mbarrier.wait(empty.index(stage), (step // STAGES & 1) ^ 1)
            bar = full.index(stage)
            mbarrier.expect(bar, 2 * gate_desc.block_type.nbytes)
            weights = w_bufs.index(stage)
            tma.async_copy_global_to_shared(gate_desc, [tile * BN, i * BK], bar, weights.slice(0, BN))
            tma.async_copy_global_to_shared(up_desc, [tile * BN, i * BK], bar, weights.slice(BN, BN))
            step += 1


@gluon.jit
def _stream_down(down_desc, w_bufs, full, empty, tile, start, steps):
    STAGES: gl.constexpr = w_bufs.shape[0]
    BN: gl.constexpr = down_desc.block_type.shape[0]
    BK: gl.constexpr = down_desc.block_type.shape[1]
    for step in range(steps):
        stage = step % STAGES
        mbarrier.wait(empty.index(stage), (step // STAGES & 1) ^ 1)
        mbarrier.expect(full.index(stage), down_desc.block_type.nbytes)
        at = [tile * BN, (start + step) * BK]
        tma.async_copy_global_to_shared(down_desc, at, full.index(stage), w_bufs.index(stage))


@gluon.jit
def _product(w_bufs, x_bufs, full, empty, acc, step, steps):
    """``W x^T`` over ``steps`` stages from ``step`` on, in ``acc``'s registers."""
    STAGES: gl.constexpr = w_bufs.shape[0]
    for i in range(steps):
        stage = step % STAGES
        mbarrier.wait(full.index(stage), step // STAGES & 1)
        x = x_bufs.index(stage).permute((1, 0))
        acc = warpgroup_mma(w_bufs.index(stage), x, acc, use_acc=i > 0, is_async=True)
        acc = warpgroup_mma_wait(1, deps=(acc,))
        mbarrier.arrive(empty.index((step + STAGES - 1) % STAGES), pred=i > 0)
        step += 1
    acc = warpgroup_mma_wait(0, deps=(acc,))
    mbarrier.arrive(empty.index((step + STAGES - 1) % STAGES))
    return acc, step


@gluon.jit
def _consume_gate_up(h_ptr, w_bufs, x_bufs, full, empty, m, n, tiles, steps, ACTIVATION: gl.constexpr):
    BN: gl.constexpr = w_bufs.shape[1] // 2
    BM: gl.constexpr = x_bufs.shape[1]
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BM, 16])
    out: gl.constexpr = gl.BlockedLayout([8, 1], [8, 4], [1, 4], [0, 1])
    acc = gl.zeros([2 * BN, BM], gl.float32, layout)
    step = 0
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        acc, step = _product(w_bufs, x_bufs, full, empty, acc, step, steps)
        gate, up = acc.reshape([2, BN, BM]).permute((1, 2, 0)).split()
        h = gl.convert_layout((act(gate, ACTIVATION, True) * up).to(h_ptr.dtype.element_ty), out)
        cols = tile * BN + gl.arange(0, BN, gl.SliceLayout(1, out))
        rows = gl.arange(0, BM, gl.SliceLayout(0, out))
        gl.store(h_ptr + rows[None, :] * n + cols[:, None], h, (rows < m)[None, :] & (cols < n)[:, None])


@gluon.jit(do_not_specialize=["m"])
def foretrace_gate_up_tma(  # noqa: D103 - see the module
    x_desc, gate_desc, up_desc, h_ptr, counters_ptr, m, n, steps, tiles_down,
    ACTIVATION: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    gdc_launch_dependents()
    BM: gl.constexpr = x_desc.block_type.shape[0]
    BN: gl.constexpr = gate_desc.block_type.shape[0]
    BK: gl.constexpr = gate_desc.block_type.shape[1]
    if gl.program_id(0) == 0:
        # the down projection counts its arrivals from zero, and counts after this kernel
        flat: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
        for start in range(0, tiles_down, 128):
            tile = start + gl.arange(0, 128, flat)
            gl.store(counters_ptr + tile, gl.zeros([128], gl.int32, flat), tile < tiles_down)
    w_bufs = gl.allocate_shared_memory(x_desc.dtype, [STAGES, 2 * BN, BK], gate_desc.layout)
    x_bufs = gl.allocate_shared_memory(x_desc.dtype, [STAGES, BM, BK], x_desc.layout)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(STAGES):
        mbarrier.init(full.index(i), count=2)
        mbarrier.init(empty.index(i), count=1)
    fence_async_shared()
    tiles = gl.cdiv(n, BN)
    mine = gl.cdiv(tiles - gl.program_id(0), gl.num_programs(0))
    gl.warp_specialize(
        [
            (_consume_gate_up, (h_ptr, w_bufs, x_bufs, full, empty, m, n, tiles, steps, ACTIVATION)),
            (_stream_gate_up, (gate_desc, up_desc, w_bufs, full, empty, tiles, steps)),
            (_stream_rows, (x_desc, x_bufs, full, empty, mine, 0, steps, False)),
        ],
        [1, 1],
        [40, 40],
    )


@gluon.jit
def _consume_down(
    out_ptr, parts_ptr, counters_ptr, w_bufs, x_bufs, full, empty, m, n, tile, part, steps, SPLIT: gl.constexpr
):  # fmt: skip
    BN: gl.constexpr = w_bufs.shape[1]
    BM: gl.constexpr = x_bufs.shape[1]
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BM, 16])
    out: gl.constexpr = gl.BlockedLayout([4, 1], [16, 2], [1, 4], [0, 1])
    acc = gl.zeros([BN, BM], gl.float32, layout)
    step = 0
    acc, step = _product(w_bufs, x_bufs, full, empty, acc, step, steps)
    total = gl.convert_layout(acc, out)
    cols = tile * BN + gl.arange(0, BN, gl.SliceLayout(1, out))
    rows = gl.arange(0, BM, gl.SliceLayout(0, out))
    offs = rows[None, :] * n + cols[:, None]
    mask = (rows < m)[None, :] & (cols < n)[:, None]
    if SPLIT == 1:
        gl.store(out_ptr + offs, total.to(out_ptr.dtype.element_ty), mask)
    else:
        gl.store(parts_ptr + part * m * n + offs, total, mask)
        gl.thread_barrier()
        if gl.atomic_add(counters_ptr + tile, 1, sem="acq_rel") == SPLIT - 1:
            total = gl.zeros([BN, BM], gl.float32, out)
            for other in range(SPLIT):
                total += gl.load(parts_ptr + other * m * n + offs, mask, other=0.0, cache_modifier=".cg")
            gl.store(out_ptr + offs, total.to(out_ptr.dtype.element_ty), mask)


@gluon.jit(do_not_specialize=["m"])
def foretrace_down_tma(  # noqa: D103 - see the module
    h_desc, down_desc, out_ptr, parts_ptr, counters_ptr, m, n, steps, share, SPLIT: gl.constexpr, STAGES: gl.constexpr
):  # fmt: skip
    BM: gl.constexpr = h_desc.block_type.shape[0]
    BN: gl.constexpr = down_desc.block_type.shape[0]
    BK: gl.constexpr = down_desc.block_type.shape[1]
    w_bufs = gl.allocate_shared_memory(h_desc.dtype, [STAGES, BN, BK], down_desc.layout)
    x_bufs = gl.allocate_shared_memory(h_desc.dtype, [STAGES, BM, BK], h_desc.layout)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(STAGES):
        mbarrier.init(full.index(i), count=2)
        mbarrier.init(empty.index(i), count=1)
    fence_async_shared()
    tile = gl.program_id(0) // SPLIT
    part = gl.program_id(0) % SPLIT
    start = part * share
    mine = gl.minimum(share, steps - start)
    gl.warp_specialize(
        [
            (_consume_down, (out_ptr, parts_ptr, counters_ptr, w_bufs, x_bufs, full, empty, m, n, tile, part, mine,
                             SPLIT)),
            (_stream_down, (down_desc, w_bufs, full, empty, tile, start, mine)),
            (_stream_rows, (h_desc, x_bufs, full, empty, 1, start, mine, True)),
        ],
        [1, 1],
        [40, 40],
    )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class _Shape:
    """What follows from the sizes alone; equal only to itself, so that it can stand for them in a key."""

    bm: int
    steps_up: int
    stages_up: int
    programs_up: int
    tiles: int
    split: int
    share: int
    steps_down: int
    stages_down: int


@lru_cache(maxsize=1024)
def _shape(bm: int, dim: int, hidden: int, device: int, gate_up: Config, down: Config) -> _Shape:
    programs = multiprocessors(device)
    tiles, steps = cdiv(dim, down.bn), cdiv(hidden, down.bk)
    # a power of two that fills the device; every part keeps four steps
    split = 1
    while split < 16 and tiles * split * 2 <= programs and steps >= split * 8:  # noqa: PLR2004 - caps
        split *= 2
    share = cdiv(steps, split)
    return _Shape(
        bm=bm,
        steps_up=cdiv(dim, gate_up.bk),
        stages_up=gate_up.stages(2 * gate_up.bn, bm),
        programs_up=min(programs, cdiv(hidden, gate_up.bn)),
        tiles=tiles,
        split=cdiv(steps, share),
        share=share,
        steps_down=steps,
        stages_down=down.stages(down.bn, bm),
    )


def forward(
    x_MK: Tensor,
    gate_weight_NK: Tensor,
    up_weight_NK: Tensor,
    down_weight_KN: Tensor,
    activation: str,
    gate_up: Config = GATE_UP,
    down: Config = DOWN,
) -> Tensor:
    """The whole MLP for 1 to 64 rows: ``[M, dim]`` from ``x`` ``[M, dim]``, bf16 or fp16.

    ``h`` is rounded once on its way between the two kernels, as eager rounds it. Every row starts on 16 bytes, columns
    are adjacent, nothing is empty.
    """
    (m, dim), hidden = x_MK.shape, gate_weight_NK.shape[0]
    bm = max(16, 1 << (m - 1).bit_length())
    c = _shape(bm, dim, hidden, x_MK.device.index, gate_up, down)
    h, out = x_MK.new_empty(m, hidden), x_MK.new_empty(m, dim)
    # the arrival counters share the allocation of the parts
    space = x_MK.new_empty(c.tiles + (c.split * m * dim if c.split > 1 else 0), dtype=torch.float32)
    counters, parts = space[: c.tiles].view(torch.int32), space[c.tiles :]
    args = (
        descriptor(x_MK, bm, gate_up.bk),
        descriptor(gate_weight_NK, gate_up.bn, gate_up.bk),
        descriptor(up_weight_NK, gate_up.bn, gate_up.bk),
        h, counters, m, hidden, c.steps_up, c.tiles, activation, c.stages_up,
    )  # fmt: skip
    launch(foretrace_gate_up_tma, (c, x_MK.dtype, activation), c.programs_up, args, num_warps=4)
    down_args = (
        descriptor(h, bm, down.bk),
        descriptor(down_weight_KN, down.bn, down.bk),
        out, parts, counters, m, dim, c.steps_down, c.share, c.split, c.stages_down,
    )  # fmt: skip
    launch(foretrace_down_tma, (c, x_MK.dtype), c.tiles * c.split, down_args, num_warps=4, launch_pdl=True)
    return out
