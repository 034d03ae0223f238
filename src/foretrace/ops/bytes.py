"""Tensors as a trace describes them, and the bytes that they occupy in memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from foretrace.ops.dtypes import dtype_bytes
from foretrace.ops.unsaid import UnsaidError

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor argument or result; raises `UnsaidError` for sizes that no tensor has.

    Attributes:
        shape: Sizes, outermost first; ``()`` is a tensor of one element.
        dtype: Short name of the element type, or ``None`` where the file does not say.
        strides: Strides in elements, or ``None`` where the file does not say (taken as dense).
    """

    shape: tuple[int, ...]
    dtype: str | None
    strides: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if any(size < 0 for size in self.shape):
            raise UnsaidError

    @property
    def elements(self) -> int:
        """Number of elements that the shape addresses."""
        return math.prod(self.shape)

    def dense(self) -> bool:
        """Whether the strides are those of a contiguous tensor; false when they are not known."""
        if self.strides is None:
            return False
        expected = 1
        for size, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if size != 1 and stride != expected:
                return self.elements == 0
            expected *= size
        return True


def unique_elements(tensor: Tensor) -> int:
    """Elements that lie in memory: an expanded dimension (stride 0) counts once, overlapping windows once."""
    if tensor.strides is None or tensor.dense():
        return tensor.elements
    addressed, span = 1, 1
    for size, stride in zip(tensor.shape, tensor.strides, strict=True):
        addressed *= size if stride else min(size, 1)
        span += (size - 1) * stride
    return min(addressed, max(span, 0))


def tensor_bytes(tensor: Tensor) -> int | None:
    """Bytes of the tensor's unique elements; ``None`` when its element type is not known."""
    width = None if tensor.dtype is None else dtype_bytes(tensor.dtype)
    return None if width is None else unique_elements(tensor) * width


def total_bytes(tensors: Iterable[Tensor] | None) -> int | None:
    """Bytes of all ``tensors`` together; ``None`` as soon as one is not known."""
    if tensors is None:
        return None
    total = 0
    for tensor in tensors:
        n_bytes = tensor_bytes(tensor)
        if n_bytes is None:
            return None
        total += n_bytes
    return total
