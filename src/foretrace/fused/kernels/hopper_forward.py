"""The forward of a gated MLP on Hopper: ``h = act(x Wg^T) * (x Wu^T)``, and with enough rows ``y = h Wd^T`` as well.

Shape legend: M rows, K dim, N hidden. A persistent program is one warp that loads, two warpgroups that compute, and a
warp for each of them that stores. The loader streams ``[TILE, BK]`` of x and of each weight through a ring of
shared-memory stages; the gate's rows and the up's land in the two halves of one buffer, so that a single wgmma of width
2 TILE reads both weights as ``nn.Linear`` keeps them: nothing is packed.

The epilogue runs one tile late. At the end of a tile a consumer only packs gate and up into 16-bit pairs; the next
tile's products then run in the tensor cores while the same threads work through the packed tile, a slice of columns a
step. So the activation costs no time of its own, and h is computed from the same rounded gate and up that a backward
reads.

The down projection goes through the same ring, 2 TILE of its columns at a time, by the programs' ``schedule``. Its
tiles wait for h by a counter for each block of rows: a storing warp counts a gated tile once it lies in memory, the
loader waits until all have been counted. Programs wait for each other, so all must run at once: a cooperative launch.
"""

# ruff: noqa: ANN001, ANN201, ANN202, FBT003, PLR0917, RUF005 - Triton types arguments, goes by place, has no star
# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, misc"
from __future__ import annotations

from typing import TYPE_CHECKING

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma_wait,
)

from ..plan import communicates, multiprocessors  # noqa: TID252 - in the Hub package it has another parent
from ..schedule import GROUP, TILE, Schedule  # noqa: TID252 - as above
from .counters import counters, no_counters
from .device_activation import act
from .gluon_tiles import SLICES, descriptor, pack, products, slices, tile_of, unpack
from .launch import cdiv, launch

if TYPE_CHECKING:
    from torch import Tensor

BK = 64
STAGES = 4


@gluon.jit
def _gated_tile(turn, longer, rounds):
    """The number of this program's gated tile in a turn: see ``Schedule``."""
    program = gl.program_id(0)
    programs = gl.num_programs(0)
    rest = rounds * programs + (turn - rounds) * (programs - longer) + program - longer
    return gl.where(turn < rounds, turn * programs + program, rest)


@gluon.jit
def _down_tile(turn, longer):
    """The number of this program's tile of the down projection in a turn, as with ``_gated_tile``."""
    program = gl.program_id(0)
    after = longer + turn * gl.num_programs(0) + program
    return gl.where(program >= longer, after, gl.where(turn == 0, program, after - gl.num_programs(0)))


@gluon.jit
def _idle_turns(longer, down):
    """A turn without products ends the gated tiles, for others may need the last before there is more to compute.

    Programs with one tile of the down projection more have none: their first needs no last gated tile of theirs.
    """
    return gl.where((gl.program_id(0) >= longer) & (down > 0), 1, 0)


