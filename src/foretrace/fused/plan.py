"""Which path a shape takes, and why: rules for what a path can serve, measured times for which is fastest."""

from __future__ import annotations

import importlib.util
import os
import re
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch.autograd import forward_ad

from .tuning import table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

    from .weights import Weights


def _triton_version() -> tuple[int, ...]:
    """Of the Triton that is there, from its source: importing it takes 0.3 s; nothing where there is none."""
    spec = importlib.util.find_spec("triton")
    if spec is None or spec.origin is None:
        return ()
    found = re.search(r"__version__ = ['\"](\d+)\.(\d+)", Path(spec.origin).read_text("utf-8", "replace"))
    return tuple(map(int, found.groups())) if found else ()


TRITON = _triton_version()
OLDEST_TRITON = (3, 5)
_TOO_OLD = "the kernels need Triton 3.5 or newer"
HOPPER_TRITON = (3, 6)
"""The one whose Gluon the kernels for Hopper are written in: 3.7 has dropped what they call, 3.9 more."""
_PLAIN_TYPES = (torch.Tensor, torch.nn.Parameter)
KERNEL_DTYPES = (torch.bfloat16, torch.float16, torch.float32)
"""What the kernels compute in."""
MAX_ROWS = 64
"""The most rows that the kernels for few rows serve."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A path and the reason for it, in words.

    ``path`` is ``plain`` (PyTorch's own operators), ``pointwise`` (cuBLAS and one fused pointwise kernel), ``fused``
    (the activation inside the GEMMs, on Hopper), ``portable`` (the same elsewhere, forward only), ``rows`` (weights
    streamed for a few rows) or ``rows_tma`` (the same on Hopper).
    """

    path: str
    why: str


_forced: list[str] = []


@contextmanager
def forced(path: str) -> Iterator[None]:
    """Take ``path`` whatever the table says, to measure or to test it; the caller knows that it can serve the shape."""
    _forced.append(path)
    try:
        yield
    finally:
        _forced.pop()


def runs_kernels(tensors: list[Tensor]) -> bool:
    """Whether Triton can serve these tensors: one CUDA (or ROCm) device, one of bf16, fp16 and fp32 throughout."""
    first = tensors[0]
    if not (first.is_cuda or (first.device.type == "cpu" and interpreting())) or TRITON < OLDEST_TRITON:
        return False
    dtype, device = first.dtype, first.device
    if dtype not in KERNEL_DTYPES:
        return False
    return all([t.dtype == dtype and t.device == device for t in tensors])  # noqa: C419 - half a generator's time


def takes_tangents() -> bool:
    """Whether forward-mode differentiation is going on, of which neither kernels nor operators know."""
    return not torch.compiler.is_compiling() and forward_ad._current_level >= 0  # noqa: SLF001 - no public view


