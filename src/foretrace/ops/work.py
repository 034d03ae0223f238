"""What one op costs, and the form in which the families of ops say it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from foretrace.ops.args import Args
from foretrace.ops.bytes import Tensor  # noqa: TC001 - dataclass fields, kept readable at run time


@dataclass(frozen=True, slots=True)
class Work:
    """The work of one call of one op; ``None`` means that the arguments do not say.

    Attributes:
        op_class: As in the contract of kernels: ``gemm``, ``pointwise``, ``copy``… ``other`` for bookkeeping.
        flops: Arithmetic operations; a special function counts as one.
        read_bytes: Bytes of the inputs, each element that lies in memory once.
        written_bytes: Bytes of the results.
        launches: Whether the op puts work on the device, by itself or through the ops that it calls.
        dtype: Short element type that the arithmetic takes as input: the one to look a peak up by.
        out_shape: Sizes of the first result.
        out_dtype: Short element type of the first result.
    """

    op_class: str
    flops: int | None
    read_bytes: int | None
    written_bytes: int | None
    launches: bool | None
    dtype: str | None = None
    out_shape: tuple[int, ...] | None = None
    out_dtype: str | None = None

    @property
    def moved_bytes(self) -> int | None:
        """Bytes read and written together."""
        if self.read_bytes is None or self.written_bytes is None:
            return None
        return self.read_bytes + self.written_bytes

    @property
    def intensity(self) -> float | None:
        """Arithmetic intensity, FLOPs a byte moved; ``None`` when either is unknown or nothing moves."""
        return self.flops / self.moved_bytes if self.flops is not None and self.moved_bytes else None


@dataclass(frozen=True, slots=True)
class Figures:
    """What a family's rule says of one call.

    Attributes:
        flops: Arithmetic operations.
        reads: Tensors read, as much of them as is touched; ``None`` when that is not known.
        writes: Tensors written, the op's first result first; ``None`` when they are not known.
        dtype: Short type of the arithmetic; by default that of the first tensor read.
        launches: False when this call only makes a view, ``None`` when the arguments do not tell.
    """

    flops: int | None = None
    reads: tuple[Tensor, ...] | None = None
    writes: tuple[Tensor, ...] | None = None
    dtype: str | None = None
    launches: bool | None = True


Rule: TypeAlias = Callable[[Args], Figures]


@dataclass(frozen=True, slots=True)
class Entry:
    """One op of the table: its class, its rule, and whether other ops do the work on its behalf."""

    op_class: str
    rule: Rule
    composite: bool = False


def unknown(_args: Args) -> Figures:
    """The rule of ops whose cost depends on values, not on shapes."""
    return Figures()


def result(args: Args, computed: Tensor, index: int) -> Tensor:
    """Where a result lands: the op's own first argument in place, an ``out=`` at ``index`` or later, or new."""
    if args.inplace:
        return args.tensor(0)
    given = (args.find(position) for position in range(index, len(args)))
    return next((tensor for tensor in given if tensor is not None), computed)
