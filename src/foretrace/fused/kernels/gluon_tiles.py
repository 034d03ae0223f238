"""What the Hopper kernels share: the order of tiles and descriptors."""

# ruff: noqa: ANN001, ANN202 - Triton gives device functions their types
from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

if TYPE_CHECKING:
    from torch import Tensor


@gluon.jit
def tile_of(tile, tiles_m, tiles_n, GROUP: gl.constexpr):
    """Tile number to (row, column) of tiles, ``GROUP`` tile rows at a time, so that neighbours share weights in L2."""
    in_group = GROUP * tiles_n
    first = tile // in_group * GROUP
    rows = gl.minimum(tiles_m - first, GROUP)
    return first + tile % in_group % rows, tile % in_group // rows


def descriptor(tensor: Tensor, rows: int, cols: int) -> TensorDescriptor:
    """A TMA descriptor over a bf16 or fp16 matrix, moving blocks of ``rows`` x ``cols``."""
    dtype = gl.bfloat16 if tensor.dtype == torch.bfloat16 else gl.float16
    layout = gl.NVMMASharedLayout.get_default_for([rows, cols], dtype)
    return TensorDescriptor(tensor, list(tensor.shape), list(tensor.stride()), [rows, cols], layout)


@cache
def multiprocessors(device: int) -> int:
    """How many streaming multiprocessors a CUDA device has: the persistent kernels start one program on each."""
    return int(torch.cuda.get_device_properties(device).multi_processor_count)
