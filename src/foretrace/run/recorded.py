"""What a file says of an op's arguments and of a launch, let through only where it is well formed.

Everything downstream indexes and multiplies these lists; whatever could not be one (text for a size, a bare number, a
size that no memory holds) is unknown.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_ELEMENTS = 1 << 50
"""More elements than any machine holds: such sizes are no sizes, and their products would leave 64 bits."""
_DEEPEST = 3
"""Lists of an op's arguments, of the tensors of one argument, of the sizes of one tensor."""


def argument(column: str, value: object) -> list[Any] | None:
    """The list behind ``dims``, ``types``, ``strides`` or ``concrete``, or ``None`` where it is malformed."""
    if not isinstance(value, list):
        return None
    if column == "concrete":
        return value
    if column == "types":
        return value if all(isinstance(kind, str) for kind in value) else None
    fine = all(isinstance(one, list) and _fine(one, _LARGEST[column], _DEEPEST - 1) for one in value)
    return value if fine else None


def extent(value: object) -> list[int] | None:
    """A grid or a block, [x, y, z]; ``None`` where it is malformed."""
    if not isinstance(value, list) or not value or not all(type(size) is int and size > 0 for size in value):
        return None
    return value if math.prod(value) < MOST_ELEMENTS else None


def _fine(value: list[Any], largest: Callable[[list[int]], int], depth: int) -> bool:
    """Whether a list holds the figures of one tensor, or lists of such."""
    if value and all(isinstance(one, list) for one in value):
        return depth > 0 and all(_fine(one, largest, depth - 1) for one in value)
    return all(type(size) is int and size >= 0 for size in value) and largest(value) < MOST_ELEMENTS


def _elements(sizes: list[int]) -> int:
    return math.prod(size for size in sizes if size)


def _longest(strides: list[int]) -> int:
    return max(strides, default=0)


_LARGEST = {"dims": _elements, "strides": _longest}
"""What must stay below `MOST_ELEMENTS`."""
