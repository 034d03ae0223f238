"""A workload and the fused layers: what they find in it, how to call it with them, and whether results agree."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from foretrace import fused
from foretrace.capture import Script, Target, Workload, accelerator, numerics, parse_target
from foretrace.capture.target import in_one_line
from foretrace.errors import ForetraceError, InputError
from foretrace.fused import plan
from foretrace.fused.paths import Weights
from foretrace.report.fuse import Call, Check, Error, Module

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from foretrace.fused.identify import Roles

_SEED = 0
_COULD_NOT_RUN = "the check could not run: "
# two models that are equally far from the exact result are at most twice that far from each other
_RELATIVE_FACTOR = 2.0
# single elements scatter: the largest error of one model may also be twice the other's
_MAX_FACTOR = 2 * _RELATIVE_FACTOR


def find_target(text: str, arguments: Sequence[str]) -> Target:
    """The factory that ``text`` names.

    Raises:
        InputError: It is a script, or cannot be found.
    """
    found = parse_target(text, list(arguments))
    if isinstance(found, Script):
        raise InputError(f"`{text}` names no factory", hint="write `path/to/file.py:factory`")
    return found


def build(target: Target) -> Workload:
    """A workload of ``target``, always from the same seed."""
    torch.manual_seed(_SEED)
    return target.build()


def device_name(workload: Workload) -> str | None:
    """The device that works on it, as its maker names it; ``None`` for the CPU."""
    device = accelerator.find_device(owner(workload), workload.args, dict(workload.kwargs))
    return torch.cuda.get_device_name(device) if device.type == "cuda" else None


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
    """``call`` with the gated MLPs of its module replaced, in place."""
    model = getattr(call, "__self__", None)
    if model is not None:
        return getattr(fused.replace(model).model, call.__name__)  # type: ignore[no-any-return] # a method like `call`
    assert isinstance(call, torch.nn.Module)
    return fused.replace(call).model


def gated_mlps(workload: Workload, *, training: bool = False) -> tuple[Module, ...]:
    """Every gated MLP that ``workload`` could call, and the paths that its rows would take.

    Args:
        workload: Called once, unless nothing in it can be replaced.
        training: Whether a backward will follow.

    Raises:
        InputError: It calls a function, or its call fails.
    """
    model = owner(workload)
    found = fused.find(model)
    served = [name for name, roles in found.items() if not isinstance(roles, str)]
    rows = _rows(workload, {name: model.get_submodule(name) for name in served}) if served else {}
    return tuple(_module(name, model.get_submodule(name), roles, rows, training) for name, roles in found.items())


def _module(
    name: str,
    module: torch.nn.Module,
    roles: Roles | str,
    rows: Mapping[str, Mapping[int, None]],
    training: bool,  # noqa: FBT001 - said by its caller
) -> Module:
    was = type(module).__name__
    if isinstance(roles, str):
        return Module(name, was, refused=roles)
    weights = _weights(module, roles)
    hidden, dim = weights.gate.shape
    choices = [(count, plan.explain_weights(count, weights, training=training)) for count in rows[name]]
    calls = tuple(Call(count, choice.path, choice.why) for count, choice in choices)
    return Module(name, was, roles.activation, dim, hidden, calls=calls)


def _weights(module: torch.nn.Module, roles: Roles) -> Weights:
    gate, up, down = (module.get_submodule(name) for name in (roles.gate, roles.up, roles.down))
    assert isinstance(gate, torch.nn.Linear)
    assert isinstance(up, torch.nn.Linear)
    assert isinstance(down, torch.nn.Linear)
    if not roles.packed:
        return Weights(gate.weight, up.weight, down.weight, gate.bias, up.bias, down.bias)
    gate_weight, up_weight = gate.weight.chunk(2)
    gate_bias, up_bias = gate.bias.chunk(2) if gate.bias is not None else (None, None)
    return Weights(gate_weight, up_weight, down.weight, gate_bias, up_bias, down.bias)


def _rows(workload: Workload, modules: Mapping[str, torch.nn.Module]) -> dict[str, dict[int, None]]:
    """How many rows each module is called with, each number once, in the order of the calls."""
    seen: dict[str, dict[int, None]] = {name: {} for name in modules}

    def watch(name: str) -> Callable[..., None]:
        def look(_module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            x = next((v for v in (*args, *kwargs.values()) if isinstance(v, torch.Tensor)), None)
            if x is not None and x.ndim:
                seen[name][x.shape[:-1].numel()] = None

        return look

    hooks = [m.register_forward_pre_hook(watch(name), with_kwargs=True) for name, m in modules.items()]
    try:
        _call(workload.call, workload)
    finally:
        for hook in hooks:
            hook.remove()
    return seen


def check(workload: Workload) -> Check:
    """Compare the results of ``workload`` before and after its gated MLPs are replaced, which happens here.

    The tolerance is derived from the original's own error, which is measured against the same weights and arguments in
    fp32 (in fp64 where the weights are not all of 16 bits): two models that are equally far from the exact result are
    at most twice that far from each other. The original's error counts as one rounding of its widest dtype at least.

    Raises:
        InputError: Nothing can be compared: no floating-point results, results that are not finite or not the same
            in two calls, or a model that does not run in the reference's precision.
    """
    model = owner(workload)
    dtypes = {p.dtype for p in model.parameters() if p.is_floating_point()}
    dtype = torch.float32 if dtypes <= {torch.bfloat16, torch.float16} else torch.float64
    original = _call(workload.call, workload)
    # the results are compared in fp32: one rounding of that at least
    unit = max(torch.finfo(one).eps / 2 for one in (*dtypes, torch.float32))
    _see_that_it_repeats(workload, original, unit)
    reference = _reference(workload, dtype)
    found = _call(swapped(workload.call), workload)
    own = _error(original, reference)
    largest = max(float(result.abs().max()) for result in original if result.numel())
    tolerance = Error(_MAX_FACTOR * max(own.max_abs, unit * largest), _RELATIVE_FACTOR * max(own.relative, unit))
    name = "fp32" if dtype == torch.float32 else "fp64"
    return Check(name, _error(found, original), tolerance, own, _error(found, reference))


def _see_that_it_repeats(workload: Workload, original: tuple[torch.Tensor, ...], unit: float) -> None:
    if not any(result.numel() for result in original):
        raise InputError(f"{_COULD_NOT_RUN}the target returns no floating-point results")
    if not all(bool(result.isfinite().all()) for result in original):
        raise InputError(f"{_COULD_NOT_RUN}the original's own results are not all finite")
    # half of the digits: atomics move the last ones, dropout the first
    if _error(_call(workload.call, workload, seed=_SEED + 1), original).relative > unit**0.5:
        raise InputError(f"{_COULD_NOT_RUN}the original gives other results in each call", hint="call `model.eval()`")


def _reference(workload: Workload, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    def cast(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(dtype) if tensor.is_floating_point() else tensor

    try:
        exact = copy.deepcopy(workload)
        owner(exact).to(dtype)
        args, kwargs = pytree.tree_map_only(torch.Tensor, cast, (exact.args, dict(exact.kwargs)))
        return _call(exact.call, Workload(exact.call, args, kwargs))
    except Exception as error:
        raise InputError(f"{_COULD_NOT_RUN}no copy of the model runs in {dtype} ({in_one_line(error)})") from error


def _call(call: Callable[..., Any], workload: Workload, seed: int = _SEED) -> tuple[torch.Tensor, ...]:
    """The floating-point results, in fp32 on the CPU; arguments that a call changes, such as caches, are copied."""
    torch.manual_seed(seed)
    try:
        with torch.no_grad():
            args, kwargs = copy.deepcopy((workload.args, dict(workload.kwargs)))
            return numerics.results(call, args, kwargs)
    except ForetraceError:
        raise
    except (Exception, SystemExit) as error:
        raise InputError(f"the target's call failed: {in_one_line(error)}", hint="call it by itself to see") from error


def _error(found: tuple[torch.Tensor, ...], expected: tuple[torch.Tensor, ...]) -> Error:
    one = numerics.errors(found, expected)
    if one is None:
        raise InputError(f"{_COULD_NOT_RUN}two calls return results of different shapes")
    return Error(one.max_abs_error, one.relative_error)
