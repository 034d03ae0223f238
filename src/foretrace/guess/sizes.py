"""Results whose size depends on data: what a guess, which has sizes only, takes for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

_ALL_DIFFER = "how many values differ depends on data: all were taken to"


def assumed(op: str, values: Sequence[Any], notes: dict[str, None]) -> Any:  # noqa: ANN401 - what the op returns
    """The results of ``op`` as sizes that its arguments allow, with a note of what was assumed; ``None`` for others.

    Args:
        op: ``aten::_unique2``.
        values: Its arguments in the order of its schema.
        notes: Where what was assumed is put down.
    """
    rule = _RULES.get(op)
    if rule is None:
        return None
    note, made = rule
    notes[note] = None
    return made(*values)


def _unique(x: Tensor, _sorted: bool, inverse: bool, counts: bool) -> tuple[Tensor, ...]:  # noqa: FBT001 - PyTorch's signature
    return x.new_empty(x.numel()), _indices(x, x.shape, inverse), _indices(x, (x.numel(),), counts)


def _unique_rows(x: Tensor, dim: int, _sorted: bool, inverse: bool, counts: bool) -> tuple[Tensor, ...]:  # noqa: FBT001 - as above
    size = (x.shape[dim],)
    return torch.empty_like(x), _indices(x, size, inverse), _indices(x, size, counts)


def _unique_in_turn(x: Tensor, inverse: bool, counts: bool, dim: int | None) -> tuple[Tensor, ...]:  # noqa: FBT001 - as above
    if dim is not None:
        return _unique_rows(x, dim, False, inverse, counts)  # noqa: FBT003 - as above
    return _unique(x, False, inverse, counts)  # noqa: FBT003 - as above


def _indices(x: Tensor, size: Sequence[int], wanted: bool) -> Tensor:  # noqa: FBT001 - as above
    return x.new_empty(size if wanted else (0,), dtype=torch.long)


def _bins(x: Tensor, weights: Tensor | None, at_least: int) -> Tensor:
    return x.new_empty(max(at_least, 1), dtype=torch.long if weights is None else weights.dtype)


def _repeated(repeats: Tensor, _size: int | None) -> Tensor:
    return repeats.new_empty(repeats.numel(), dtype=torch.long)


_RULES: dict[str, tuple[str, Callable[..., Any]]] = {
    "aten::_unique2": (_ALL_DIFFER, _unique),
    "aten::unique_dim": (_ALL_DIFFER, _unique_rows),
    "aten::unique_consecutive": (_ALL_DIFFER, _unique_in_turn),
    "aten::bincount": ("how many bins there are depends on data: `minlength` was taken", _bins),
    "aten::_nested_tensor_from_mask_left_aligned": (
        "whether all padding comes last depends on data: it was taken to be anywhere, so that it is computed too",
        lambda _x, _mask: False,
    ),
    "aten::repeat_interleave": ("how often rows are repeated depends on data: once was taken", _repeated),
}
