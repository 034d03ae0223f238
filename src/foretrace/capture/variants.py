"""The ways to run a workload that a capture compares: eager, compiled, and whatever a user registers."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch._inductor import config as inductor

from foretrace.errors import InputError, MissingDependencyError

if TYPE_CHECKING:
    from foretrace.capture.target import Workload

Prepare: TypeAlias = Callable[[Callable[..., object], tuple[Any, ...], Mapping[str, Any]], Callable[..., object]]
"""``prepare(call, args, kwargs)`` returns what is called instead of ``call``, with the same arguments."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to run a workload.

    Attributes:
        name: As ``--variants`` spells it.
        prepare: Makes the callable that is profiled out of a fresh workload's.
        compiles: Whether ``torch.compile`` is at work: it needs a compiler on the machine, and has no module
            scopes, because hooks become part of the graph or break it.
    """

    name: str
    prepare: Prepare
    compiles: bool = False

    def apply(self, workload: Workload) -> Callable[..., object]:
        """The callable to profile instead of the workload's own."""
        return self.prepare(workload.call, workload.args, workload.kwargs)


def register_variant(name: str, prepare: Prepare, *, compiles: bool = False) -> None:
    """Make ``name`` known to ``--variants``; registered again, as when a target's file is read again, the last counts.

    Args:
        name: How it is asked for.
        prepare: ``prepare(call, args, kwargs)`` returns the callable that is profiled.
        compiles: Whether it calls ``torch.compile``; then modules get no scopes.

    Raises:
        InputError: It is the name of a variant that foretrace has itself.
    """
    if name in _BUILT_IN:
        message = f"foretrace has a variant `{name}` of its own"
        raise InputError(message, hint=f"register another name than {', '.join(f'`{one}`' for one in _BUILT_IN)}")
    _VARIANTS[name] = Variant(name, prepare, compiles)


def variant_names() -> tuple[str, ...]:
    """Every name that can be asked for, in the order of registration."""
    return tuple(_VARIANTS)


def find_variant(name: str) -> Variant:
    """The variant called ``name``.

    Raises:
        InputError: There is none.
    """
    if name not in _VARIANTS:
        message = f"there is no variant `{name}`"
        more = "the target's file can register others, and `foretrace fuse TARGET --measure` times the fused layers"
        raise InputError(message, hint=f"known are {_known()}; {more}")
    return _VARIANTS[name]


def forget_compiled_code() -> None:
    """Drop what ``torch.compile`` has built and learnt in this process, CUDA graphs and their memory included."""
    if "torch._dynamo" in sys.modules:  # importing it takes a second that an eager capture can save
        torch._dynamo.reset()  # noqa: SLF001 - public in all but name


def require_compiler(device: torch.device) -> None:
    """See that ``torch.compile`` can build code for ``device``: Triton on GPUs, a C++ compiler on the CPU.

    Raises:
        MissingDependencyError: It cannot.
    """
    if device.type in {"cuda", "xpu"} and importlib.util.find_spec("triton") is None:
        message = f"`torch.compile` on {device.type} needs Triton, which is not installed"
        raise MissingDependencyError(message, hint="pip install triton, or `--variants eager`")
    if device.type == "cpu" and not _has_cpp_compiler():
        message = "`torch.compile` on the CPU needs a C++ compiler, and none was found"
        raise MissingDependencyError(message, hint="install g++, name one in CXX, or use `--variants eager`")


def _has_cpp_compiler() -> bool:
    try:
        # Inductor's own search, so that the answer is the one it would come to itself
        from torch._inductor.cpp_builder import get_cpp_compiler  # noqa: PLC0415 - heavy
        from torch._inductor.exc import InvalidCxxCompiler  # noqa: PLC0415
    except ImportError:
        return True  # moved in some other release: let the compiler speak for itself
    try:
        get_cpp_compiler()
    except (InvalidCxxCompiler, RuntimeError):
        return False
    return True


def _known() -> str:
    return ", ".join(f"`{name}`" for name in _VARIANTS)


def _as_it_is(call: Callable[..., object], _args: object, _kwargs: object) -> Callable[..., object]:
    return call


def _compiled(**options: Any) -> Prepare:  # noqa: ANN401 - torch.compile's own keywords
    def prepare(call: Callable[..., object], _args: object, _kwargs: object) -> Callable[..., object]:
        inductor.cpp.enable_kernel_profile = True  # so that a fused C++ kernel has a row in a CPU trace
        return torch.compile(call, **options)

    return prepare


_VARIANTS = {
    variant.name: variant
    for variant in (
        Variant("eager", _as_it_is),
        Variant("compile", _compiled(), compiles=True),
        Variant("compile:max-autotune", _compiled(mode="max-autotune"), compiles=True),
        Variant("compile:reduce-overhead", _compiled(mode="reduce-overhead"), compiles=True),
        Variant("compile:dynamic", _compiled(dynamic=True), compiles=True),
    )
}
_BUILT_IN = tuple(_VARIANTS)
