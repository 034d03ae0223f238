"""``h = act(x Wg^T) * (x Wu^T)`` on Hopper: one GEMM whose epilogue is the activation and the product.

Shape legend: M rows, K dim, N hidden. A persistent program is one producer warp and two consumer warpgroups. The
producer streams ``[BM, BK]`` of x and ``[BN, BK]`` of each weight through a ring of shared-memory stages; the gate's
rows and the up's land in the two halves of one buffer, so that a single wgmma of width 2 BN reads both weights as
``nn.Linear`` keeps them: nothing is packed.

The epilogue runs one tile late. At the end of a tile a consumer only packs gate and up into 16-bit pairs; the next
tile's products then run in the tensor cores while the same threads work through the packed tile, a slice of columns a
step. So the activation costs no time of its own, and h is computed from the same rounded gate and up that a backward
reads.
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

from .device_activation import act
from .gluon_tiles import SLICES, descriptor, issue, multiprocessors, pack, products, settle, slices, tile_of, unpack
from .launch import cdiv, launch

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Config:
    """Tile ``bm`` x (``bn`` gate + ``bn`` up) columns, ``bk`` deep, ``stages`` buffers, ``group`` tile rows a group."""

    bm: int = 128
    bn: int = 128
    bk: int = 64
    stages: int = 4
    group: int = 16


INFERENCE = Config()
TRAINING = Config()


@gluon.jit
def _produce(x_desc, gate_desc, up_desc, x_bufs, w_bufs, full, empty, m, n, steps, GROUP: gl.constexpr):
    BM: gl.constexpr = x_desc.block_type.shape[0]
    BK: gl.constexpr = x_desc.block_type.shape[1]
    BN: gl.constexpr = gate_desc.block_type.shape[0]
    STAGES: gl.constexpr = x_bufs.shape[0]
    tiles_m = gl.cdiv(m, BM)
    tiles_n = gl.cdiv(n, BN)
    step = 0
    for tile in range(gl.program_id(0), tiles_m * tiles_n, gl.num_programs(0)):
        tile_m, tile_n = tile_of(tile, tiles_m, tiles_n, GROUP)
        for i in range(steps):
            stage = step % STAGES
            mbarrier.wait(empty.index(stage), (step // STAGES & 1) ^ 1)
            bar = full.index(stage)
            mbarrier.expect(bar, x_desc.block_type.nbytes + 2 * gate_desc.block_type.nbytes)
            weights = w_bufs.index(stage)
            tma.async_copy_global_to_shared(x_desc, [tile_m * BM, i * BK], bar, x_bufs.index(stage))
            tma.async_copy_global_to_shared(gate_desc, [tile_n * BN, i * BK], bar, weights.slice(0, BN))
            tma.async_copy_global_to_shared(up_desc, [tile_n * BN, i * BK], bar, weights.slice(BN, BN))
            step += 1


@gluon.jit
def _finish(
    packed, h_desc, g_desc, u_desc, out_bufs, row, col, HALF: gl.constexpr, SAVE: gl.constexpr, ACTIVATION: gl.constexpr
):  # fmt: skip
    """One slice of a packed tile: activation, product, and out through the buffers of the slice before."""
    OUTS: gl.constexpr = 3 if SAVE else 1
    gate, up = unpack(packed, h_desc.dtype)
    h = (act(gate, ACTIVATION, True) * up).to(h_desc.dtype)
    tma.store_wait(0)
    out_bufs.index(HALF * OUTS).store(h)
    if SAVE:
        out_bufs.index(HALF * OUTS + 1).store(gate.to(h_desc.dtype))
        out_bufs.index(HALF * OUTS + 2).store(up.to(h_desc.dtype))
    fence_async_shared()
    tma.async_copy_shared_to_global(h_desc, [row, col], out_bufs.index(HALF * OUTS))
    if SAVE:
        tma.async_copy_shared_to_global(g_desc, [row, col], out_bufs.index(HALF * OUTS + 1))
        tma.async_copy_shared_to_global(u_desc, [row, col], out_bufs.index(HALF * OUTS + 2))


@gluon.jit
def _consume(
    h_desc, g_desc, u_desc, x_bufs, w_bufs, out_bufs, full, empty, lead, m, n, steps,
    HALF: gl.constexpr, SAVE: gl.constexpr, ACTIVATION: gl.constexpr, GROUP: gl.constexpr,
):  # fmt: skip
    STAGES: gl.constexpr = x_bufs.shape[0]
    BM: gl.constexpr = x_bufs.shape[1]
    BN: gl.constexpr = w_bufs.shape[1] // 2
    ROWS: gl.constexpr = BM // 2
    COLS: gl.constexpr = BN // SLICES
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 2 * BN, 16])
    tiles_m = gl.cdiv(m, BM)
    tiles_n = gl.cdiv(n, BN)
    acc = gl.zeros([ROWS, 2 * BN], gl.float32, layout)
    gate, up = acc.reshape([ROWS, 2, BN]).permute((0, 2, 1)).split()
    p0, p1, p2, p3 = slices(pack(gate, up, h_desc.dtype))
    # before the first tile there is none to finish: its stores lie below the last row, where TMA drops them
    row = tiles_m * BM
    col = 0
    step = 0
    turn = 0
    for tile in range(gl.program_id(0), tiles_m * tiles_n, gl.num_programs(0)):
        i = 0
        for part in range(SLICES):
            stop = steps * (part + 1) // SLICES
            # the halves finish slices at different steps: while one computes, the other feeds the tensor cores
            at = i if HALF == 0 else (i + stop) // 2
            acc, step, i = products(x_bufs, w_bufs, full, empty, acc, step, i, at, HALF, True)
            acc = issue(x_bufs, w_bufs, full, acc, step, i > 0, HALF, True)
            acc = settle(acc, empty, step, i > 0, STAGES)
            _finish(p0, h_desc, g_desc, u_desc, out_bufs, row, col + part * COLS, HALF, SAVE, ACTIVATION)
            p0, p1, p2 = p1, p2, p3
            last = part == SLICES - 1
            if HALF == 0:
                acc, step, i = products(x_bufs, w_bufs, full, empty, acc, step + 1, i + 1, stop, HALF, True)
                mbarrier.arrive(lead.index(0), pred=last)
            else:
                # the other half ends its tile first: while it packs, this half's last products run, and the other way
                before = stop - last.to(gl.int32)
                acc, step, i = products(x_bufs, w_bufs, full, empty, acc, step + 1, i + 1, before, HALF, True)
                mbarrier.wait(lead.index(0), turn & 1, pred=last)
                acc, step, i = products(x_bufs, w_bufs, full, empty, acc, step, i, stop, HALF, True)
        turn += 1  # noqa: SIM113 - Triton has no enumerate
        tile_m, tile_n = tile_of(tile, tiles_m, tiles_n, GROUP)
        row = tile_m * BM + HALF * ROWS
        col = tile_n * BN
        acc = warpgroup_mma_wait(0, deps=(acc,))
        mbarrier.arrive(empty.index((step + STAGES - 1) % STAGES))
        gate, up = acc.reshape([ROWS, 2, BN]).permute((0, 2, 1)).split()
        p0, p1, p2, p3 = slices(pack(gate, up, h_desc.dtype))
    for part in range(SLICES):
        _finish(p0, h_desc, g_desc, u_desc, out_bufs, row, col + part * COLS, HALF, SAVE, ACTIVATION)
        p0, p1, p2 = p1, p2, p3
    tma.store_wait(0)


@gluon.jit(do_not_specialize=["m"])
def foretrace_gated_forward(  # noqa: D103 - see the module
    x_desc, gate_desc, up_desc, h_desc, g_desc, u_desc, m, n, steps,
    SAVE: gl.constexpr, ACTIVATION: gl.constexpr, STAGES: gl.constexpr, GROUP: gl.constexpr,
):  # fmt: skip
    BM: gl.constexpr = x_desc.block_type.shape[0]
    BK: gl.constexpr = x_desc.block_type.shape[1]
    BN: gl.constexpr = gate_desc.block_type.shape[0]
    OUTS: gl.constexpr = 6 if SAVE else 2
    dtype: gl.constexpr = x_desc.dtype
    x_bufs = gl.allocate_shared_memory(dtype, [STAGES, BM, BK], x_desc.layout)
    w_bufs = gl.allocate_shared_memory(dtype, [STAGES, 2 * BN, BK], gate_desc.layout)
    out_bufs = gl.allocate_shared_memory(dtype, [OUTS] + h_desc.block_type.shape, h_desc.layout)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    lead = gl.allocate_shared_memory(gl.int64, [1, 1], mbarrier.MBarrierLayout())
    mbarrier.init(lead.index(0), count=1)
    for i in gl.static_range(STAGES):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(empty.index(i), count=2)
    fence_async_shared()
    gl.warp_specialize(
        [
            (_consume, (h_desc, g_desc, u_desc, x_bufs, w_bufs, out_bufs, full, empty, lead, m, n, steps,
                        0, SAVE, ACTIVATION, GROUP)),
            (_consume, (h_desc, g_desc, u_desc, x_bufs, w_bufs, out_bufs, full, empty, lead, m, n, steps,
                        1, SAVE, ACTIVATION, GROUP)),
            (_produce, (x_desc, gate_desc, up_desc, x_bufs, w_bufs, full, empty, m, n, steps, GROUP)),
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

    bf16 or fp16, fp32 accumulation; gate and up are rounded once, and ``h``, computed from them, once more, as eager
    does. Every row starts on 16 bytes, columns are adjacent, nothing is empty.
    """
    cfg = config or (TRAINING if saved else INFERENCE)
    (m, k), n = x_MK.shape, h_MN.shape[1]
    g, u = saved or (h_MN, h_MN)
    # blocks beyond K read as zeros, so that even a short product has a step for every slice of the tile before
    steps = max(cdiv(k, cfg.bk), SLICES.value)
    args = (
        descriptor(x_MK, cfg.bm, cfg.bk),
        descriptor(gate_weight_NK, cfg.bn, cfg.bk),
        descriptor(up_weight_NK, cfg.bn, cfg.bk),
        *(descriptor(t, cfg.bm // 2, cfg.bn // SLICES.value) for t in (h_MN, g, u)),
        m, n, steps, saved is not None, activation, cfg.stages, cfg.group,
    )  # fmt: skip
    grid = min(multiprocessors(x_MK.device.index), cdiv(m, cfg.bm) * cdiv(n, cfg.bn))
    launch(foretrace_gated_forward, (x_MK.dtype, n, steps, saved is not None, activation, cfg), grid, args, num_warps=4)