@gluon.jit
def _load(
    x_desc, gate_desc, up_desc, hidden_desc, down_desc, counts_ptr, x_bufs, w_bufs, full, empty,
    tiles_m, tiles_n, tiles_d, gated, down, steps, steps_down, longer, rounds, GROUP: gl.constexpr,
):  # fmt: skip
    TILE: gl.constexpr = x_desc.block_type.shape[0]
    BK: gl.constexpr = x_desc.block_type.shape[1]
    STAGES: gl.constexpr = x_bufs.shape[0]
    NBYTES: gl.constexpr = x_desc.block_type.nbytes + 2 * gate_desc.block_type.nbytes
    step = 0
    for turn in range(gated):
        tile_m, tile_n = tile_of(_gated_tile(turn, longer, rounds), tiles_m, tiles_n, GROUP)
        for i in range(steps):
            stage = step % STAGES
            mbarrier.wait(empty.index(stage), (step // STAGES & 1) ^ 1)
            bar = full.index(stage)
            mbarrier.expect(bar, NBYTES)
            weights = w_bufs.index(stage)
            tma.async_copy_global_to_shared(x_desc, [tile_m * TILE, i * BK], bar, x_bufs.index(stage))
            tma.async_copy_global_to_shared(gate_desc, [tile_n * TILE, i * BK], bar, weights.slice(0, TILE))
            tma.async_copy_global_to_shared(up_desc, [tile_n * TILE, i * BK], bar, weights.slice(TILE, TILE))
            step += 1
    for turn in range(down):
        tile = _down_tile(turn, longer)
        tile_m = tile // tiles_d
        col = tile % tiles_d * 2 * TILE
        _wait_for_hidden(counts_ptr + 2 * tile_m, 2 * tiles_n)
        for i in range(steps_down):
            stage = step % STAGES
            mbarrier.wait(empty.index(stage), (step // STAGES & 1) ^ 1)
            bar = full.index(stage)
            mbarrier.expect(bar, NBYTES)
            weights = w_bufs.index(stage)
            tma.async_copy_global_to_shared(hidden_desc, [tile_m * TILE, i * BK], bar, x_bufs.index(stage))
            tma.async_copy_global_to_shared(down_desc, [col, i * BK], bar, weights.slice(0, TILE))
            tma.async_copy_global_to_shared(down_desc, [col + TILE, i * BK], bar, weights.slice(TILE, TILE))
            step += 1
        _leave_hidden(counts_ptr + 2 * tile_m, tiles_d)


@gluon.jit
def _lane():
    """Something for inline assembly to pass through, a number a lane of one warp."""
    return gl.arange(0, 32, gl.BlockedLayout([1], [32], [1], [0]))


@gluon.jit
def _wait_for_hidden(count_ptr, whole):
    """Until all halves of a block's gated tiles lie in memory; TMA's reads stay behind what was seen."""
    while gl.atomic_add(count_ptr, 0, sem="acquire") < whole:
        pass
    gl.inline_asm_elementwise("fence.proxy.async; mov.b32 $0, $1;", "=r,r", [_lane()], gl.int32, is_pure=False, pack=1)


@gluon.jit
def _leave_hidden(count_ptr, readers):
    """The last that has waited for a block's rows leaves zeros for the next launch."""
    if gl.atomic_add(count_ptr + 1, 1, sem="acq_rel") == readers - 1:
        gl.store(count_ptr, 0)
        gl.store(count_ptr + 1, 0)


@gluon.jit
def _count_hidden(count_ptr):
    """One more half of a gated tile lies in memory: written, not only read from shared memory."""
    gl.inline_asm_elementwise(
        "cp.async.bulk.wait_group 0; fence.proxy.async; mov.b32 $0, $1;",
        "=r,r", [_lane()], gl.int32, is_pure=False, pack=1,
    )  # fmt: skip
    gl.thread_barrier()
    gl.atomic_add(count_ptr, 1, sem="release")


@gluon.jit
def _finish(
    packed, out_bufs, out_full, out_empty, part, is_down,
    HALF: gl.constexpr, SAVE: gl.constexpr, ACTIVATION: gl.constexpr, DTYPE: gl.constexpr,
):  # fmt: skip
    """A slice to the storing warp: h, or of the down projection's tile the left half; then up or the right half; gate.

    A tile has an even number of slices, so a slice's own parity is that of the barriers' phases.
    """
    OUTS: gl.constexpr = out_bufs.shape[0] // 2
    gate, up = unpack(packed, DTYPE)
    mbarrier.wait(out_empty.index(HALF), (part & 1) ^ 1)
    if SAVE:
        out_bufs.index(HALF * OUTS).store((act(gate, ACTIVATION, True) * up).to(DTYPE))
        out_bufs.index(HALF * OUTS + 1).store(up.to(DTYPE))
        out_bufs.index(HALF * OUTS + 2).store(gate.to(DTYPE))
    elif is_down:
        out_bufs.index(HALF * OUTS).store(gate.to(DTYPE))
        out_bufs.index(HALF * OUTS + 1).store(up.to(DTYPE))
    else:
        out_bufs.index(HALF * OUTS).store((act(gate, ACTIVATION, True) * up).to(DTYPE))
    fence_async_shared()
    mbarrier.arrive(out_full.index(HALF))


@gluon.jit
def _compute(
    x_bufs, w_bufs, out_bufs, full, empty, out_full, out_empty, lead, gated, down, steps, steps_down, longer,
    HALF: gl.constexpr, SAVE: gl.constexpr, ACTIVATION: gl.constexpr, DTYPE: gl.constexpr,
):  # fmt: skip
    STAGES: gl.constexpr = x_bufs.shape[0]
    ROWS: gl.constexpr = x_bufs.shape[1] // 2
    TILE: gl.constexpr = w_bufs.shape[1] // 2
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 2 * TILE, 16])
    acc = gl.zeros([ROWS, 2 * TILE], gl.float32, layout)
    gate, up = acc.reshape([ROWS, 2, TILE]).permute((0, 2, 1)).split()
    p0, p1, p2, p3 = slices(pack(gate, up, DTYPE))
    step = 0
    ended = 0
    idle = _idle_turns(longer, down)
    for turn in range(gated + idle + down):
        whole = gl.where(turn < gated, steps, gl.where(turn < gated + idle, 0, steps_down))
        span = gl.minimum(whole, steps)
        i = 0
        for part in range(SLICES):
            stop = span * (part + 1) // SLICES
            # the halves finish slices at different steps: while one computes, the other feeds the tensor cores
            first = gl.minimum(1 + (i if HALF == 0 else (i + stop) // 2), stop)
            acc, step, i = products(x_bufs, w_bufs, full, empty, acc, step, i, first, HALF, True)
            _finish(p0, out_bufs, out_full, out_empty, part, turn > gated + idle, HALF, SAVE, ACTIVATION, DTYPE)
            p0, p1, p2 = p1, p2, p3
            last = (part == SLICES - 1) & (whole > 0)
            if HALF == 0:
                acc, step, i = products(x_bufs, w_bufs, full, empty, acc, step, i, stop, HALF, True)
                mbarrier.arrive(lead.index(0), pred=last)
            else:
                # the other half ends its tile first: while it packs, this half's last products run, and the other way
                before = stop - last.to(gl.int32)
                acc, step, i = products(x_bufs, w_bufs, full, empty, acc, step, i, before, HALF, True)
                mbarrier.wait(lead.index(0), ended & 1, pred=last)
                acc, step, i = products(x_bufs, w_bufs, full, empty, acc, step, i, stop, HALF, True)
        acc, step, i = products(x_bufs, w_bufs, full, empty, acc, step, i, whole, HALF, True)
        ended += (whole > 0).to(gl.int32)
        acc = warpgroup_mma_wait(0, deps=(acc,))
        mbarrier.arrive(empty.index((step + STAGES - 1) % STAGES), pred=whole > 0)
        gate, up = acc.reshape([ROWS, 2, TILE]).permute((0, 2, 1)).split()
        p0, p1, p2, p3 = slices(pack(gate, up, DTYPE))
    for part in range(SLICES):
        _finish(p0, out_bufs, out_full, out_empty, part, down > 0, HALF, SAVE, ACTIVATION, DTYPE)
        p0, p1, p2 = p1, p2, p3


@gluon.jit
def _store(
    h_desc, g_desc, u_desc, y_desc, counts_ptr, out_bufs, out_full, out_empty,
    tiles_m, tiles_n, tiles_d, gated, down, longer, rounds, GROUP: gl.constexpr, HALF: gl.constexpr, SAVE: gl.constexpr,
):  # fmt: skip
    ROWS: gl.constexpr = h_desc.block_type.shape[0]
    COLS: gl.constexpr = h_desc.block_type.shape[1]
    TILE: gl.constexpr = 2 * ROWS
    OUTS: gl.constexpr = out_bufs.shape[0] // 2
    idle = _idle_turns(longer, down)
    for turn in range(-1, gated + idle + down):
        is_down = turn >= gated + idle
        mine = gl.minimum(gl.maximum(turn, 0), gated - 1)
        tile_m, tile_n = tile_of(_gated_tile(mine, longer, rounds), tiles_m, tiles_n, GROUP)
        col = tile_n * TILE
        if is_down:
            tile = _down_tile(turn - gated - idle, longer)
            tile_m = tile // tiles_d
            col = tile % tiles_d * 2 * TILE
        elif (turn < 0) | (turn >= gated):
            # no tile, before the first and from an idle turn: it lies below the last row, where TMA drops stores
            tile_m = tiles_m
        row = tile_m * TILE + HALF * ROWS
        for part in range(SLICES):
            mbarrier.wait(out_full.index(HALF), part & 1)
            if is_down:
                tma.async_copy_shared_to_global(y_desc, [row, col], out_bufs.index(HALF * OUTS))
                tma.async_copy_shared_to_global(y_desc, [row, col + TILE], out_bufs.index(HALF * OUTS + 1))
            else:
                tma.async_copy_shared_to_global(h_desc, [row, col], out_bufs.index(HALF * OUTS))
                if SAVE:
                    tma.async_copy_shared_to_global(u_desc, [row, col], out_bufs.index(HALF * OUTS + 1))
                    tma.async_copy_shared_to_global(g_desc, [row, col], out_bufs.index(HALF * OUTS + 2))
            tma.store_wait(0)
            mbarrier.arrive(out_empty.index(HALF))
            col += COLS
        if (turn >= 0) & (turn < gated) & (tiles_d > 0):
            _count_hidden(counts_ptr + 2 * tile_m)


@gluon.jit(do_not_specialize=["m", "tiles_n", "tiles_d", "steps", "steps_down", "longer", "rounds"])
def foretrace_gated_forward(  # noqa: D103 - see the module
    x_desc, gate_desc, up_desc, hidden_desc, down_desc, h_desc, g_desc, u_desc, y_desc, counts_ptr,
    m, tiles_n, tiles_d, steps, steps_down, longer, rounds,
    SAVE: gl.constexpr, ACTIVATION: gl.constexpr, STAGES: gl.constexpr, GROUP: gl.constexpr,
):  # fmt: skip
    TILE: gl.constexpr = x_desc.block_type.shape[0]
    BK: gl.constexpr = x_desc.block_type.shape[1]
    OUTS: gl.constexpr = 3 if SAVE else 2
    dtype: gl.constexpr = x_desc.dtype
    x_bufs = gl.allocate_shared_memory(dtype, [STAGES, TILE, BK], x_desc.layout)
    w_bufs = gl.allocate_shared_memory(dtype, [STAGES, 2 * TILE, BK], gate_desc.layout)
    out_bufs = gl.allocate_shared_memory(dtype, [2 * OUTS] + h_desc.block_type.shape, h_desc.layout)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    out_full = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    out_empty = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    lead = gl.allocate_shared_memory(gl.int64, [1, 1], mbarrier.MBarrierLayout())
    mbarrier.init(lead.index(0), count=1)
    for i in gl.static_range(STAGES):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(empty.index(i), count=2)
    for i in gl.static_range(2):
        mbarrier.init(out_full.index(i), count=1)
        mbarrier.init(out_empty.index(i), count=1)
    fence_async_shared()
    program = gl.program_id(0)
    programs = gl.num_programs(0)
    tiles_m = gl.cdiv(m, TILE)
    tiles = tiles_m * tiles_n
    gated = gl.minimum(rounds, gl.cdiv(tiles - program, programs))
    rest = tiles - rounds * programs - (program - longer)
    if (program >= longer) & (rest > 0):
        gated += gl.cdiv(rest, programs - longer)
    down = gl.cdiv(tiles_m * tiles_d - program, programs)
    gl.warp_specialize(
        [
            (_compute, (x_bufs, w_bufs, out_bufs, full, empty, out_full, out_empty, lead, gated, down, steps,
                        steps_down, longer, 0, SAVE, ACTIVATION, dtype)),
            (_compute, (x_bufs, w_bufs, out_bufs, full, empty, out_full, out_empty, lead, gated, down, steps,
                        steps_down, longer, 1, SAVE, ACTIVATION, dtype)),
            (_load, (x_desc, gate_desc, up_desc, hidden_desc, down_desc, counts_ptr, x_bufs, w_bufs, full, empty,
                     tiles_m, tiles_n, tiles_d, gated, down, steps, steps_down, longer, rounds, GROUP)),
            (_store, (h_desc, g_desc, u_desc, y_desc, counts_ptr, out_bufs, out_full, out_empty, tiles_m, tiles_n,
                      tiles_d, gated, down, longer, rounds, GROUP, 0, SAVE)),
            (_store, (h_desc, g_desc, u_desc, y_desc, counts_ptr, out_bufs, out_full, out_empty, tiles_m, tiles_n,
                      tiles_d, gated, down, longer, rounds, GROUP, 1, SAVE)),
        ],
        [4, 1, 1, 1],
        [232, 40, 40, 40],
    )  # fmt: skip


def gated_forward(
    x_MK: Tensor,
    gate_weight_NK: Tensor,
    up_weight_NK: Tensor,
    h_MN: Tensor,
    saved: tuple[Tensor, Tensor] | None,
    activation: str,
) -> None:
    """Write ``h``, and ``x Wg^T`` and ``x Wu^T`` where ``saved`` has room for them.

    bf16 or fp16, fp32 accumulation; gate and up are rounded once, and ``h``, computed from them, once more, as eager
    does. Every row starts on 16 bytes, columns are adjacent, nothing is empty.
    """
    tiles = cdiv(x_MK.shape[0], TILE) * cdiv(h_MN.shape[1], TILE)
    device = x_MK.device.index
    programs = min(multiprocessors(device), tiles)
    order = Schedule(programs, 0, cdiv(tiles, programs))
    # the weights of a down projection that does not run are those of any tensor, and so is y
    none = no_counters(device)
    _launch(x_MK, gate_weight_NK, up_weight_NK, gate_weight_NK, h_MN, saved, h_MN, none, 0, activation, order)


def gated_mlp(
    x_MK: Tensor,
    gate_weight_NK: Tensor,
    up_weight_NK: Tensor,
    down_weight_KN: Tensor,
    activation: str,
    order: Schedule,
    *,
    keep_counters: bool = True,
) -> Tensor:
    """The whole MLP in one kernel: ``y`` ``[M, K]``, with every tensor as ``gated_forward`` wants it.

    Args:
        x_MK: Rows.
        gate_weight_NK: The gate's weight.
        up_weight_NK: The up projection's.
        down_weight_KN: The down projection's.
        activation: One of ``ACTIVATIONS``.
        order: What ``schedule`` says of these sizes and this device.
        keep_counters: Whether the launch's counters may stay allocated for the next.
    """
    (m, k), n = x_MK.shape, gate_weight_NK.shape[0]
    h_MN, y_MK = x_MK.new_empty(m, n), x_MK.new_empty(m, k)
    counts, tiles_d = counters(x_MK, cdiv(m, TILE), keep=keep_counters), k // (2 * TILE)
    _launch(x_MK, gate_weight_NK, up_weight_NK, down_weight_KN, h_MN, None, y_MK, counts, tiles_d, activation, order)
    return y_MK


def _launch(
    x_MK: Tensor, gate_weight_NK: Tensor, up_weight_NK: Tensor, down_weight_KN: Tensor, h_MN: Tensor,
    saved: tuple[Tensor, Tensor] | None, y_MK: Tensor, counts: Tensor, tiles_d: int, activation: str, order: Schedule,
) -> None:  # fmt: skip
    (m, k), n = x_MK.shape, h_MN.shape[1]
    g, u = saved or (h_MN, h_MN)
    # blocks beyond K read as zeros, so that even a short product has a step for every slice of the tile before
    steps, steps_down = (max(cdiv(size, BK), SLICES.value) for size in (k, n))
    args = (
        *(descriptor(t, TILE, BK) for t in (x_MK, gate_weight_NK, up_weight_NK, h_MN, down_weight_KN)),
        *(descriptor(t, TILE // 2, TILE // SLICES.value) for t in (h_MN, g, u, y_MK)),
        counts, m, cdiv(n, TILE), tiles_d, steps, steps_down, order.longer, order.rounds,
        saved is not None, activation, STAGES, GROUP,
    )  # fmt: skip
    # one binary for all sizes; programs that wait for each other must run at once, and others may wait for nobody's end
    alone = saved is None and not communicates()
    key = (x_MK.dtype, saved is not None, activation, alone)
    launch(
        foretrace_gated_forward, key, order.programs, args,
        cooperative=tiles_d > 0, num_warps=4, launch_cooperative_grid=alone,
    )  # fmt: skip
