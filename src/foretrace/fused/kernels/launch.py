"""Launching again what is compiled already, without Triton's look-up by arguments.

Triton finds the compiled kernel of a call by inspecting every argument, checks every global the kernel read, and
encodes every TMA descriptor again; on the H200's host that took 50 to 110 µs of a call of 250. Here the caller says
what the specialization depends on, and a descriptor keeps what it was encoded to.
"""

# ruff: noqa: ANN401 - kernels and their options have no common type
from __future__ import annotations

import inspect
import sysconfig
from contextlib import suppress
from pathlib import Path
from threading import Thread
from types import BuiltinFunctionType
from typing import TYPE_CHECKING, Any

import torch
import triton

from ..plan import interpreting  # noqa: TID252 - in the Hub package it has another parent

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from torch import Tensor

    _Again = Callable[[int, tuple[Any, ...], bool | None], object]

_ready: dict[Hashable, _Again] = {}
_initialized: Callable[[], bool] = torch.cuda.is_initialized


def _hash_triton() -> None:
    """Let Triton hash its own 400 MB for the key of its cache, which it remembers."""
    with suppress(ImportError):
        from triton.runtime.cache import triton_key  # noqa: PLC0415 - elsewhere in other versions

        triton_key()


def _build_driver() -> None:
    """Let Triton compile its way into the CUDA driver, which it caches; nothing of CUDA starts, a process may fork."""
    # where this fails, the first launch does too, and says why
    with suppress(Exception):
        from triton.backends.nvidia.driver import CudaUtils  # noqa: PLC0415 - elsewhere in other versions

        CudaUtils()


def _preparations() -> Iterator[Thread]:
    """0.8 s of the first call, beside what a program does before it: making tensors, loading weights."""
    if torch.version.cuda is not None or torch.version.hip is not None:
        yield Thread(target=_hash_triton, daemon=True)
    # where a compiler would fail it would say so, though nothing is launched perhaps
    can_build = Path("/dev/nvidiactl").exists() and Path(sysconfig.get_paths()["include"], "Python.h").exists()
    if torch.version.cuda is not None and can_build:
        # no daemon: an interpreter that ends under a compiler takes its folder away
        yield Thread(target=_build_driver)


_preparing = [] if interpreting() else list(_preparations())
for _thread in _preparing:
    _thread.start()


def launch(
    kernel: Any, key: Hashable, grid: int, args: tuple[Any, ...], *, cooperative: bool | None = None, **options: Any
) -> None:
    """Run ``kernel`` on the current device: compiled for ``key`` at most once, by Triton's own way.

    Args:
        kernel: A Triton or Gluon kernel; it lives as long as the process.
        key: Everything that the compiled form depends on beyond kernel and device: dtypes, constexpr arguments,
            ``kind`` of each integer that is specialized, alignment of each pointer.
        grid: Programs, on grid x.
        args: Every argument in order, constexpr ones too; a TMA descriptor keeps in ``encoded`` what it is encoded to.
        cooperative: Whether it starts only when all programs fit at once; what it is compiled for unless given, and
            where Triton launches it, as it does the first time.
        options: ``num_warps`` and other compile options, fixed for a ``key``.
    """
    full_key = (id(kernel), key, torch._C._cuda_getDevice() if _initialized() else -1)  # noqa: SLF001 - as in paths.on
    again = _ready.get(full_key)
    if again is not None:
        again(grid, args, cooperative)
        return
    for thread in _preparing:
        thread.join()
    compiled = kernel[(grid,)](*args, **options)
    if compiled is not None:  # the interpreter compiles nothing
        _ready[full_key] = _direct(compiled, args) or _by_triton(compiled)


def _by_triton(compiled: Any) -> _Again:
    return lambda grid, args, _cooperative: compiled[grid, 1, 1](*args)


def _direct(compiled: Any, first_args: tuple[Any, ...]) -> _Again | None:
    """Straight to the C function that Triton generated for the kernel; nothing where Triton has none like 3.6's."""
    if not triton.__version__.startswith("3.6."):
        return None
    with suppress(AttributeError, ImportError, KeyError, TypeError):
        from triton import knobs  # noqa: PLC0415 - Triton only where a kernel was compiled
        from triton.backends.nvidia.driver import make_tensordesc_arg  # noqa: PLC0415 - private to 3.6
        from triton.runtime import driver  # noqa: PLC0415 - as above

        run, function, packed = compiled.run, compiled.function, compiled.packed_metadata
        entry, described = run.launch, []
        if not isinstance(entry, BuiltinFunctionType):
            wrapped = inspect.getclosurevars(entry).nonlocals
            at = [i for i, arg in enumerate(first_args) if hasattr(arg, "encoded")]
            entry, described = wrapped["launcher"], list(zip(at, wrapped["tensordesc_meta"], strict=True))
        if not isinstance(entry, BuiltinFunctionType) or run.global_scratch_size or run.profile_scratch_size:
            return None
        stream_of, device = driver.active.get_current_stream, driver.active.get_current_device()
        as_compiled, options = run.launch_cooperative_grid, (run.launch_pdl, None, None, packed, None, None, None)
        by_triton, hooks = _by_triton(compiled), knobs.runtime

        def again(grid: int, args: tuple[Any, ...], cooperative: bool | None) -> None:  # noqa: FBT001 - at every launch
            if _listens(hooks.launch_enter_hook) or _listens(hooks.launch_exit_hook):
                by_triton(grid, args, cooperative)
                return
            at_once = as_compiled if cooperative is None else cooperative
            flat: list[Any] = []
            done = 0
            for i, meta in described:
                flat += args[done:i]
                descriptor = args[i]
                if descriptor.encoded is None:
                    descriptor.encoded = make_tensordesc_arg(descriptor, meta)
                flat += descriptor.encoded
                done = i + 1
            entry(grid, 1, 1, stream_of(device), function, at_once, *options, *flat, *args[done:])

        return again
    return None


def _listens(hook: Any) -> bool:
    """Whether a launch hook would do anything: an empty chain does not, and anything that is no chain may."""
    return hook is not None and bool(getattr(hook, "calls", True))


def cdiv(a: int, b: int) -> int:
    """``a / b`` rounded up; Triton's own costs its host 4 µs a call."""
    return -(-a // b)


def kind(value: int) -> tuple[bool, bool, bool]:
    """What Triton's specialization sees of an integer: whether it is 1, a multiple of 16, and fits 32 bits."""
    return value == 1, value % 16 == 0, value < 1 << 31


def aligned(*tensors: Tensor) -> tuple[bool, ...]:
    """Whether each tensor starts on 16 bytes, which is what Triton's specialization sees of a pointer."""
    return tuple([t.data_ptr() % 16 == 0 for t in tensors])
