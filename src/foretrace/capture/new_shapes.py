"""What the first call at a new shape costs: the workload is run with another batch, then another sequence length."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from foretrace import stats

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from foretrace.capture.target import Workload
    from foretrace.capture.timing import Synchronize

_FIRST, _LATER = 3, 3
"""CUDA graphs record in the second call at a shape and replay from the third: the first three pay for it."""
_SEQUENCE_DIMS = 3


@dataclass(frozen=True, slots=True)
class NewShape:
    """One new shape.

    Attributes:
        what: What was changed: ``batch 64 → 32``.
        cost_ns: What the first three calls took beyond three later ones: compilation, recording, allocation;
            ``None`` when the call failed.
        recompiles: Graphs that ``torch.compile`` built on the way.
        failed: Why the call failed.
    """

    what: str
    cost_ns: int | None
    recompiles: int
    failed: str | None = None


def measure(workload: Workload, call: Callable[..., object], synchronize: Synchronize) -> tuple[NewShape, ...]:
    """Run ``call`` at two new shapes that it has not seen; none where no argument is a tensor."""
    return tuple(_measure(what, call, arguments, synchronize) for what, arguments in _others(workload))


def _measure(what: str, call: Callable[..., object], arguments: Any, synchronize: Synchronize) -> NewShape:  # noqa: ANN401
    args, kwargs = arguments
    graphs = _graphs()

    def timed() -> int:
        synchronize()
        start = time.perf_counter_ns()
        call(*args, **kwargs)
        synchronize()
        return time.perf_counter_ns() - start

    try:
        first = sum(timed() for _ in range(_FIRST))
        later = stats.median([timed() for _ in range(_LATER)]) or 0.0
    except Exception as error:  # noqa: BLE001 - a user's module: it may well know only one shape
        lines = str(error).strip().splitlines() or [""]
        return NewShape(what, None, _graphs() - graphs, f"{type(error).__name__}: {lines[0]}".rstrip(": "))
    return NewShape(what, max(round(first - _FIRST * later), 0), _graphs() - graphs)


def _others(workload: Workload) -> Iterator[tuple[str, Any]]:
    """Descriptions and arguments: another batch, then another sequence length (another batch where there is none)."""
    everything = (workload.args, dict(workload.kwargs))
    leading = next((t for t in pytree.tree_leaves(everything) if isinstance(t, torch.Tensor) and t.dim()), None)
    if leading is None or not leading.numel():
        return
    batch, other = leading.shape[0], _another(leading.shape[0])
    yield f"batch {batch} → {other}", _resized(everything, leading, {0: other})
    if leading.dim() >= _SEQUENCE_DIMS or (leading.dim() > 1 and not leading.is_floating_point()):
        length, shorter = leading.shape[1], _another(leading.shape[1])
        yield f"sequence {length} → {shorter}", _resized(everything, leading, {0: other, 1: shorter})
    else:
        yield f"batch {batch} → {_another(other)}", _resized(everything, leading, {0: _another(other)})


def _another(size: int) -> int:
    """Half as much, but never 1, which compilers treat on its own."""
    return size // 2 if size >= 4 else size + 1  # noqa: PLR2004 - half of 4 is the smallest that is not 1


def _resized(everything: Any, leading: torch.Tensor, sizes: dict[int, int]) -> Any:  # noqa: ANN401 - any arguments
    """Every tensor with the batch in its first dimension, and the length in any other, follows the leading one."""
    length = leading.shape[1] if 1 in sizes else None

    def follow(tensor: torch.Tensor) -> torch.Tensor:
        for dim, size in enumerate(tensor.shape):
            if dim == 0 and size == leading.shape[0]:
                tensor = _cycled(tensor, 0, sizes[0])
            elif dim and size == length and (dim == 1 or tensor.shape != leading.shape):
                tensor = _cycled(tensor, dim, sizes[1])
        return tensor

    return pytree.tree_map_only(torch.Tensor, follow, everything)


def _cycled(tensor: torch.Tensor, dim: int, size: int) -> torch.Tensor:
    """``size`` slices along ``dim``, from the start again where there are not so many: values stay valid ids."""
    index = torch.arange(size, device=tensor.device) % tensor.shape[dim]
    return tensor.detach().index_select(dim, index).requires_grad_(tensor.requires_grad)


def _graphs() -> int:
    """Graphs that Dynamo has compiled in this process."""
    dynamo = sys.modules.get("torch._dynamo.utils")  # absent until something is compiled
    return int(dynamo.counters["stats"]["unique_graphs"]) if dynamo else 0
