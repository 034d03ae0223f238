"""What the Hopper kernels share: order of tiles, their products, tiles cut into slices, packed pairs, descriptors."""

# ruff: noqa: ANN001, ANN201 - Triton gives arguments their types, and constants go by place
# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, misc"
from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, warpgroup_mma, warpgroup_mma_wait
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

if TYPE_CHECKING:
    from torch import Tensor

SLICES: tl.constexpr = tl.constexpr(4)
"""A tile's epilogue is cut into this many slices of its columns."""


@gluon.jit
def tile_of(tile, tiles_m, tiles_n, GROUP: gl.constexpr):
    """Tile number to (row, column) of tiles, ``GROUP`` tile rows at a time, so that neighbours share weights in L2."""
    in_group = GROUP * tiles_n
    first = tile // in_group * GROUP
    rows = gl.minimum(tiles_m - first, GROUP)
    return first + tile % in_group % rows, tile % in_group // rows


@gluon.jit
def halves(x):
    """The left and the right half of ``x``'s columns; registers only."""
    ROWS: gl.constexpr = x.shape[0]
    COLS: gl.constexpr = x.shape[1] // 2
    return x.reshape([ROWS, 2, COLS]).permute((0, 2, 1)).split()


@gluon.jit
def slices(x):
    """The four quarters of ``x``'s columns; registers only."""
    left, right = halves(x)
    first, second = halves(left)
    third, fourth = halves(right)
    return first, second, third, fourth


@gluon.jit
def pack(high, low, DTYPE: gl.constexpr):
    """Two fp32 tensors rounded to ``DTYPE`` in one of int32: half the registers, where 16-bit tensors save none."""
    if DTYPE == gl.bfloat16:  # noqa: SIM300 - a type, and no Yoda
        return gl.inline_asm_elementwise(
            "cvt.rn.bf16x2.f32 $0, $1, $2;", "=r,f,f", [high, low], gl.int32, is_pure=True, pack=1
        )
    else:  # noqa: RET505 - Triton takes one return a constexpr branch
        return gl.inline_asm_elementwise(
            "cvt.rn.f16x2.f32 $0, $1, $2;", "=r,f,f", [high, low], gl.int32, is_pure=True, pack=1
        )


@gluon.jit
def unpack(packed, DTYPE: gl.constexpr):
    """The two tensors that ``pack`` took, rounded, as fp32."""
    if DTYPE == gl.bfloat16:  # noqa: SIM300 - a type, and no Yoda
        high = (packed & -65536).to(gl.float32, bitcast=True)
        low = (packed << 16).to(gl.float32, bitcast=True)
    else:
        high = (packed >> 16).to(gl.int16).to(gl.float16, bitcast=True).to(gl.float32)
        low = packed.to(gl.int16).to(gl.float16, bitcast=True).to(gl.float32)
    return high, low


@gluon.jit
def unpack_side(packed, side, DTYPE: gl.constexpr):
    """What ``pack`` took as high (``side`` 0) or as low (1), rounded, as fp32."""
    shifted = packed << 16 * side
    if DTYPE == gl.bfloat16:  # noqa: SIM300 - a type, and no Yoda
        return (shifted & -65536).to(gl.float32, bitcast=True)
    else:  # noqa: RET505 - as above
        return (shifted >> 16).to(gl.int16).to(gl.float16, bitcast=True).to(gl.float32)


@gluon.jit
def issue(x_bufs, w_bufs, full, acc, step, use_acc, HALF: gl.constexpr, TRANSPOSED: gl.constexpr):
    """Start a step's product for half of the tile's rows, once its stage is full; transposed, ``W`` is ``[N, K]``."""
    STAGES: gl.constexpr = x_bufs.shape[0]
    ROWS: gl.constexpr = x_bufs.shape[1] // 2
    stage = step % STAGES
    mbarrier.wait(full.index(stage), step // STAGES & 1)
    x = x_bufs.index(stage).slice(HALF * ROWS, ROWS)
    w = w_bufs.index(stage)
    if TRANSPOSED:
        w = w.permute((1, 0))
    return warpgroup_mma(x, w, acc, use_acc=use_acc, is_async=True)


@gluon.jit
def settle(acc, empty, step, started, STAGES: gl.constexpr):
    """Keep one product in flight: the one before has read its stage, which goes back to the producer."""
    acc = warpgroup_mma_wait(1, deps=(acc,))
    mbarrier.arrive(empty.index((step + STAGES - 1) % STAGES), pred=started)
    return acc


@gluon.jit
def products(x_bufs, w_bufs, full, empty, acc, step, i, stop, HALF: gl.constexpr, TRANSPOSED: gl.constexpr):
    """Steps ``i`` to ``stop`` of a tile, ``step`` counting over all tiles."""
    while i < stop:
        acc = issue(x_bufs, w_bufs, full, acc, step, i > 0, HALF, TRANSPOSED)
        acc = settle(acc, empty, step, i > 0, x_bufs.shape[0])
        step += 1
        i += 1
    return acc, step, i


class Address(NamedTuple):
    """All that a descriptor asks of its tensor; holding the tensor itself would keep it alive in the cache."""

    address: int
    dtype: torch.dtype

    def data_ptr(self) -> int:
        """Where it starts."""
        return self.address


class Descriptor(TensorDescriptor):
    """A TMA descriptor that keeps what a launch takes for it: the encoded map, the shape and the strides."""

    encoded: list[Any] | None = None


def descriptor(tensor: Tensor, rows: int, cols: int) -> Descriptor:
    """A TMA descriptor over a bf16 or fp16 matrix, moving blocks of ``rows`` x ``cols``."""
    height, width = tensor.shape
    # a single row has no next one, and its stride may be anything
    stride = tensor.stride(0) if height > 1 else width
    return describe(tensor.data_ptr(), tensor.dtype, height, width, stride, rows, cols)


@lru_cache(maxsize=4096)
def describe(
    address: int, dtype: torch.dtype, height: int, width: int, stride: int, rows: int, cols: int
) -> Descriptor:
    """A TMA descriptor over ``[height, width]`` elements from ``address`` on, rows ``stride`` elements apart."""
    # building one takes Triton 25 µs of checks
    element = gl.bfloat16 if dtype == torch.bfloat16 else gl.float16
    layout = gl.NVMMASharedLayout.get_default_for([rows, cols], element)
    return Descriptor(Address(address, dtype), [height, width], [stride, 1], [rows, cols], layout)
