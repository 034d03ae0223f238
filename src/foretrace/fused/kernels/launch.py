"""Launching again what is compiled already, without Triton's look-up by arguments.

Triton finds the compiled kernel of a call by inspecting every argument, and checks every global the kernel read; on
the H200's host that took 50 to 110 µs of a call of 250. Here the caller says what the specialization depends on.
"""

# ruff: noqa: ANN401 - kernels and their options have no common type
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from torch import Tensor

_compiled: dict[Hashable, Any] = {}
_initialized: Callable[[], bool] = torch.cuda.is_initialized


def launch(kernel: Any, key: Hashable, grid: int, args: tuple[Any, ...], **options: Any) -> None:
    """Run ``kernel`` on the current device: compiled for ``key`` at most once, by Triton's own way.

    Args:
        kernel: A Triton or Gluon kernel.
        key: Everything that the compiled form depends on beyond kernel and device: dtypes, constexpr arguments,
            ``kind`` of each integer that is specialized, alignment of each pointer.
        grid: Programs, on grid x.
        args: Every argument in order, constexpr ones too.
        options: ``num_warps`` and other compile options, fixed for a ``key``.
    """
    full_key = (kernel, key, torch.cuda.current_device() if _initialized() else -1)
    compiled = _compiled.get(full_key)
    if compiled is not None:
        compiled[grid, 1, 1](*args)
        return
    compiled = kernel[(grid,)](*args, **options)
    if compiled is not None:  # the interpreter compiles nothing
        _compiled[full_key] = compiled


def cdiv(a: int, b: int) -> int:
    """``a / b`` rounded up; Triton's own costs its host 4 µs a call."""
    return -(-a // b)


def kind(value: int) -> tuple[bool, bool, bool]:
    """What Triton's specialization sees of an integer: whether it is 1, a multiple of 16, and fits 32 bits."""
    return value == 1, value % 16 == 0, value < 1 << 31


def aligned(*tensors: Tensor) -> tuple[bool, ...]:
    """Whether each tensor starts on 16 bytes, which is what Triton's specialization sees of a pointer."""
    return tuple([t.data_ptr() % 16 == 0 for t in tensors])
