"""A call on fake tensors: its ops and compiled graphs one after the other, and the kernels that each launches."""

from __future__ import annotations

import textwrap
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException

from foretrace.errors import InputError
from foretrace.guess import cost
from foretrace.guess.compiler import Compiler, compiling
from foretrace.guess.device_ops import DeviceOps, device_attention
from foretrace.guess.fast_paths import fast_paths
from foretrace.guess.fused_layers import fused_layers, layers_are_loaded
from foretrace.guess.launches import launches
from foretrace.guess.looks import Numbers, lists_at_once
from foretrace.guess.record import Fused, recording
from foretrace.guess.recurrent import device_networks
from foretrace.guess.stage import OnCpu
from foretrace.ops import launches_nothing
from foretrace.units import plural
from foretrace.verdict import GuessedKernel

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from foretrace.devices import Device
    from foretrace.guess.launch import Launch
    from foretrace.guess.record import Call, Recorder


_WIDTH = 240
_STEP = 1
"""What an unknown number is taken for: 1 keeps an optimizer's bias correction finite."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The kernels of one call, the loads behind them, and what launches nothing.

    Attributes:
        kernels, loads: One each for every kernel, in launch order.
        views: Ops that launch nothing, as often as they are called.
        graphs: Compiled graphs; 0 for eager.
        notes, breaks: As in `Guess`.
    """

    kernels: tuple[GuessedKernel, ...]
    loads: tuple[cost.Load, ...]
    views: tuple[str, ...] = ()
    graphs: int = 0
    notes: tuple[str, ...] = ()
    breaks: tuple[str, ...] = ()


def plan(
    call: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    device: Device | None,
    *,
    grad: bool,
    compiled: bool = False,
) -> Plan:
    """Run ``call`` on the stage and say what each op, or each compiled graph, launches.

    A call that takes an optimizer's step or compiles is run twice: state and code are made once, and what people
    profile comes after.

    Args:
        call: A module or callable on fake tensors (`stage`).
        args: Its arguments.
        kwargs: Its keyword arguments.
        device: The device that the guess is about.
        grad: Whether autograd records the call (and its backward runs, if the call runs it).
        compiled: Whether ``torch.compile`` is put around it.

    Raises:
        InputError: The call raises, or asks for something that only real tensors have.
    """
    compiler = Compiler(device)
    with compiling(compiler, surely=compiled):
        chosen = _compiled(call) if compiled else call
        met = layers_are_loaded()
        try:
            recorder = _recorded(chosen, args, kwargs, device, compiler, grad=grad, compiled=compiled)
        except InputError:
            if not compiled:
                raise
            # code that names its device: Dynamo can follow that, at the price of a break where it follows badly
            with OnCpu():
                recorder = _recorded(chosen, args, kwargs, device, compiler, grad=grad, compiled=compiled)
        if layers_are_loaded() and not met:  # the call itself imported them, and they did not know of the device
            recorder = _recorded(chosen, args, kwargs, device, compiler, grad=grad, compiled=compiled)
        breaks = compiler.breaks
    kernels, loads, views = [], [], []
    for one in recorder.calls:
        if isinstance(one, Fused):
            pairs = [_generated(one, device)]
        else:
            found = launches(one, device)
            pairs = [_kernel(one, launch, device) for launch in found]
            if not found and not one.on_host and (one.hint == "view" or launches_nothing(one.op)):
                views.append(one.op)
        kernels += [kernel for kernel, _ in pairs]
        loads += [load for _, load in pairs]
    notes = (*recorder.notes, *compiler.notes)
    if compiled and not compiler.ran:
        notes += ("nothing was compiled: Dynamo found no graph in it, so it runs as eager code",)
    elif compiled:
        again = plural(compiler.ran, "graph")
        notes += (f"sizes are compiled in: another input size compiles {again} anew, from then on for any such size",)
    return Plan(tuple(kernels), tuple(loads), tuple(views), compiler.ran, notes, breaks)


def _compiled(call: Callable[..., Any]) -> Any:  # noqa: ANN401 - what ``torch.compile`` makes of it
    try:
        return torch.compile(call)
    except RuntimeError as error:  # a ScriptModule
        message = f"`torch.compile` refuses it: {_first_line(error)}"
        raise InputError(message, hint="guess it as eager, which `--variant eager` is") from error


