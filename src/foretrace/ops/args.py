"""The arguments of one op, as Kineto records them: four parallel lists of shapes, types, values and strides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from foretrace.ops.bytes import Tensor
from foretrace.ops.dtypes import scalar_type, short_dtype
from foretrace.ops.unsaid import UnsaidError

if TYPE_CHECKING:
    from collections.abc import Sequence

_NO_TENSOR = {"", "scalar", "scalarlist", "tensorlist", "genericlist", "optionaltensorlist", "device", "string"}


@dataclass(frozen=True, slots=True)
class Args:
    """Positional access to an op's arguments, in the order of its schema.

    Args:
        shapes: ``Input Dims``: sizes for a tensor, ``[]`` for a scalar or 0-dim tensor, a list of sizes for a list.
        dtypes: ``Input type``: an element type for a tensor; ``Scalar``, ``ScalarList``, ``TensorList`` or the
            empty string for the rest. A list may stand for a ``TensorList`` whose element types are known.
        concrete: ``Concrete Inputs``: the values of scalars and lists of scalars as text.
        strides: ``Input Strides``, shaped as ``shapes``.
        inplace: Whether the op writes its first argument (``add_``).
    """

    shapes: Sequence[object]
    dtypes: Sequence[object]
    concrete: Sequence[object]
    strides: Sequence[object]
    inplace: bool = False

    def __len__(self) -> int:
        return max(len(_listed(items)) for items in (self.shapes, self.dtypes, self.concrete))

    def find(self, index: int | None) -> Tensor | None:
        """The tensor at ``index``, or ``None`` when there is none (absent, a scalar, a list)."""
        if index is None or not 0 <= index < len(_listed(self.shapes)):
            return None
        kind = _at(self.dtypes, index)
        dtype = short_dtype(kind) if isinstance(kind, str) else None
        if dtype is None and not _may_be_tensor(kind):
            return None
        shape = _sizes(self.shapes[index])
        if shape is None or (kind is None and not shape):
            return None
        strides = _sizes(_at(self.strides, index))
        return Tensor(shape, dtype, strides if strides is not None and len(strides) == len(shape) else None)

    def tensor(self, index: int) -> Tensor:
        """The tensor at ``index``; raises `UnsaidError` when there is none."""
        tensor = self.find(index)
        if tensor is None:
            raise UnsaidError
        return tensor

    def tensors(self, index: int) -> list[Tensor]:
        """The tensors of the list at ``index``; raises `UnsaidError` when there is no list.

        Kineto names the element types of no list, so these tensors mostly have ``dtype=None``.
        """
        shapes = _at(self.shapes, index)
        kinds = _at(self.dtypes, index)
        if not isinstance(shapes, list | tuple) or (isinstance(kinds, str) and kinds != "TensorList"):
            raise UnsaidError
        inner = Args(
            shapes=shapes,
            dtypes=kinds if isinstance(kinds, list | tuple) else ["?"] * len(shapes),
            concrete=(),
            strides=_listed(_at(self.strides, index)),
        )
        return [inner.tensor(position) for position in range(len(shapes))]

    def all_tensors(self) -> list[Tensor]:
        """Every single tensor among the arguments, in order; lists are left out."""
        found = (self.find(index) for index in range(len(_listed(self.shapes))))
        return [tensor for tensor in found if tensor is not None]

    def is_a(self, index: int, kind: str) -> bool:
        """Whether the argument at ``index`` is recorded as ``kind`` (``Scalar``, ``ScalarList``, ``TensorList``)."""
        return _at(self.dtypes, index) == kind

    def text(self, index: int) -> str | None:
        """The value at ``index`` as text; ``None`` when the file holds none."""
        value = _at(self.concrete, index)
        return None if value is None or value == "" else str(value).strip()

    def number(self, index: int, default: float | None = None) -> float:
        """The scalar at ``index``, ``default`` when it was not given; raises `UnsaidError` when it is no number."""
        text = self.text(index)
        try:
            return float(_given(text, default))
        except ValueError as error:
            raise UnsaidError from error

    def integer(self, index: int, default: int | None = None) -> int:
        """The integer at ``index``, as `number`."""
        number = self.number(index, default)
        if not number.is_integer():
            raise UnsaidError
        return int(number)

    def integers(self, index: int) -> list[int]:
        """The integers of the list (or the one integer) at ``index``; raises `UnsaidError` without them."""
        text = self.text(index)
        if text is None:
            raise UnsaidError
        items = [item.strip() for item in text.strip("[]()").split(",") if item.strip()]
        try:
            return [int(item) for item in items]
        except ValueError as error:
            raise UnsaidError from error

    def flag(self, index: int, *, default: bool | None = None) -> bool:
        """The truth value at ``index``, ``default`` when it was not given."""
        text = self.text(index)
        if text is None and default is not None:
            return default
        if text not in ("True", "False", "1", "0"):
            raise UnsaidError
        return text in ("True", "1")

    def flags(self, index: int) -> list[bool]:
        """The truth values of the list at ``index``, as ``output_mask`` is recorded."""
        text = self.text(index)
        if text is None:
            raise UnsaidError
        return [item.strip() in ("True", "1") for item in text.strip("[]()").split(",")]

    def dtype(self, index: int | None) -> str | None:
        """The element type that a ``dtype=`` argument names, by number or by name; ``None`` when not given."""
        text = None if index is None else self.text(index)
        if text is None:
            return None
        named = scalar_type(int(text)) if text.isdecimal() else short_dtype(text)
        if named is None:
            raise UnsaidError
        return named


def _may_be_tensor(kind: object) -> bool:
    """Whether a kind without a known element type is one at all: unrecorded, or a type that is new."""
    return kind is None or (isinstance(kind, str) and kind.strip().lower() not in _NO_TENSOR)


def _at(items: Sequence[object], index: int) -> object:
    listed = _listed(items)
    return listed[index] if index < len(listed) else None


def _listed(value: object) -> Sequence[object]:
    return value if isinstance(value, list | tuple) else ()


def _sizes(value: object) -> tuple[int, ...] | None:
    """A list of non-negative integers as a tuple; ``None`` for anything else (symbols, nested lists)."""
    if not isinstance(value, list | tuple):
        return None
    for size in value:
        if type(size) is not int or size < 0:
            return None
    return tuple(value)


def _given(text: str | None, default: float | None) -> str | float:
    if text is not None:
        return {"True": "1", "False": "0"}.get(text, text)
    if default is None:
        raise UnsaidError
    return default
