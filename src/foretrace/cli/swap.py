"""A workload and the fused layers: what they find in it, and how it is called with them."""

from __future__ import annotations

import copy
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from foretrace import fused
from foretrace.capture import Script, Target, Workload, accelerator, numerics, parse_target, records_grad, timing
from foretrace.capture.target import in_one_line
from foretrace.errors import ForetraceError, InputError
from foretrace.fused import plan
from foretrace.fused.layers import GatedMLP
from foretrace.fused.swap import AdoptedMLP, weights_of
from foretrace.report.fuse import Call, Module

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from foretrace.devices import Device
    from foretrace.fused.identify import Roles
    from foretrace.fused.weights import Weights

SEED = 0


def find_target(text: str, arguments: Sequence[str]) -> Target:
    """The factory that ``text`` names.

    Raises:
        InputError: It is a script, or cannot be found.
    """
    found = parse_target(text, list(arguments))
    if isinstance(found, Script):
        hint = found.factory_hint or "write `path/to/file.py:factory`"
        raise InputError(f"`{text}` names no factory", hint=hint)
    return found


def build(target: Target) -> Workload:
    """A workload of ``target``, always from the same seed."""
    torch.manual_seed(SEED)
    return target.build()


@contextmanager
def staged(on: Device | None) -> Iterator[None]:
    """Inside, everything is built and called on fake tensors if the device to ask about need not be here."""
    if on is None:
        yield
        return
    from foretrace.guess.looks import Numbers  # noqa: PLC0415 - only for a question
    from foretrace.guess.stage import OnCpu, stage  # noqa: PLC0415 - as above

    with stage(), OnCpu(), Numbers(0):
        yield


def device_name(workload: Workload) -> str | None:
    """The device that works on it, as its maker or PyTorch names it; ``None`` for the CPU."""
    device = accelerator.find_device(owner(workload), workload.args, dict(workload.kwargs))
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return None if device.type == "cpu" else device.type


def owner(workload: Workload) -> torch.nn.Module:
    """The module that a workload calls: itself, or that of a method such as ``model.generate``.

    Raises:
        InputError: It calls a function, in which no module can be found.
    """
    module = getattr(workload.call, "__self__", workload.call)
    if not isinstance(module, torch.nn.Module):
        raise InputError(
            "the target's factory returns a function, in which no module can be found",
            hint="return the model and its arguments: `return model, (x,)`",
        )
    return module


def swapped(call: Callable[..., Any]) -> Callable[..., Any]:
    """``call`` with the gated MLPs of its module replaced, in place.

    Raises:
        InputError: It is a method of a gated MLP that the fused layer does not have.
    """
    return _swapped(call)[0]


def _swapped(call: Callable[..., Any]) -> tuple[Callable[..., Any], fused.Swap]:
    model, method = getattr(call, "__self__", None), getattr(call, "__name__", "")
    if model is not None:
        swap = fused.replace(model)
        if not hasattr(swap.model, method):
            raise InputError(f"`{method}` is lost: its module is a gated MLP that is replaced as a whole")
        return getattr(swap.model, method), swap
    assert isinstance(call, torch.nn.Module)
    swap = fused.replace(call)
    return swap.model, swap


def side_by_side(target: Target, *, grad: bool) -> timing.Pair:
    """Time a call before and after the gated MLPs of its model are replaced, in turns, on one model.

    Raises:
        ForetraceError: A call fails.
    """
    workload = build(target)
    model = owner(workload)
    modules = dict(model.named_modules(remove_duplicate=False))
    after, swap = _swapped(workload.call)
    # none of a model that is replaced as a whole: that is another object
    replaced = {id(modules[one.name]) for one in swap.replaced if one.name}
    old = {name: module for name, module in modules.items() if id(module) in replaced}
    new = {name: model.get_submodule(name) for name in old}

    def put(is_swapped: bool) -> None:  # noqa: FBT001 - told which call comes next
        for name, module in (new if is_swapped else old).items():
            parent, _, child = name.rpartition(".")
            setattr(model.get_submodule(parent), child, module)

    device = accelerator.find_device(model, workload.args, dict(workload.kwargs))
    original, swapped_one = (partial(call, *workload.args, **workload.kwargs) for call in (workload.call, after))
    synchronize = partial(accelerator.synchronize, device)
    try:
        with torch.set_grad_enabled(records_grad(workload, grad=grad)):
            return timing.side_by_side(original, swapped_one, device, synchronize, put)
    except (Exception, SystemExit) as error:
        raise ForetraceError(
            f"`{target.text}` failed while it was timed: {in_one_line(error)}",
            hint="the traces are written: read them, or leave out `--measure`",
        ) from error


