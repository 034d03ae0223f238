"""One kernel that a call launches, and what it costs where the table of ops does not say."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from foretrace.ops import Tensor, Work, short_dtype, total_bytes, work

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from foretrace.guess.record import Call

_BY_VALUES = frozenset({"gather-scatter", "sort"})
"""Classes of ops that read as much of a tensor as its values, or an index, say."""


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel that a call launches.

    Attributes:
        op: The innermost op, as a trace names it.
        op_class: Its class, as the kernel's name would say it.
        shapes: Sizes of the op's tensors.
        work: What it costs, or ``None``.
        epilogue, why: As in `GuessedKernel`.
    """

    op: str
    op_class: str
    shapes: tuple[Any, ...]
    work: Work | None
    epilogue: str | None = None
    why: str | None = None


def shapes_of(call: Call) -> tuple[Any, ...]:
    """The sizes of its tensors."""
    return tuple(_tuples(shape) for shape in call.shapes if shape)


def filled(shape: Sequence[int] | None, dtype: str | None) -> Launch:
    """Zeros written over a tensor."""
    done = None if shape is None or dtype is None else work("aten::fill_", [list(shape), []], [dtype, "Scalar"])
    return Launch("aten::fill_", "fill", (), done)


def other(op: str, op_class: str, shapes: Sequence[Sequence[int]], dtype: str | None) -> Launch:
    """An op that a call makes beside its own, over tensors of these sizes and one type."""
    done = work(op, [list(shape) for shape in shapes], [dtype or ""] * len(shapes))
    return Launch(op, op_class, tuple(tuple(shape) for shape in shapes), done)


def least_work(call: Call, done: Work | None) -> Work | None:
    """The work, with the bytes that it must move where the table does not know them.

    Each tensor that the call was given is read once and each that it returned written once; of a tensor that is indexed
    as much is read as comes out.
    """
    if not call.results or (done is not None and done.moved_bytes is not None):
        return done
    op_class = done.op_class if done is not None else "pointwise" if call.hint == "pointwise" else "other"
    given = tuple(_given(call.shapes, call.dtypes, call.strides))
    if call.op in {"aten::index", "aten::_unsafe_index"}:
        given = (*call.results, *given[1:])
    elif op_class in _BY_VALUES:
        return done
    first = given[0] if given else call.results[0]
    done = done or Work(op_class, None, None, None, launches=True)
    return replace(
        done,
        read_bytes=total_bytes(given),
        written_bytes=total_bytes(call.results),
        dtype=done.dtype or first.dtype,
        out_shape=call.results[0].shape,
        out_dtype=call.results[0].dtype,
    )


def _given(shapes: Sequence[Any], dtypes: Sequence[Any], strides: Sequence[Any]) -> Iterator[Tensor]:
    for shape, dtype, stride in zip(shapes, dtypes, strides, strict=True):
        if isinstance(dtype, list | tuple):
            yield from _given(shape, dtype, stride)
        elif (short := short_dtype(dtype)) is not None:
            yield Tensor(tuple(shape), short, tuple(stride))


def _tuples(value: Any) -> Any:  # noqa: ANN401 - nested lists of sizes
    return tuple(_tuples(item) for item in value) if isinstance(value, list | tuple) else value
