"""Counters in memory by which the programs of one launch wait for each other."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

_kept: dict[tuple[int, int], Tensor] = {}
_FEWEST_BLOCKS = 1024  # 131,072 rows of the largest call before a stream's are allocated again


@cache
def no_counters(device: int) -> Tensor:
    """What a launch takes that counts nothing: no memory."""
    return torch.empty(0, dtype=torch.int32, device=f"cuda:{device}")


def counters(x: Tensor, blocks: int, *, keep: bool) -> Tensor:
    """Two zeroed counters for each block of rows: a launch leaves them as it found them, so a stream needs one set.

    A CUDA graph takes its own, zeroed at each replay, as it may run beside anything; so does who may not ``keep`` any.

    Args:
        x: Says on which device; the current stream is that of the launch.
        blocks: How many.
        keep: Whether they may stay allocated for the next launch.
    """
    if not keep or torch.cuda.is_current_stream_capturing():
        return x.new_zeros(2 * blocks, dtype=torch.int32)
    size, device = 2 * max(blocks, _FEWEST_BLOCKS), x.device.index
    key = (device, torch._C._cuda_getCurrentRawStream(device))  # noqa: SLF001 - the public one takes 2 µs
    found = _kept.get(key)
    if found is None or found.numel() < size:
        found = _kept[key] = x.new_zeros(size, dtype=torch.int32)
    return found