def already_fused(workload: Workload) -> int:
    """How many modules of a workload are fused layers as it is."""
    return sum(isinstance(module, GatedMLP | AdoptedMLP) for module in owner(workload).modules())


def gated_mlps(workload: Workload, *, training: bool = False, on: Device | None = None) -> tuple[Module, ...]:
    """Every gated MLP that ``workload`` could call, and the paths that its rows would take.

    Args:
        workload: Called once, unless nothing in it can be replaced.
        training: Whether a backward will follow.
        on: The device to ask about, which need not be here, while ``staged``; the workload's own unless given.

    Raises:
        InputError: It calls a function, or its call fails.
    """
    model = owner(workload)
    found = fused.find(model)
    served = [name for name, roles in found.items() if not isinstance(roles, str)]
    call = partial(results, workload.call, workload) if on is None else partial(_on_fakes, workload)
    rows = _rows(call, {name: model.get_submodule(name) for name in served}) if served else {}
    return tuple(_module(name, model.get_submodule(name), roles, rows, training, on) for name, roles in found.items())


def _module(
    name: str,
    module: torch.nn.Module,
    roles: Roles | str,
    rows: Mapping[str, Mapping[int, None]],
    training: bool,  # noqa: FBT001 - said by its caller
    on: Device | None,
) -> Module:
    was = type(module).__name__
    if isinstance(roles, str):
        return Module(name, was, refused=roles)
    weights = weights_of(module, roles)
    hidden, dim = weights.gate.shape
    choices = [(count, _choice(count, weights, on, training=training)) for count in rows[name]]
    calls = tuple(Call(count, choice.path, choice.why) for count, choice in choices)
    return Module(name, was, roles.activation, dim, hidden, calls=calls)


def _choice(rows: int, weights: Weights, on: Device | None, *, training: bool) -> plan.Choice:
    if on is None:
        return plan.explain_weights(rows, weights, training=training)
    if on.vendor not in {"NVIDIA", "AMD", None}:
        return plan.Choice("plain", f"no kernel runs on {on.name}")
    if len({t.dtype for t in weights if t is not None}) > 1:
        return plan.Choice("plain", "the weights differ in dtype")
    hidden, dim = weights.gate.shape
    biased, dtype, capability = any(t is not None for t in weights[3:]), weights.gate.dtype, on.compute_capability
    return plan.explain_on(
        on.name, rows, dim, hidden, capability=capability, training=training, dtype=dtype, bias=biased
    )


def _rows(call: Callable[[], object], modules: Mapping[str, torch.nn.Module]) -> dict[str, dict[int, None]]:
    """How many rows each module is called with by ``call``, each number once, in the order of the calls."""
    seen: dict[str, dict[int, None]] = {name: {} for name in modules}

    def look(name: str, x: torch.Tensor) -> None:
        seen[name][x.shape[:-1].numel()] = None

    watch(call, modules, look)
    return seen


def _on_fakes(workload: Workload) -> None:
    """Call a staged workload; its arguments cannot be copied, and nobody calls it again."""
    with _told("the target's call"), torch.no_grad():
        workload.call(*workload.args, **workload.kwargs)


def watch(
    call: Callable[[], object], modules: Mapping[str, torch.nn.Module], look: Callable[[str, torch.Tensor], None]
) -> None:
    """Call once and show what each of ``modules`` is called with."""

    def before(name: str, _module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        x = next((v for v in (*args, *kwargs.values()) if isinstance(v, torch.Tensor)), None)
        if x is not None and x.ndim:
            look(name, x)

    hooks = [m.register_forward_pre_hook(partial(before, name), with_kwargs=True) for name, m in modules.items()]
    try:
        call()
    finally:
        for hook in hooks:
            hook.remove()


def results(
    call: Callable[..., Any], workload: Workload, *, who: str = "the target's call", seed: int = SEED
) -> tuple[torch.Tensor, ...]:
    """The floating-point results, in fp32 on the CPU; arguments that a call changes, such as caches, are copied."""
    torch.manual_seed(seed)
    with _told(who), torch.no_grad():
        args, kwargs = copy.deepcopy((workload.args, dict(workload.kwargs)))
        return numerics.results(call, args, kwargs)


@contextmanager
def _told(who: str) -> Iterator[None]:
    """Whatever a user's code raises becomes an error that says who failed."""
    try:
        yield
    except ForetraceError:
        raise
    except (Exception, SystemExit) as error:
        raise InputError(f"{who} failed: {in_one_line(error)}", hint="call it by itself to see where") from error
