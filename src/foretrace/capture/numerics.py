"""How far a variant's results are from eager PyTorch in single precision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from foretrace.capture.target import Workload


@dataclass(frozen=True, slots=True)
class Numerics:
    """Errors over all floating-point results of one call.

    Attributes:
        max_abs_error: Largest |result − reference|.
        relative_error: ‖result − reference‖ ÷ ‖reference‖, Euclidean norms over all elements.
    """

    max_abs_error: float
    relative_error: float


def reference(workload: Workload) -> tuple[torch.Tensor, ...] | None:
    """What the workload's module gives in fp32, on the CPU; the module is converted in place.

    ``None`` for a function, whose weights cannot be converted, for a module with active dropout, which has no one
    result, and where fp32 does not run.
    """
    module = workload.call
    if not isinstance(module, torch.nn.Module) or _drops(module):
        return None
    try:
        module.float()
        args, kwargs = pytree.tree_map_only(torch.Tensor, _in_single_precision, (workload.args, dict(workload.kwargs)))
        return results(module, args, kwargs)
    except Exception:  # noqa: BLE001 - a user's module: what it cannot do in fp32 is no error of this capture
        return None


def results(call: Callable[..., object], args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[torch.Tensor, ...]:
    """The floating-point tensors that a call returns, in fp32 on the CPU."""
    leaves = pytree.tree_leaves(call(*args, **kwargs))
    return tuple(
        leaf.detach().float().cpu() for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
    )


def errors(found: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> Numerics | None:
    """The errors of ``found``; ``None`` where the two have not the same tensors."""
    if not expected or [t.shape for t in found] != [t.shape for t in expected]:
        return None
    result, wanted = (torch.cat([tensor.double().flatten() for tensor in side]) for side in (found, expected))
    if not wanted.numel():
        return None
    away, norm = (result - wanted).abs(), wanted.norm()
    return Numerics(float(away.max()), float(away.norm() / norm) if norm > 0 else float(away.norm() > 0))


def _in_single_precision(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.float() if tensor.is_floating_point() else tensor


def _drops(module: torch.nn.Module) -> bool:
    """Whether dropout is active anywhere inside."""
    layers = (m for m in module.modules() if isinstance(m, torch.nn.modules.dropout._DropoutNd))  # noqa: SLF001 - base
    return any(layer.training and layer.p > 0 for layer in layers)
