"""Whether a model gives the same results with the fused layers, by a tolerance that the model itself decides."""

from __future__ import annotations

import copy
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch.utils import _pytree as pytree

from foretrace import fused
from foretrace.capture import Workload, numerics
from foretrace.capture.target import in_one_line
from foretrace.cli.swap import SEED, owner, results, swapped, watch
from foretrace.errors import InputError
from foretrace.report.fuse import Check, Comparison, Error

if TYPE_CHECKING:
    from collections.abc import Iterator

_COULD_NOT_RUN = "the check could not run: "
# two models that are equally far from the exact result are at most twice that far from each other
_RELATIVE_FACTOR = 2.0
# single elements scatter: the largest error of one model may also be twice the other's
_MAX_FACTOR = 2 * _RELATIVE_FACTOR


def check(workload: Workload) -> Check:
    """Compare the results of ``workload`` before and after its gated MLPs are replaced, which happens here.

    Each replaced layer is compared alone, too, on what its first call with any rows brings: behind a residual stream a
    wrong layer can hide in the rounding of a model. The tolerance is derived from the original's own error, which is
    measured with the same weights and arguments in fp32 (in fp64 where the weights are not all of 16 bits).

    Raises:
        InputError: Nothing can be compared: no floating-point results, results that are not finite or not the same
            in two calls, or a model that does not run in the reference's precision.
    """
    dtypes = _dtypes(owner(workload))
    dtype = torch.float32 if dtypes <= {torch.bfloat16, torch.float16} else torch.float64
    original = results(workload.call, workload)
    _see_that_it_repeats(workload, original, _unit(dtypes))
    layers = tuple(_alone(workload, dtype))
    reference = _reference(workload, dtype)
    found = results(swapped(workload.call), workload, who="the swapped model's call")
    whole = _compared("", found, original, reference, _unit(dtypes))
    return Check("fp32" if dtype == torch.float32 else "fp64", whole, layers)


def _alone(workload: Workload, dtype: torch.dtype) -> Iterator[Comparison]:
    """Every layer that can be replaced, by itself; not those that only run inside the model, as under its autocast."""
    model = owner(workload)
    served = {
        name: model.get_submodule(name) for name, roles in fused.find(model).items() if not isinstance(roles, str)
    }
    inputs: dict[str, torch.Tensor] = {}

    def look(name: str, x: torch.Tensor) -> None:
        if name not in inputs and x.numel():  # a copy: a residual sum may be written over it
            inputs[name] = x.clone()

    watch(partial(results, workload.call, workload), served, look)
    for name, x in inputs.items():
        one = Workload(served[name], (x,))
        try:
            original, reference = results(one.call, one), _reference(one, dtype)
        except InputError:
            continue
        found = results(fused.replace(served[name]).model, one, who=f"the fused layer for `{name}`")
        yield _compared(name, found, original, reference, _unit(_dtypes(served[name])))


def _compared(
    name: str,
    found: tuple[torch.Tensor, ...],
    original: tuple[torch.Tensor, ...],
    reference: tuple[torch.Tensor, ...],
    unit: float,
) -> Comparison:
    """The errors, and how large they may be: ``unit`` is one rounding, which the original's own error is at least."""
    own = _error(original, reference)
    largest = max(float(result.abs().max()) for result in original if result.numel())
    tolerance = Error(_MAX_FACTOR * max(own.max_abs, unit * largest), _RELATIVE_FACTOR * max(own.relative, unit))
    return Comparison(name, _error(found, original), tolerance, own, _error(found, reference))


def _dtypes(module: torch.nn.Module) -> set[torch.dtype]:
    return {parameter.dtype for parameter in module.parameters() if parameter.is_floating_point()}


def _unit(dtypes: set[torch.dtype]) -> float:
    """One rounding in the coarsest of ``dtypes``; of fp32 at least, in which results are compared."""
    return max(torch.finfo(one).eps / 2 for one in (*dtypes, torch.float32))


def _see_that_it_repeats(workload: Workload, original: tuple[torch.Tensor, ...], unit: float) -> None:
    if not any(result.numel() for result in original):
        raise InputError(f"{_COULD_NOT_RUN}the target returns no floating-point results")
    if not all(bool(result.isfinite().all()) for result in original):
        raise InputError(f"{_COULD_NOT_RUN}the original's own results are not all finite")
    # half of the digits: atomics move the last ones, dropout the first
    if _error(results(workload.call, workload, seed=SEED + 1), original).relative > unit**0.5:
        raise InputError(f"{_COULD_NOT_RUN}the original gives other results in each call", hint="call `model.eval()`")


def _reference(workload: Workload, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    def cast(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(dtype) if tensor.is_floating_point() else tensor

    try:
        exact = copy.deepcopy(workload)
        owner(exact).to(dtype)
        args, kwargs = pytree.tree_map_only(torch.Tensor, cast, (exact.args, dict(exact.kwargs)))
        return results(exact.call, Workload(exact.call, args, kwargs))
    except Exception as error:
        raise InputError(f"{_COULD_NOT_RUN}no copy of the model runs in {dtype} ({in_one_line(error)})") from error


def _error(found: tuple[torch.Tensor, ...], expected: tuple[torch.Tensor, ...]) -> Error:
    one = numerics.errors(found, expected)
    if one is None:
        raise InputError(f"{_COULD_NOT_RUN}two calls return results of different shapes")
    return Error(one.max_abs_error, one.relative_error)
