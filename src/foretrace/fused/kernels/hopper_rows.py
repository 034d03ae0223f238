"""Few rows (1 to 64) on Hopper: both weights streamed once through deep rings, in two kernels that overlap.

Shape legend: M rows, K the summed dimension, N outputs. The weights are the tall operand of each wgmma and the rows
its 16 to 64 columns. One warp streams weights, another the rows. Each kernel is launched before the one ahead of it has
ended: the first sets itself up and waits; the second streams its weights as soon as it gets a multiprocessor, while the
rest of the first still runs, and only its rows wait. The down projection splits K over enough programs to fill the
device; the last program of a tile adds the parts up, always in the same order, so that two calls give the same bits.
"""

# ruff: noqa: ANN001, ANN201, ANN202, FBT003 - Triton types arguments, goes by place, has no star
# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, misc"
from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
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
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from ..plan import multiprocessors  # noqa: TID252 - in the Hub package it has another parent
from ..recorded import recorded  # noqa: TID252 - as above
from .device_activation import act
from .gluon_tiles import describe, descriptor
from .launch import cdiv, launch

if TYPE_CHECKING:
    from torch import Tensor

_FEWEST_ROWS = 16  # what a tensor-core product takes at least, in Triton


@dataclass(frozen=True, slots=True)
class Config:
    """Weight rows a tile (of gate and of up each), depth of a stage, and bytes of shared memory for the rings.

    ``stagger`` starts each program elsewhere in the summed dimension, so that not all read the same columns at a time.
    """

    bn: int = 64
    bk: int = 128
    ring_bytes: int = 192 * 1024
    stagger: bool = False

    def stages(self, weight_rows: int, rows: int) -> int:
        """How many stages the rings hold, two at least; more than 16 only lengthen the start."""
        return min(16, max(2, self.ring_bytes // ((weight_rows + rows) * self.bk * 2)))


# 2048 × 16384 on an H200: 128 deep 51.1, 51.2 and 55.1 µs for 1, 16 and 64 rows, 64 deep 52.4, 52.4 and 55.2
DEFAULT = Config()
# 256 deep, three stages of gate and up: 50.0 and 50.6 µs for 1 and 16 rows where 128 deep took 50.6 and 50.8; beyond
# 16 rows only two stages fit
FEWEST = Config(bk=256, ring_bytes=220 * 1024, stagger=True)


@gluon.jit
def _stream_rows(x_desc, x_bufs, full, empty, tiles, start, steps, turn, DEPENDENT: gl.constexpr):
    """Blocks ``[BM, BK]`` of the rows: each of ``tiles`` tiles reads the same ``steps`` blocks from ``start`` on.

    ``turn`` says with which of them it begins.
    """
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
            at = [0, (start + (turn + i) % steps) * BK]
            tma.async_copy_global_to_shared(x_desc, at, full.index(stage), x_bufs.index(stage))
            step += 1


@gluon.jit
def _stream_gate_up(gate_desc, up_desc, w_bufs, full, empty, tiles, steps, turn):
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
            at = [tile * BN, (turn + i) % steps * BK]
            tma.async_copy_global_to_shared(gate_desc, at, bar, weights.slice(0, BN))
            tma.async_copy_global_to_shared(up_desc, at, bar, weights.slice(BN, BN))
            step += 1


@gluon.jit
def _stream_down(down_desc, w_bufs, full, empty, tile, start, steps, turn):
    STAGES: gl.constexpr = w_bufs.shape[0]
    BN: gl.constexpr = down_desc.block_type.shape[0]
    BK: gl.constexpr = down_desc.block_type.shape[1]
    for step in range(steps):
        stage = step % STAGES
        mbarrier.wait(empty.index(stage), (step // STAGES & 1) ^ 1)
        mbarrier.expect(full.index(stage), down_desc.block_type.nbytes)
        at = [tile * BN, (start + (turn + step) % steps) * BK]
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


@gluon.jit
def _counters(scratch_ptr, h_elements):
    """Arrivals at each tile of the down projection, behind h."""
    return (scratch_ptr + h_elements).to(gl.pointer_type(gl.int32), bitcast=True)


@gluon.jit
def _parts(counters_ptr, tiles):
    """The down projection's partial sums in fp32, behind the counters, on 16 bytes."""
    return (counters_ptr + gl.cdiv(tiles, 4) * 4).to(gl.pointer_type(gl.float32), bitcast=True)


@gluon.jit(do_not_specialize=["m"])
def foretrace_gate_up_tma(  # noqa: D103 - see the module
    x_desc, gate_desc, up_desc, scratch_ptr, m, n, steps, tiles_down,
    ACTIVATION: gl.constexpr, STAGES: gl.constexpr, STAGGER: gl.constexpr,
):  # fmt: skip
    BM: gl.constexpr = x_desc.block_type.shape[0]
    BN: gl.constexpr = gate_desc.block_type.shape[0]
    BK: gl.constexpr = gate_desc.block_type.shape[1]
    w_bufs = gl.allocate_shared_memory(x_desc.dtype, [STAGES, 2 * BN, BK], gate_desc.layout)
    x_bufs = gl.allocate_shared_memory(x_desc.dtype, [STAGES, BM, BK], x_desc.layout)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(STAGES):
        mbarrier.init(full.index(i), count=2)
        mbarrier.init(empty.index(i), count=1)
    fence_async_shared()
    # nothing is read or written before the kernel ahead has ended, and the next one may start only then
    gdc_wait()
    gdc_launch_dependents()
    if gl.program_id(0) == 0:
        # the down projection counts its arrivals from zero, and counts after this kernel
        flat: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
        counters_ptr = _counters(scratch_ptr, m * n)
        for start in range(0, tiles_down, 128):
            tile = start + gl.arange(0, 128, flat)
            gl.store(counters_ptr + tile, gl.zeros([128], gl.int32, flat), tile < tiles_down)
    tiles = gl.cdiv(n, BN)
    mine = gl.cdiv(tiles - gl.program_id(0), gl.num_programs(0))
    turn = gl.program_id(0) * STAGGER
    gl.warp_specialize(
        [
            (_consume_gate_up, (scratch_ptr, w_bufs, x_bufs, full, empty, m, n, tiles, steps, ACTIVATION)),
            (_stream_gate_up, (gate_desc, up_desc, w_bufs, full, empty, tiles, steps, turn)),
            (_stream_rows, (x_desc, x_bufs, full, empty, mine, 0, steps, turn, False)),
        ],
        [1, 1],
        [40, 40],
    )


@gluon.jit
def _consume_down(
    out_ptr, counters_ptr, w_bufs, x_bufs, full, empty, m, n, tile, part, steps, SPLIT: gl.constexpr
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
        parts_ptr = _parts(counters_ptr, gl.cdiv(n, BN))
        gl.store(parts_ptr + part * m * n + offs, total, mask)
        gl.thread_barrier()
        if gl.atomic_add(counters_ptr + tile, 1, sem="acq_rel") == SPLIT - 1:
            total = gl.zeros([BN, BM], gl.float32, out)
            for first in range(0, SPLIT, 2):
                for other in gl.static_range(2):  # two loads under way at a time
                    part_ptr = parts_ptr + (first + other) * m * n
                    there = mask & (first + other < SPLIT)
                    total += gl.load(part_ptr + offs, there, other=0.0, cache_modifier=".cg")
            gl.store(out_ptr + offs, total.to(out_ptr.dtype.element_ty), mask)


@gluon.jit(do_not_specialize=["m"])
def foretrace_down_tma(  # noqa: D103 - see the module
    h_desc, down_desc, out_ptr, scratch_ptr, m, n, k, steps, share,
    SPLIT: gl.constexpr, STAGES: gl.constexpr, STAGGER: gl.constexpr,
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
    gdc_launch_dependents()
    tile = gl.program_id(0) // SPLIT
    part = gl.program_id(0) % SPLIT
    start = part * share
    mine = gl.minimum(share, steps - start)
    turn = tile * STAGGER
    gl.warp_specialize(
        [
            (_consume_down, (out_ptr, _counters(scratch_ptr, m * k), w_bufs, x_bufs, full, empty, m, n, tile, part,
                             mine, SPLIT)),
            (_stream_down, (down_desc, w_bufs, full, empty, tile, start, mine, turn)),
            (_stream_rows, (h_desc, x_bufs, full, empty, 1, start, mine, turn, True)),
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
def _shape(bm: int, dim: int, hidden: int, device: int, cfg: Config) -> _Shape:
    programs = multiprocessors(device)
    tiles, steps = cdiv(dim, cfg.bn), cdiv(hidden, cfg.bk)
    # a power of two that fills the device; every part keeps 512 features at least
    split = 1
    while split < 16 and tiles * split * 2 <= programs and hidden >= split * 1024:  # noqa: PLR2004 - caps
        split *= 2
    share = cdiv(steps, split)
    return _Shape(
        bm=bm,
        steps_up=cdiv(dim, cfg.bk),
        stages_up=cfg.stages(2 * cfg.bn, bm),
        programs_up=min(programs, cdiv(hidden, cfg.bn)),
        tiles=tiles,
        split=cdiv(steps, share),
        share=share,
        steps_down=steps,
        stages_down=cfg.stages(cfg.bn, bm),
    )


def forward(
    x_MK: Tensor,
    gate_weight_NK: Tensor,
    up_weight_NK: Tensor,
    down_weight_KN: Tensor,
    activation: str,
    config: Config | None = None,
) -> Tensor:
    """The whole MLP for 1 to 64 rows: ``[M, dim]`` from ``x`` ``[M, dim]``, bf16 or fp16.

    ``h`` is rounded once on its way between the two kernels, as eager rounds it. Every row starts on 16 bytes, columns
    are adjacent, nothing is empty.
    """
    (m, dim), hidden = x_MK.shape, gate_weight_NK.shape[0]
    bm = max(_FEWEST_ROWS, 1 << (m - 1).bit_length())
    cfg = config or (FEWEST if bm == _FEWEST_ROWS else DEFAULT)
    c = _shape(bm, dim, hidden, x_MK.device.index, cfg)
    out = x_MK.new_empty(m, dim)
    # one allocation for h, the arrival counters and the parts: an allocation takes the host 2 µs
    parts = c.split * m * dim if c.split > 1 else 0
    scratch = x_MK.new_empty(m * hidden + 2 * (cdiv(c.tiles, 4) * 4 + parts))
    dtype = x_MK.dtype
    up_args = (
        descriptor(x_MK, bm, cfg.bk),
        descriptor(gate_weight_NK, cfg.bn, cfg.bk),
        descriptor(up_weight_NK, cfg.bn, cfg.bk),
        scratch, m, hidden, c.steps_up, c.tiles, activation, c.stages_up, int(cfg.stagger),
    )  # fmt: skip
    down_args = (
        describe(scratch.data_ptr(), dtype, m, hidden, hidden, bm, cfg.bk),
        descriptor(down_weight_KN, cfg.bn, cfg.bk),
        out, scratch, m, dim, hidden, c.steps_down, c.share, c.split, c.stages_down, int(cfg.stagger),
    )  # fmt: skip
    # one straight after the other: a slow host would launch the second too late to start ahead
    with recorded("gate_up", x_MK, gate_weight_NK, up_weight_NK):
        launch(foretrace_gate_up_tma, (c, dtype, activation), c.programs_up, up_args, num_warps=4, launch_pdl=True)
    with recorded("down", x_MK, down_weight_KN):
        launch(foretrace_down_tma, (c, dtype), c.tiles * c.split, down_args, num_warps=4, launch_pdl=True)
    return out
