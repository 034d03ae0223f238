"""Where a module plays without memory: fake tensors on the CPU, whatever device its code asks for.

Fake *CUDA* tensors need a build of PyTorch with CUDA (without one, building modules raises and autograd aborts the
process), so everything is faked on the CPU and what the named device would do otherwise is ours to say
(`device_ops`, `launches`).
"""

from __future__ import annotations

import copy
import logging
import sys
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeCopyMode, FakeTensor, FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map_only

from foretrace.guess.autocast import DEVICES, autocast_as_there
from foretrace.guess.optimizers import lists_supported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


_OF_THE_DRIVER: dict[Any, tuple[str, ...]] = {
    torch.cuda: ("synchronize", "reset_peak_memory_stats"),
    torch.cuda.nvtx: ("range_push", "range_pop", "mark"),
}


class OnCpu(TorchFunctionMode):
    """Puts what is asked for on an accelerator on the CPU: factories, ``to``, ``cuda``."""

    def __torch_function__(
        self, func: Callable[..., Any], _types: object, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:  # noqa: ANN401 - whatever the function returns
        if func is torch.Tensor.cuda:
            return args[0]
        return func(*map(_cpu, args), **{key: _cpu(value) for key, value in (kwargs or {}).items()})


def _cpu(value: Any) -> Any:  # noqa: ANN401 - any argument
    if isinstance(value, torch.device):
        return torch.device("cpu") if value.type in DEVICES else value
    if isinstance(value, str) and value.partition(":")[0] in DEVICES:
        return "cpu"
    return value


@contextmanager
def stage() -> Iterator[FakeTensorMode]:
    """Inside, tensors have sizes, types and strides and no memory; modules may be built, moved and called.

    Real tensors that are met (a closure's) are taken as fake copies of themselves.
    """
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with ExitStack() as stack:
        stack.enter_context(_modules_convertible())
        stack.enter_context(autocast_as_there())
        stack.enter_context(lists_supported())
        stack.enter_context(_without_a_driver())
        stack.enter_context(_quiet())
        stack.enter_context(_as_a_real_run())
        stack.enter_context(mode)
        yield mode


@contextmanager
def _as_a_real_run() -> Iterator[None]:
    """Let transformers take fake tensors for real ones.

    It takes them for a trace in progress and then builds every attention mask; a real run looks at the mask first and
    skips one that masks nothing. What it looks at is answered by `Numbers`.
    """
    utilities: Any = sys.modules.get("transformers.utils.import_utils")
    original = getattr(utilities, "is_fake_tensor", None)
    if original is None:
        yield
        return
    utilities.is_fake_tensor = lambda _tensor: False
    try:
        yield
    finally:
        utilities.is_fake_tensor = original


def not_compiled() -> None:
    """Keeps Dynamo from what the stage puts in place: where a graph breaks it is called as it is."""
    from torch._dynamo.eval_frame import skip_code  # noqa: PLC0415 - loads Dynamo, which eager guesses do without

    scaler: Any = torch.amp.GradScaler
    for function in (OnCpu.__torch_function__, _cpu, torch.autocast.__init__, scaler.__init__, scaler._maybe_opt_step):  # noqa: SLF001 - as PyTorch calls it
        skip_code(function.__code__)


def fake_copy(value: Any, mode: FakeTensorMode) -> Any:  # noqa: ANN401 - a module, or a tree of arguments
    """``value`` with fake CPU tensors in the place of its tensors; the original is left as it is.

    Tied parameters stay tied. Call it outside of `stage`.
    """
    with FakeCopyMode(mode):
        copied = copy.deepcopy(value)
    with _modules_convertible(), mode:
        if isinstance(copied, nn.Module):
            return copied._apply(_to_cpu)  # type: ignore[no-untyped-call]  # noqa: SLF001 - what ``to`` calls
        return tree_map_only(torch.Tensor, _to_cpu, copied)


def _to_cpu(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.device.type == "cpu":
        return tensor
    moved = tensor.detach().to("cpu")
    return moved.requires_grad_(tensor.requires_grad)


@contextmanager
def _modules_convertible() -> Iterator[None]:
    """``Module.to`` by new parameters: PyTorch swaps tensors in place, and fake ones, weakly held, refuse."""
    original: Any = nn.Module._apply  # noqa: SLF001 - the one place through which every conversion goes
    made: dict[int, tuple[nn.Parameter, nn.Parameter]] = {}  # old parameters are kept, so that ids stay theirs

    def apply(self: nn.Module, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> nn.Module:  # noqa: FBT001, FBT002 - PyTorch's signature
        if not any(isinstance(t, FakeTensor) for t in (*self.parameters(), *self.buffers())):
            return original(self, fn, recurse)  # type: ignore[no-any-return]
        for module in self.modules() if recurse else (self,):
            for name, parameter in module._parameters.items():  # noqa: SLF001 - as PyTorch's own does
                if parameter is not None:
                    module._parameters[name] = _converted(parameter, fn, made)  # noqa: SLF001 - as above
            for name, buffer in module._buffers.items():  # noqa: SLF001 - as above
                module._buffers[name] = None if buffer is None else fn(buffer)  # noqa: SLF001 - as above
        return self

    nn.Module._apply = apply  # type: ignore[method-assign]  # noqa: SLF001 - as above
    try:
        yield
    finally:
        nn.Module._apply = original  # type: ignore[method-assign]  # noqa: SLF001 - as above


def _converted(
    parameter: nn.Parameter,
    fn: Callable[[torch.Tensor], torch.Tensor],
    made: dict[int, tuple[nn.Parameter, nn.Parameter]],
) -> nn.Parameter:
    """The parameter's conversion; a tied parameter has one."""
    known = made.get(id(parameter))
    if known is not None:
        return known[1]
    with torch.no_grad():
        new = nn.Parameter(fn(parameter), parameter.requires_grad)
    made[id(parameter)] = (parameter, new)
    return new


@contextmanager
def _without_a_driver() -> Iterator[None]:
    """What needs CUDA's driver and launches nothing: waiting for the device, marks for a profiler."""
    with ExitStack() as stack:
        if not torch.cuda.is_available():
            for owner, names in _OF_THE_DRIVER.items():
                for name in names:
                    stack.callback(setattr, owner, name, getattr(owner, name))
                    setattr(owner, name, lambda *_args, **_kwargs: None)
        yield


@contextmanager
def _quiet() -> Iterator[None]:
    """PyTorch logs what fails on fake tensors before it raises it; the error alone is enough."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)
