"""The eager guess: a call on fake tensors, its ops one after the other, and the kernels that each launches."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from foretrace.errors import InputError
from foretrace.guess import cost
from foretrace.guess.device_ops import DeviceOps
from foretrace.guess.launches import launches
from foretrace.guess.record import recording
from foretrace.ops import launches_nothing
from foretrace.verdict import GuessedKernel

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from foretrace.devices import Device
    from foretrace.guess.launches import Launch
    from foretrace.guess.record import Call


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


def plan_eager(
    call: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], device: Device | None, *, grad: bool
) -> Plan:
    """Run ``call`` on the stage and say what each op launches.

    A call with an optimizer's step in it is run twice: the first step makes the optimizer's state, and what people
    profile comes after it.

    Args:
        call: A module or callable on fake tensors (`stage`).
        args, kwargs: Its arguments.
        device: The device that the guess is about.
        grad: Whether autograd records the call (and its backward runs, if the call runs it).

    Raises:
        InputError: The call raises, or asks for something that only real tensors have.
    """
    calls, notes = _recorded(call, args, kwargs, device, grad=grad)
    kernels, loads, views = [], [], []
    for one in calls:
        found = launches(one, device)
        if not found and not one.on_host and (one.hint == "view" or launches_nothing(one.op)):
            views.append(one.op)
        for launch in found:
            kernel, load = _kernel(one, launch, device)
            kernels.append(kernel)
            loads.append(load)
    return Plan(tuple(kernels), tuple(loads), tuple(views), notes=notes)


def _recorded(
    call: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], device: Device | None, *, grad: bool
) -> tuple[list[Call], tuple[str, ...]]:
    for _ in range(2):
        with torch.enable_grad() if grad else torch.no_grad(), recording() as recorder:
            with DeviceOps(device, recorder):
                run(call, args, kwargs)
        if not recorder.optimized:
            break
    return recorder.calls, tuple(recorder.notes)


def run(call: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any result
    """The call's result, its failure in words.

    Raises:
        InputError: The call raised.
    """
    with nullcontext():
        try:
            return call(*args, **kwargs)
        except InputError:
            raise
        except Exception as error:
            lines = str(error).strip().splitlines() or [""]
            message = f"the module cannot be run without data: {type(error).__name__}: {lines[0]}"
            raise InputError(message, hint="call it once for real; what depends on values cannot be guessed") from error


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


def _peak_dtype(dtype: str | None) -> str | None:
    """``tf32`` for float32 products where PyTorch is allowed to use it."""
    return "tf32" if dtype == "f32" and torch.get_float32_matmul_precision() != "highest" else dtype