def interpreting() -> bool:
    """Whether Triton interprets kernels on the CPU, as tests do without a GPU."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def unwatched(tensors: list[Tensor]) -> bool:
    """Whether nobody traces: then a plain call saves the operator's way through the dispatcher.

    On the H200's host the operator with its autograd took 1.1 ms longer a training step than a plain autograd function.
    """
    return (
        not torch.compiler.is_compiling()
        and all([type(t) in _PLAIN_TYPES for t in tensors])  # noqa: C419 - half a generator's time
        and torch._C._len_torch_dispatch_stack() == 0  # noqa: SLF001 - modes have no public count
        and torch._C._functorch.maybe_current_level() is None  # noqa: SLF001 - as above
    )


def path_for(x_MK: Tensor, weights: Weights, *, training: bool) -> str:
    """The path that ``choose`` picks for these matrices."""
    if _forced:
        return _forced[-1]
    if x_MK.device.type != "cuda":
        return "pointwise"
    return _choice(x_MK.shape[0], weights, _tma_ready(x_MK), training=training).path


def explain(
    rows: int,
    dim: int,
    hidden: int,
    *,
    training: bool = False,
    dtype: torch.dtype = torch.bfloat16,
    bias: bool = False,
    device: int | None = None,
) -> Choice:
    """Which path a shape takes on a CUDA device, and why; rows are taken to start on 16 bytes where they can.

    Args:
        rows: Rows of x, all leading dimensions together.
        dim: Features of x.
        hidden: Features of gate and up.
        training: Whether a backward will follow.
        dtype: Of x and the weights.
        bias: Whether any projection has a bias.
        device: CUDA device index; the current one if not given.
    """
    if dtype not in KERNEL_DTYPES:
        return Choice("plain", f"no kernel serves {dtype}")
    if device is None and not torch.cuda.is_available():
        return Choice("plain", "there is no CUDA device")
    if TRITON < OLDEST_TRITON:
        return Choice("plain", _TOO_OLD)
    index = torch.cuda.current_device() if device is None else device
    name, hopper = torch.cuda.get_device_properties(index).name, is_hopper(index)
    return _explain(name, rows, dim, hidden, hopper=hopper, training=training, dtype=dtype, bias=bias, triton=TRITON)


def explain_on(
    device_name: str, rows: int, dim: int, hidden: int,
    *, capability: str | None, training: bool, dtype: torch.dtype, bias: bool,
) -> Choice:  # fmt: skip
    """``explain`` for a device that need not be here, by its compute capability, with the Triton that is best there."""
    if dtype not in KERNEL_DTYPES:
        return Choice("plain", f"no kernel serves {dtype}")
    hopper = capability == "9.0"
    return _explain(
        device_name, rows, dim, hidden, hopper=hopper, training=training, dtype=dtype, bias=bias, triton=HOPPER_TRITON
    )


def _explain(
    device_name: str, rows: int, dim: int, hidden: int,
    *, hopper: bool, training: bool, dtype: torch.dtype, bias: bool, triton: tuple[int, ...],
) -> Choice:  # fmt: skip
    sixteen = dtype != torch.float32
    ready = sixteen and dim % 8 == 0 and hidden % 8 == 0
    return choose_on(device_name, bucket(rows), dim, hidden, hopper=hopper, training=training, sixteen=sixteen,
                     biased=bias, adjacent=True, ready=ready, triton=triton)  # fmt: skip


def explain_weights(rows: int, weights: Weights, *, training: bool) -> Choice:
    """The choice for ``rows`` aligned rows and these weights, whatever device they are on."""
    if not runs_kernels([t for t in weights if t is not None]):
        dtype, where = weights.gate.dtype, weights.gate.device
        if dtype not in KERNEL_DTYPES:
            return Choice("plain", f"no kernel serves {dtype} on {where}")
        if where.type != "cuda":
            return Choice("plain", f"no kernel runs on {where}")
        return Choice("plain", _TOO_OLD if TRITON < OLDEST_TRITON else "the weights differ in dtype or device")
    if weights.gate.device.type != "cuda":
        return Choice("pointwise", "Triton's interpreter")
    return _choice(rows, weights, True, training=training)  # noqa: FBT003 - x as it usually is


def _choice(rows: int, weights: Weights, x_ready: bool, *, training: bool) -> Choice:  # noqa: FBT001 - as choose
    gate, up, down, gate_bias, up_bias, down_bias = weights
    biased = gate_bias is not None or up_bias is not None or down_bias is not None
    sixteen = gate.dtype != torch.float32
    ready = x_ready and sixteen and _tma_ready(gate, up, down)
    adjacent = ready or (gate.stride(1) == up.stride(1) == down.stride(1) == 1)
    hidden, dim = gate.shape
    return choose(gate.device.index, bucket(rows), dim, hidden, training, sixteen, biased, adjacent, ready)


def backward_path_for(dy_MK: Tensor, gate_up_M2N: Tensor | None, down_KN: Tensor | None) -> str:
    """The path of a backward, from what it was given: biases do not matter there."""
    if _forced:
        return _forced[-1]
    if dy_MK.device.type != "cuda" or down_KN is None or gate_up_M2N is None:
        return "pointwise"
    sixteen = dy_MK.dtype != torch.float32
    ready = sixteen and _tma_ready(dy_MK, down_KN) and gate_up_M2N.shape[1] % 16 == 0
    (rows, dim), hidden = dy_MK.shape, gate_up_M2N.shape[1] // 2
    return choose(dy_MK.device.index, bucket(rows), dim, hidden, True, sixteen, False, ready, ready).path  # noqa: FBT003


def bucket(rows: int) -> int:
    """Row counts that share a choice: exact to 1, then the next power of two, so that choices can be remembered."""
    return 1 << (rows - 1).bit_length() if rows > 1 else rows


def _tma_ready(*matrices: Tensor) -> bool:
    return all([m.data_ptr() % 16 == 0 and _rows_aligned(m) for m in matrices])  # noqa: C419 - half a generator's time


def _rows_aligned(matrix: Tensor) -> bool:
    # two bytes an element: a stride of a multiple of 8 keeps every row on 16 bytes
    if matrix.is_contiguous():
        return matrix.shape[1] % 8 == 0
    height, width = matrix.shape
    return matrix.stride(1) == 1 and matrix.stride(0) % 8 == 0 and (matrix.stride(0) >= width or height == 1)


def is_hopper(device: int) -> bool:
    """Whether a CUDA device has sm_90's wgmma."""
    return torch.version.hip is None and torch.cuda.get_device_properties(device).major == 9  # noqa: PLR2004


