"""Which tensors go to HBM and come back? Written by one kernel, read by a later one that could have been fused with it.

Pairs are inferred from shapes, types and order (`flow`): a trace has no tensor ids. What L2 still holds when the reader
comes does not count. It is taken to hold the latest bytes that moved, as many as fit, so that everything that kernels
in between move pushes the tensor out; and to hold nothing for a reader that runs at the speed of HBM.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from foretrace.ops import short_name
from foretrace.readings.base import Advice, Answer, Column, Reading
from foretrace.readings.carriers import UNNAMED, class_of
from foretrace.readings.costs import LATENCY_NS, costs
from foretrace.readings.flow import Flow, Trip, flow
from foretrace.readings.groups import periods
from foretrace.readings.host import spoken
from foretrace.readings.lines import a_period, event
from foretrace.run import Kind
from foretrace.units import duration, plural, size

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from foretrace.run import Run

ASK = "Which tensors go to HBM and come back?"

# Classes whose kernels a compiler puts into one: each element (or row) of the result needs its own of the input.
_CHAINED = frozenset({"pointwise", "normalization", "softmax", "reduction", "copy", "fill", "random"})
_PRODUCTS = frozenset({"gemm", "conv"})
WORTH_BYTES = 1_000_000
"""Smaller trips are left out: at terabytes a second they take less than a microsecond."""
MEMORY_SPEED = 0.75
"""Share of the peak bandwidth from which a kernel runs at the speed of memory: streaming kernels reach 80 to 93 %."""
MOST_ROWS = 8
_INFERRED = "inferred from shapes, types and order"

_COLUMNS = (
    Column("producer", "written by"),
    Column("consumer", "read by"),
    Column("bytes", "tensor", "bytes"),
    Column("l2_bytes", "L2 holds", "bytes"),
    Column("saved_bytes", "saved", "bytes"),
    Column("saves_ns", "saves µs", "ns"),
    Column("means", "means"),
)


@dataclass(frozen=True, slots=True)
class Pair:
    """A trip that fusing would spare.

    Attributes:
        trip: Producer, consumer and size.
        kind: ``chain`` (a compiler's fused kernel), ``epilogue`` (in a GEMM's) or ``attention`` (between two products).
        held_bytes: How much of the tensor L2 still holds.
        saved_bytes: Written and read again, less what L2 holds of either.
    """

    trip: Trip
    kind: str
    held_bytes: int
    saved_bytes: int


def answer(run: Run) -> Answer | None:
    """The trips of a step and what sparing them is worth; those below a microsecond do not count.

    The verdict is ``nothing`` where there are none, ``in-cache`` where all are below it, ``unknown`` where that cannot
    be told. Silent without kernels.
    """
    pairs = [pair for pair in round_trips(run) if pair.saved_bytes >= WORTH_BYTES]
    if not pairs:
        return _none(run)
    pairs.sort(key=lambda pair: (-_rank(pair.kind), -pair.saved_bytes))
    sentence, verdict = _sentence(run, pairs)
    rows = tuple(_row(run, pair) for pair in pairs[:MOST_ROWS])
    return Answer("round_trips", ASK, sentence, verdict, rows, _COLUMNS, _advice(run, pairs))


def _none(run: Run) -> Answer | None:
    """Nothing to fuse, or nothing that can be told to be: without shapes no tensor is followed."""
    kernels = run.kernels(np.concatenate([*periods(run), np.empty(0, dtype=np.int64)]))
    if not len(kernels):
        return None
    took = run.activities.end_ns[kernels] - run.activities.start_ns[kernels]
    hidden = costs(run).moved_bytes[kernels] < 0
    graph = run.activities.in_graph[kernels]
    if took[hidden | graph].sum() > took.sum() / 2:
        why = "kernels in a CUDA graph record no shapes" if graph.any() else "most kernels have no known shapes here"
        return Answer("round_trips", ASK, f"Whether there is something to fuse is unknown: {why}.", "unknown")
    nameless = np.array([class_of(run, kernel) in UNNAMED for kernel in kernels.tolist()])
    if took[nameless].sum() > took.sum() / 2:
        why = "neither the names of most kernels nor their ops say what they do"
        return Answer("round_trips", ASK, f"Whether there is something to fuse is unknown: {why}.", "unknown")
    in_cache = [pair for pair in round_trips(run) if pair.kind != "attention"]
    if not in_cache:
        text = "Nothing to fuse: no kernel reads what one before it could have handed on without memory."
        return Answer("round_trips", ASK, text, "nothing")
    which = spoken(_pairs(run, in_cache), most=2)
    text = (
        f"Fusing saves launches here, not memory traffic: {plural(len(in_cache), 'tensor')} {a_period(run)} could stay "
        f"inside one kernel ({which}), but all are small or held by L2."
    )
    return Answer("round_trips", ASK, text, "in-cache")


def _rank(kind: str) -> int:
    return ("epilogue", "chain", "attention").index(kind)


@lru_cache(maxsize=2)
def round_trips(run: Run) -> tuple[Pair, ...]:
    """Every trip of one step between kernels that could be one, in order of the reads."""
    followed = flow(run)
    attention = _attention(run, followed)
    moved = _moved_before(run, followed)
    l2 = (run.device.l2_bytes if run.device else None) or 0
    found = []
    for trip in followed.trips:
        kind = "attention" if trip in attention else _kind(run, trip)
        if kind is None:
            continue
        between = moved[trip.consumer][0] - moved[trip.producer][1]
        held = 0 if _read_from_memory(run, trip.consumer) else min(trip.n_bytes, max(l2 - between, 0))
        found.append(Pair(trip, kind, held, 2 * (trip.n_bytes - held)))
    return tuple(found)


def _read_from_memory(run: Run, kernel: int) -> bool:
    """Whether a kernel runs at the speed of memory: no faster, so that L2 gave nothing, and not much slower.

    What is much slower is held up by something else, and its rate says nothing of where its bytes came from.
    """
    spent = int(run.activities.end_ns[kernel] - run.activities.start_ns[kernel])
    needed = costs(run).of(kernel).memory_ns or 0.0
    return spent * MEMORY_SPEED <= needed <= spent - LATENCY_NS


def _kind(run: Run, trip: Trip) -> str | None:
    producer, consumer = (class_of(run, kernel) for kernel in (trip.producer, trip.consumer))
    if consumer not in _CHAINED:
        return None
    if producer in _CHAINED:
        return "chain"
    return "epilogue" if producer in _PRODUCTS and consumer == "pointwise" else None


def _moved_before(run: Run, followed: Flow) -> dict[int, tuple[int, int]]:
    """Bytes moved in the step before and after each of its launches; an unknown work counts as nothing."""
    known = np.maximum(costs(run).moved_bytes[list(followed.order)], 0)
    after = np.cumsum(known)
    spans = zip((after - known).tolist(), after.tolist(), strict=True)
    return dict(zip(followed.order, spans, strict=True))


def _attention(run: Run, followed: Flow) -> frozenset[Trip]:
    """Trips of score matrices: from one product through a softmax to the next, as many elements all the way."""
    into: dict[int, list[Trip]] = {}
    for trip in followed.trips:
        into.setdefault(trip.consumer, []).append(trip)
    found: set[Trip] = set()
    for last in followed.trips:
        if class_of(run, last.consumer) != "gemm":
            continue
        chain, classes = [last], [class_of(run, last.producer)]
        while classes[-1] != "gemm":
            above = next((t for t in into.get(chain[-1].producer, ()) if t.elements == last.elements), None)
            if above is None:
                break
            chain.append(above)
            classes.append(class_of(run, above.producer))
        if classes[-1] == "gemm" and "softmax" in classes:
            found.update(chain)
    return frozenset(found)


def _sentence(run: Run, pairs: Sequence[Pair]) -> tuple[str, str | None]:
    per = a_period(run)
    if run.device is None or not run.device.memory_bytes_per_s:
        total = size(sum(pair.saved_bytes for pair in pairs))
        name = run.device_name or "this device"
        text = (
            f"{total} {per} go to memory and come back ({_INFERRED}); what that costs is "
            f"unknown: no bandwidth is known for {name}."
        )
        return text, "unknown"
    parts: list[str] = []
    for kind, means in (
        ("attention", "attention in one kernel"),
        ("chain", "fusing them"),
        ("epilogue", "an epilogue in the GEMM"),
    ):
        some = [pair for pair in pairs if pair.kind == kind]
        if some:
            saved = sum(pair.saved_bytes for pair in some)
            gain = f"{means} saves {size(saved)} {per}, {duration(_ns(run, saved))} at peak bandwidth"
            if kind == "attention":
                inner, took = _counted(run, _between(run, some)), duration(_between_ns(run, some))
                gain = f"{means} spares the {inner} between, {took} and {size(saved)} beyond L2 {per}"
            label = "" if parts else f" ({_INFERRED})"
            parts.append(f"{_told(run, kind, some)}{label}: {gain}")
    return f"{'. '.join(parts)}.", None


def _told(run: Run, kind: str, pairs: Sequence[Pair]) -> str:
    if kind == "attention":
        return f"A {size(pairs[0].trip.n_bytes)} score matrix makes {len(pairs)} trips between two matrix products"
    told = Counter(
        f"`{_op(run, p.trip.producer)}` writes {size(p.trip.n_bytes)} to HBM and `{_op(run, p.trip.consumer)}` reads "
        "them back"
        for p in pairs
    )
    (most, count), *others = told.most_common()
    times = {1: "", 2: ", twice"}.get(count, f", {count} times")
    more = f", and {plural(sum(n for _, n in others), 'more trip')}" if others else ""
    return f"{most}{times}{more}"


def _op(run: Run, kernel: int) -> str:
    name = run.activity(kernel).op or run.identity(kernel).short
    return short_name(name)


def _ns(run: Run, n_bytes: int) -> float:
    bandwidth = run.device.memory_bytes_per_s if run.device else None
    return n_bytes / bandwidth * 1e9 if bandwidth else 0.0


def _compiled(run: Run, pair: Pair) -> bool:
    """Whether the pair is in compiled code already, which chose not to fuse it."""
    op = int(run.activities.op[pair.trip.consumer])
    inside = ("Torch-Compiled Region", "CompiledFunction")
    return any(run.name(slice_).startswith(inside) for slice_ in run.ancestors(op))


def _means(run: Run, pair: Pair) -> str:
    if pair.kind == "attention":
        return "scaled_dot_product_attention"
    if pair.kind == "epilogue":
        return "a GEMM with an epilogue (a fused layer)"
    return "a fused layer" if _compiled(run, pair) else "torch.compile, or a fused layer"


def _advice(run: Run, pairs: Sequence[Pair]) -> Advice | None:
    """The means for the first kind that there is: they exclude each other, and the first is worth the most."""
    kind = pairs[0].kind
    some = [pair for pair in pairs if pair.kind == kind]
    total = sum(pair.saved_bytes for pair in some)
    if run.device is None or not run.device.memory_bytes_per_s:
        return Advice(
            f"Fuse {spoken(_pairs(run, some))}: {size(total)} {a_period(run)} need not go to memory and back. What "
            "that saves is unknown without the device's limits (--device-spec)."
        )
    saves = round(_ns(run, total))
    if kind == "attention":
        return Advice(
            "Use torch.nn.functional.scaled_dot_product_attention: it keeps the scores on the chip, and what runs on "
            "them between the two products goes away.",
            _between_ns(run, some),
        )
    if kind == "chain":
        tool = "a fused layer" if all(_compiled(run, pair) for pair in some) else "torch.compile or a fused layer"
        more = _ns(run, sum(pair.saved_bytes for pair in pairs if pair.kind == "epilogue"))
        further = f" One that works inside the GEMMs would spare about {duration(more)} more." if more else ""
        text = f"Fuse {spoken(_pairs(run, some))} ({tool}): the tensors between them stay on the chip.{further}"
        return Advice(text, saves)
    return Advice(
        f"Let the GEMM finish the work of {spoken(_consumers(run, some))} before it stores, as a fused layer "
        f"does{_at_least(run)}.",
        saves,
    )


def _at_least(run: Run) -> str:
    """What a compiler fuses even where the GEMM stays as it is: chains whose tensors L2 may hold."""
    chains = [pair for pair in round_trips(run) if pair.kind == "chain" and pair.trip.n_bytes >= WORTH_BYTES]
    eager = [pair for pair in chains if not _compiled(run, pair)]
    return f"; torch.compile at least fuses {spoken(_pairs(run, eager), most=2)}" if eager else ""


def _between_ns(run: Run, pairs: Sequence[Pair]) -> int:
    a, inner = run.activities, _between(run, pairs)
    return int((a.end_ns[inner] - a.start_ns[inner]).sum())


def _between(run: Run, pairs: Sequence[Pair]) -> list[int]:
    """Kernels and copies inside the chain, which all go away: everything that writes or reads it but the products."""
    kernels = {kernel for pair in pairs for kernel in (pair.trip.producer, pair.trip.consumer)}
    return [kernel for kernel in kernels if class_of(run, kernel) != "gemm"]


def _counted(run: Run, activities: Sequence[int]) -> str:
    """``3 kernels and 1 copy``."""
    kinds = Counter(int(kind) for kind in run.activities.kind[list(activities)])
    words = ((Kind.KERNEL, "kernel", "kernels"), (Kind.COPY, "copy", "copies"))
    return " and ".join(plural(kinds[kind], one, many) for kind, one, many in words if kinds[kind])


def _pairs(run: Run, pairs: Iterable[Pair]) -> list[str]:
    return list(dict.fromkeys(f"{_op(run, p.trip.producer)} into {_op(run, p.trip.consumer)}" for p in pairs))


def _consumers(run: Run, pairs: Iterable[Pair]) -> list[str]:
    return list(dict.fromkeys(_op(run, pair.trip.consumer) for pair in pairs))


def _row(run: Run, pair: Pair) -> dict[str, Any]:
    known = run.device is not None and run.device.memory_bytes_per_s
    return {
        "producer": _op(run, pair.trip.producer),
        "consumer": _op(run, pair.trip.consumer),
        "kind": pair.kind,
        "bytes": pair.trip.n_bytes,
        "l2_bytes": pair.held_bytes,
        "saved_bytes": pair.saved_bytes,
        "saves_ns": round(_ns(run, pair.saved_bytes)) if known else None,
        "means": _means(run, pair),
        "inferred": True,
        "event": event(run, pair.trip.producer),
        "consumer_event": event(run, pair.trip.consumer),
    }


READING = Reading("round_trips", ASK, answer)
