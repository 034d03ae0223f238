"""``foretrace.guess``: what a module or a target will launch, without running it on anything."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import torch

from foretrace import devices
from foretrace.errors import InputError
from foretrace.guess import cost, repeats
from foretrace.guess.looks import Numbers
from foretrace.guess.plan import plan, run
from foretrace.guess.stage import OnCpu, fake_copy, stage
from foretrace.verdict import Guess

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from foretrace.devices import Device
    from foretrace.guess.plan import Plan

_CLUSTERS = 9.0
"""Compute capability from which GEMMs come as clusters of thread blocks."""

Variant = Literal["eager", "compile"]


def guess(
    module: Callable[..., Any],
    /,
    *args: Any,  # noqa: ANN401 - the module's own
    on: str | None = None,
    variant: Variant = "eager",
    grad: bool | None = None,
    **kwargs: Any,  # noqa: ANN401 - as above
) -> Guess:
    """Predict the kernels of ``module(*args, **kwargs)`` from code and shapes alone: no GPU, no work.

    While it runs, PyTorch works on fake tensors in the whole process: one guess at a time, and no other thread's work.

    Args:
        module: A module, or a callable such as a whole training step. A module is copied (without its memory) and left
            as it is; a callable's own tensors are taken as they are, so prefer `guess_built` for one that trains.
        args: Its arguments; tensors count by size and type.
        on: The device that the guess is about: a name in ``foretrace devices`` or a TOML file. Without one, the GPU of
            this machine; without that, floors and regime are unknown.
        variant: ``eager`` or ``compile``.
        grad: Whether autograd records. By default it does for a callable and does not for a module.
        kwargs: Its keyword arguments.

    Raises:
        InputError: No such device, or the module cannot run on fake tensors.
    """

    def build() -> tuple[Callable[..., Any], tuple[Any, ...], Mapping[str, Any]]:
        return module, args, kwargs

    return _guess(build, _name(module), on, variant, grad, copied=True)


def guess_built(
    build: Callable[[], tuple[Callable[..., Any], tuple[Any, ...], Mapping[str, Any]]],
    *,
    name: str | None = None,
    on: str | None = None,
    variant: Variant = "eager",
    grad: bool | None = None,
) -> Guess:
    """As `guess`, for what ``build`` makes: weights are never allocated, so the size of the model does not matter.

    Args:
        build: Returns a module or callable, its arguments and its keyword arguments; called on fake tensors.
        name: What the guess is about; the name of what was built unless given.
        on: As in `guess`.
        variant: As in `guess`.
        grad: As in `guess`.
    """
    return _guess(build, name, on, variant, grad, copied=False)


def _guess(
    build: Callable[[], tuple[Callable[..., Any], tuple[Any, ...], Mapping[str, Any]]],
    name: str | None,
    on: str | None,
    variant: Variant,
    grad: bool | None,  # noqa: FBT001 - three-valued
    *,
    copied: bool,
) -> Guess:
    if variant not in {"eager", "compile"}:
        raise InputError(f"no variant `{variant}`", hint="variants are `eager` and `compile`")
    device = _device(on)
    with stage() as mode:
        with OnCpu(), Numbers(0):
            call, args, kwargs = run(build, (), {})
        if copied:
            call, args, kwargs = _copies(call, args, kwargs, mode)
        grad = not isinstance(call, torch.nn.Module) if grad is None else grad
        if variant == "compile":
            found = _compiled(call, args, kwargs, device, grad=grad)
        else:
            found = plan(call, args, kwargs, device, grad=grad)
    return _assembled(found, name or _name(call), device, on, variant, _batch((*args, *kwargs.values())))


def _compiled(
    call: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], device: Device | None, *, grad: bool
) -> Plan:
    """The compiled plan; of many equal blocks a few are compiled and the rest extrapolated."""
    stack = repeats.stack_of(call)
    if stack is not None:
        try:
            with repeats.shortened(stack, repeats.FEW):
                few = plan(call, args, kwargs, device, grad=grad, compiled=True)
            with repeats.shortened(stack, repeats.ONE_MORE):
                more = plan(call, args, kwargs, device, grad=grad, compiled=True)
        except InputError:  # a module may count on all of its blocks
            return plan(call, args, kwargs, device, grad=grad, compiled=True)
        place = repeats.place_of_one(few.kernels, more.kernels)
        if place is not None and few.graphs == more.graphs:
            return _extended(more, place, stack)
    return plan(call, args, kwargs, device, grad=grad, compiled=True)


def _extended(more: Plan, place: tuple[int, int], stack: repeats.Stack) -> Plan:
    start, length = place
    further = stack.count - repeats.ONE_MORE
    one = more.loads[start : start + length]
    note = (
        f"{repeats.ONE_MORE} of {stack.count} equal blocks in `{stack.name or 'the module'}` were compiled, "
        f"the kernels of the other {further} are extrapolated"
    )
    return replace(
        more,
        kernels=repeats.extended(more.kernels, place, stack),
        loads=(*more.loads[: start + length], *one * further, *more.loads[start + length :]),
        notes=(*more.notes, note),
    )


def _copies(call: Any, args: Any, kwargs: Any, mode: Any) -> tuple[Any, Any, Any]:  # noqa: ANN401 - any callable's
    from torch._subclasses.fake_tensor import unset_fake_temporarily  # noqa: PLC0415 - beside its use

    with unset_fake_temporarily():
        call = fake_copy(call, mode) if isinstance(call, torch.nn.Module) else call
        return call, fake_copy(args, mode), fake_copy(kwargs, mode)


def _assembled(
    plan: Plan, name: str, device: Device | None, on: str | None, variant: Variant, batch: int | None
) -> Guess:
    host = cost.host_ns(len(plan.kernels), len(plan.views), plan.graphs)
    # the fused layers launch other kernels for other rows
    scales = not any((kernel.op or "").startswith("foretrace::") for kernel in plan.kernels)
    return Guess(
        kernels=plan.kernels,
        target=name,
        device=device.name if device else on,
        variant=variant,
        graphs=plan.graphs,
        breaks=plan.breaks,
        launches_nothing=tuple(dict.fromkeys(plan.views)),
        regime=cost.regime(plan.loads, device, host),
        batch=batch,
        flips_at=cost.flips_at(plan.loads, device, host, batch) if scales else None,
        torch=str(torch.__version__),
        notes=(*plan.notes, *_of_generation(plan, device)),
    )


def _of_generation(plan: Plan, device: Device | None) -> tuple[str, ...]:
    """What else the device's generation puts beside a GEMM, which is no kernel and part of no guess."""
    if device is None or device.vendor != "NVIDIA" or device.compute_capability is None:
        return ()
    if not any(kernel.op_class == "gemm" and (kernel.op or "").startswith("aten::") for kernel in plan.kernels):
        return ()
    if float(device.compute_capability) >= _CLUSTERS:
        return ("cuBLAS launches by cuLaunchKernelEx here and clears a few bytes before some GEMMs: expect memsets",)
    return ("each GEMM asks for its occupancy here before it is launched by cudaLaunchKernel",)


def _device(on: str | None) -> Device | None:
    if on is not None:
        return devices.resolve(on)
    if not torch.cuda.is_available():
        return None
    return devices.find(torch.cuda.get_device_name())


def _batch(values: Any) -> int | None:  # noqa: ANN401 - any tree of arguments
    """The first dimension of the first tensor with one."""
    leaves = torch.utils._pytree.tree_leaves(values)  # noqa: SLF001 - the tree of arguments
    return next((leaf.shape[0] for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.dim()), None)


def _name(call: Any) -> str:  # noqa: ANN401 - any callable
    return getattr(call, "__name__", type(call).__name__)