@cache
def multiprocessors(device: int) -> int:
    """How many streaming multiprocessors a CUDA device has: the persistent kernels start one program on each."""
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


def communicates() -> bool:
    """Whether this process has joined a group, so that kernels may run beside those that wait for other processes."""
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def serving(
    rows: int, *, hopper: bool, training: bool, ready: bool = True, triton: tuple[int, ...] = TRITON
) -> tuple[str, ...]:
    """The paths that can serve 16-bit rows without biases on a CUDA device; arguments as in ``choose_on``."""
    few = rows <= MAX_ROWS and not training
    able = ["pointwise", *(["rows"] if few else [])]
    if hopper and ready and triton == HOPPER_TRITON:
        able.append("rows_tma" if few else "fused")
    elif not few and not hopper:
        able.append("portable")
    return tuple(able)


@lru_cache(maxsize=4096)
def choose(
    device: int, rows: int, dim: int, hidden: int, training: bool, sixteen: bool, biased: bool,  # noqa: FBT001 - a cache key
    adjacent: bool, ready: bool,  # noqa: FBT001 - as above
) -> Choice:  # fmt: skip
    """The path for a shape on a CUDA device, by its index; the other arguments are those of ``choose_on``."""
    name = torch.cuda.get_device_properties(device).name
    return choose_on(name, rows, dim, hidden, hopper=is_hopper(device), training=training, sixteen=sixteen,
                     biased=biased, adjacent=adjacent, ready=ready)  # fmt: skip


def choose_on(
    device_name: str, rows: int, dim: int, hidden: int, *, hopper: bool, training: bool, sixteen: bool, biased: bool,
    adjacent: bool, ready: bool, triton: tuple[int, ...] = TRITON,
) -> Choice:  # fmt: skip
    """The path for a shape on a device that need not be here.

    Args:
        device_name: As PyTorch names it, by which its times are found.
        rows: Rows of x, all leading dimensions together.
        dim: Features of x.
        hidden: Features of gate and up.
        hopper: Whether it has sm_90's wgmma.
        training: Whether a backward will follow.
        sixteen: Whether the dtype is bf16 or fp16.
        biased: Whether any projection has a bias.
        adjacent: Whether the columns of every weight lie side by side.
        ready: Whether they do, and every matrix's rows start on 16 bytes.
        triton: The Triton that is installed there.
    """
    if not rows:
        return Choice("pointwise", "no rows: nothing is launched")
    if not sixteen:
        return Choice("pointwise", "fp32: cuBLAS keeps the precision that is set, where a Triton product would not")
    if biased:
        return Choice("pointwise", "biases ride in cuBLAS's epilogue")
    if not adjacent:
        return Choice("pointwise", "a weight's columns do not lie side by side, as cuBLAS alone takes them")
    able = serving(rows, hopper=hopper, training=training, ready=ready, triton=triton)
    if ready and hopper and triton != HOPPER_TRITON and able == ("pointwise",):
        here = ".".join(map(str, triton))
        return Choice("pointwise", f"the kernels for {device_name} need Triton 3.6, and {here} is installed")
    return _fastest(device_name, "training" if training else "forward", (rows, dim, hidden), able)


def _fastest(device_name: str, mode: str, shape: tuple[int, int, int], able: tuple[str, ...]) -> Choice:
    if able == ("pointwise",):
        return Choice("pointwise", "no other path serves this device, shape and mode")
    # fewer candidates until a measured row has timed them all
    for count in range(len(able), 1, -1):
        row = table.nearest(device_name, mode, *shape, able[:count])
        if row is not None:
            path = min(able[:count], key=row.us.__getitem__)
            times = ", ".join(f"{p} {row.us[p]:.4g}" for p in able[:count])
            how = "measured at" if (row.rows, row.dim, row.hidden) == shape else "nearest measured:"
            return Choice(path, f"{how} {row.rows} × {row.dim} × {row.hidden} ({mode}): {times} µs")
    return Choice("pointwise", f"no times are known for {device_name}: `foretrace tune` measures them")