def _recorded(
    call: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    device: Device | None,
    compiler: Compiler,
    *,
    grad: bool,
    compiled: bool,
) -> Recorder:
    with ExitStack() as stack:
        stack.enter_context(torch.set_grad_enabled(grad))
        numbers = stack.enter_context(Numbers(_STEP))
        recorder = compiler.recorder = stack.enter_context(recording())
        numbers.where = recorder.where
        stack.enter_context(lists_at_once(recorder))
        stack.enter_context(device_attention(device))
        stack.enter_context(device_networks(device, recorder, cells=not compiled))
        stack.enter_context(fused_layers(device, recorder))
        stack.enter_context(fast_paths(recorder))
        if not compiled:  # Dynamo would compile what these modes do
            stack.enter_context(OnCpu())
            stack.enter_context(DeviceOps(device, recorder))
        run(call, args, kwargs)
        if recorder.optimized or compiler.made:
            recorder.calls.clear()
            compiler.restart()
            numbers.restart()
            run(call, args, kwargs)
    recorder.notes |= numbers.notes
    return recorder


def run(call: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any result
    """The call's result, its failure in words.

    Raises:
        InputError: The call raised.
    """
    try:
        return call(*args, **kwargs)
    except InputError:
        raise
    except (DynamicOutputShapeException, DataDependentOutputException) as error:
        message = f"what `{error.func}` gives depends on data, and a guess has sizes only"
        raise InputError(message, hint="give the module an input path without it, or profile it instead") from error
    except SystemExit as error:
        message = f"the module ends the program: {type(error).__name__}: {error}"
        raise InputError(message, hint="take `sys.exit` out of what is guessed at") from error
    except Exception as error:
        message = f"the module cannot be run without data: {type(error).__name__}: {_first_line(error)}"
        raise InputError(message, hint="call it once for real; what depends on values cannot be guessed") from error


def _first_line(error: BaseException) -> str:
    """What an error says first, as far as it fits on two lines of a terminal; Dynamo's explanation with its title."""
    lines = str(error).strip().splitlines() or [""]
    explained = [line.strip() for line in lines[1:2] if line.strip().startswith("Explanation:")]
    return textwrap.shorten(": ".join([lines[0], *(line.partition(": ")[2] for line in explained)]), _WIDTH)


def _kernel(call: Call, launch: Launch, device: Device | None) -> tuple[GuessedKernel, cost.Load]:
    work = launch.work
    flops, moved = (work.flops, work.moved_bytes) if work else (None, None)
    dtype = work.dtype if work else None
    grows = call.phase != "optimizer"
    load = cost.load(launch.op_class, flops, moved, call.weight_bytes, _peak_dtype(dtype), grows=grows)
    floor_ns, bound = cost.floor(load, device)
    kernel = GuessedKernel(
        op_class=launch.op_class,
        op=launch.op,
        shapes=launch.shapes or None,
        dtype=dtype,
        flops=flops,
        bytes=moved,
        floor_ns=floor_ns,
        bound=bound,
        epilogue=launch.epilogue,
        source=call.source,
        phase=call.phase,
        why=launch.why,
    )
    return kernel, load


def _generated(fused: Fused, device: Device | None) -> tuple[GuessedKernel, cost.Load]:
    """A kernel that Inductor generates: its arithmetic is small beside its bytes and is not counted."""
    load = cost.load(fused.op_class, None, fused.moved_bytes, 0, fused.dtype)
    floor_ns, bound = cost.floor(load, device)
    kernel = GuessedKernel(
        op_class=fused.op_class,
        op=fused.name,
        dtype=fused.dtype,
        bytes=fused.moved_bytes,
        floor_ns=floor_ns,
        bound=bound,
        fused_ops=fused.ops,
        source=fused.source,
        phase=fused.phase,
    )
    return kernel, load


def _peak_dtype(dtype: str | None) -> str | None:
    """``tf32`` for float32 products where PyTorch is allowed to use it."""
    return "tf32" if dtype == "f32" and torch.get_float32_matmul_precision() != "highest" else dtype
