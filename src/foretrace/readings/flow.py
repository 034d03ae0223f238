"""Tensors from kernel to kernel: who wrote what a kernel reads. Inferred, because a trace has no tensor ids.

Kernels are followed in the order of their launches. What a kernel writes waits under its size and type until a later
kernel reads a tensor of that size and type; the latest that waits is taken. Views keep their elements, so that a
reshape or a transpose in between does not hide the pair; a slice does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from foretrace.ops import work
from foretrace.ops.args import Args
from foretrace.ops.bytes import Tensor, tensor_bytes
from foretrace.readings.autotuning import benchmarked
from foretrace.readings.carriers import carriers
from foretrace.readings.groups import call_codes, periods
from foretrace.readings.pointers import custom_pointwise, pointers
from foretrace.run import ROOT, Kind, Run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

MOST_FOLLOWED = 20_000
"""Launches of one period that are followed; 5 µs each."""

Key: TypeAlias = tuple[int, str]
"""Elements and type: all that identifies a tensor here."""


@dataclass(frozen=True, slots=True)
class Trip:
    """A tensor that one kernel wrote and a later one read: its elements, and its bytes once."""

    producer: int
    consumer: int
    elements: int
    n_bytes: int


@dataclass(frozen=True, slots=True)
class Flow:
    """The tensors of one step.

    Attributes:
        period: Position of the step that was followed among `groups.periods`.
        order: Its launches that move tensors, in order; activities.
        trips: Tensors read after they were written, in order of the reads.
        overwriting: Call codes (`groups.call_codes`) of generated kernels that write over their first pointer.
    """

    period: int = 0
    order: tuple[int, ...] = ()
    trips: tuple[Trip, ...] = ()
    overwriting: frozenset[int] = field(default_factory=frozenset)


@dataclass(frozen=True, slots=True)
class _Call:
    """What one kind of call reads and writes; ``unassigned`` pointers of a generated kernel may be either."""

    reads: tuple[Tensor, ...] = ()
    writes: tuple[Tensor, ...] = ()
    unassigned: tuple[Tensor, ...] = ()


@lru_cache(maxsize=2)
def flow(run: Run) -> Flow:
    """Follow the tensors of the step whose number of activities is the median."""
    every = periods(run)
    if not every:
        return Flow()
    period = sorted(range(len(every)), key=lambda i: len(every[i]))[len(every) // 2]
    order = _launch_order(run, every[period])
    codes = call_codes(run, order).tolist()
    kinds: dict[int, _Call] = {}
    waiting: dict[Key, list[int]] = {}
    trips: list[Trip] = []
    overwriting: set[int] = set()
    for activity, code in zip(order.tolist(), codes, strict=True):
        if code not in kinds:
            kinds[code] = _call(run, activity)
        call = kinds[code]
        if call.unassigned:
            call = _assign(call.unassigned, waiting)
            if call.reads and call.writes and call.writes[0] is call.reads[0]:
                overwriting.add(activity)
        for tensor in call.reads:
            writers = waiting.get(_key(tensor))
            if writers:
                trips.append(Trip(writers.pop(), activity, tensor.elements, tensor_bytes(tensor) or 0))
        for tensor in call.writes:
            waiting.setdefault(_key(tensor), []).append(activity)
    return Flow(period, tuple(order.tolist()), tuple(trips), frozenset(overwriting))


def _launch_order(run: Run, period: Ints) -> Ints:
    """Carriers and copies inside the device, by the start of their launch."""
    activities = run.activities
    copies = (activities.kind == Kind.COPY) & (activities.op != ROOT) & ~activities.in_graph
    wanted = copies & ~benchmarked(run)
    wanted[carriers(run)] = ~benchmarked(run)[carriers(run)]
    chosen = period[wanted[period]]
    by_launch = np.argsort(run.host.start_ns[activities.launch[chosen]], kind="stable")
    followed: Ints = chosen[by_launch][:MOST_FOLLOWED]
    return followed


def _key(tensor: Tensor) -> Key:
    return tensor.elements, tensor.dtype or ""


def _call(run: Run, activity: int) -> _Call:
    op = int(run.activities.op[activity])
    shapes, dtypes, concrete, strides = (
        run.op_argument(op, column) for column in ("dims", "types", "concrete", "strides")
    )
    identity = run.identity(activity)
    if identity.family == "inductor":
        found = pointers(identity, shapes, dtypes, concrete, strides)
        if found is None:
            return _Call()
        if identity.op_class == "gemm":  # a template's result comes last
            return _Call(found.tensors[:-1], found.tensors[-1:])
        return _Call(unassigned=found.tensors)
    name = run.name(op)
    done = work(name, shapes, dtypes, concrete, strides)
    if done is None:
        custom = custom_pointwise(identity, shapes, dtypes, strides)
        return _Call(custom.tensors[:-1], custom.tensors[-1:]) if custom else _Call()
    if done.out_shape is None or done.out_dtype is None:
        return _Call()
    written = Tensor(done.out_shape, done.out_dtype)
    given = Args(shapes or (), dtypes or (), concrete or (), strides or ()).all_tensors()
    return _Call(_read(given, done.read_bytes, done.written_bytes, inplace=name.endswith("_")), (written,))


def _read(given: Sequence[Tensor], read: int | None, written: int | None, *, inplace: bool) -> tuple[Tensor, ...]:
    """The tensors among the arguments that are read: all but the one that only takes the result."""
    sizes = [tensor_bytes(tensor) for tensor in given]
    if len(given) < 2 or read is None or written is None or None in sizes:  # noqa: PLR2004 - one is read
        return tuple(given)
    takes_result = sum(size for size in sizes if size is not None) == read + written
    if not takes_result:
        return tuple(given)
    return tuple(given[1:] if inplace else given[:-1])


def _assign(tensors: Sequence[Tensor], waiting: dict[Key, list[Any]]) -> _Call:
    """Read and written pointers of a generated kernel.

    A pointer whose like waits is read. What is left is written, or an input of the graph; the last is a result. Where
    nothing is left, the first pointer is both: Inductor puts a result that overwrites an input first, and it overwrites
    an input of the result's size whenever that input is not needed again.
    """
    left = {key: len(waiting.get(key, ())) for key in map(_key, tensors)}
    reads, rest = [], []
    for tensor in tensors:
        if left[_key(tensor)]:
            left[_key(tensor)] -= 1
            reads.append(tensor)
        else:
            rest.append(tensor)
    if not rest and not any(left.values()):
        return _Call(tuple(reads), (reads[0],))
    return _Call(tuple(reads), tuple(rest[-1:]))
