"""Who waits for whom? What one rank's file says of its collectives; other ranks' files say the rest."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from foretrace import stats
from foretrace.names import decode
from foretrace.ops import dtype_bytes
from foretrace.readings.base import Answer, Column, Reading
from foretrace.readings.host import step_count
from foretrace.run import ROOT, Kind, Run
from foretrace.run.intervals import covered_each_ns, covered_ns, union_ns
from foretrace.units import duration, percent, plural, rate, size

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from foretrace.trace import Collective

    Ints = NDArray[np.int64]

ASK = "Who waits for whom?"

# forms of one collective: all_gather_into_tensor, reduce_scatter_tensor_coalesced, broadcast_oop, all_to_allv
_SUFFIX = re.compile(r"(_into_tensor|_tensor|_base|_coalesced|_oop|_single|(?<=all)v)+$")

_COLUMNS = (
    Column("collective", "collective"),
    Column("algorithm", "kernel"),
    Column("count", "calls", "count"),
    Column("moved_bytes", "each", "bytes"),
    Column("group_size", "ranks", "count"),
    Column("median_ns", "median µs", "ns"),
    Column("least_ns", "least µs", "ns"),
    Column("most_ns", "most µs", "ns"),
    Column("exposed_ns", "exposed µs", "ns"),
)


@lru_cache(maxsize=2)
def is_collective(run: Run) -> NDArray[np.bool_]:
    """Which activities are kernels of a communication library, [activities]."""
    names = run.trace.columns.name[run.activities.row]
    wanted = [int(c) for c in np.unique(names) if decode(run.trace.tables.name[c]).op_class == "collective"]
    found: NDArray[np.bool_] = np.isin(names, wanted) & (run.activities.kind == Kind.KERNEL)
    return found


def exposed_ns(run: Run, collectives: Ints | None = None) -> int:
    """Time of ``collectives`` (all by default) during which no other kernel and no set ran; copies hide nothing.

    A copy engine's work would not have kept the multiprocessors busy either.
    """
    a = run.activities
    every = is_collective(run)
    mine = every if collectives is None else collectives
    points = a.start_ns[mine], a.end_ns[mine]
    return union_ns(*points) - covered_ns(points, _hiding(run))


def exposed_each_ns(run: Run) -> Ints:
    """`exposed_ns` of every collective's kernel, in the order of their start."""
    a, talking = run.activities, is_collective(run)
    start, end = a.start_ns[talking], a.end_ns[talking]
    return end - start - covered_each_ns(start, end, _hiding(run))


def _hiding(run: Run) -> tuple[Ints, Ints]:
    """When something ran that hides communication."""
    a = run.activities
    hiding = ~is_collective(run) & (a.kind != Kind.COPY)
    return a.start_ns[hiding], a.end_ns[hiding]


def answer(run: Run) -> Answer | None:
    """Collectives by kind and size: calls, bytes, time, exposed time; silent without any.

    The verdict is ``exposed`` where at least half of their time is, else ``hidden``; ``unknown`` where the file holds
    calls to collectives and no kernel of theirs. Who is late can be read only from all ranks' files together.
    """
    found = np.flatnonzero(is_collective(run))
    if not len(found):
        called = plural(len(run.trace.collectives), "collective")
        text = f"Unknown: {called} called, and no kernel of a communication library in the file."
        return Answer("collectives", ASK, text, verdict="unknown") if run.trace.collectives else None
    rows = _rows(run, found)
    whole = union_ns(run.activities.start_ns[found], run.activities.end_ns[found])
    exposed = exposed_ns(run)
    kinds = ", ".join(f"{row['count']:,} {row['collective']}{_sized(row)}" for row in rows[:3])
    more = " and more" if len(rows) > 3 else ""  # noqa: PLR2004 - three kinds are spoken of
    where = f"rank {run.rank}" if run.rank is not None else "this rank"
    sentence = (
        f"{duration(whole)} of communication on {where}, {duration(exposed)} of it exposed ({percent(exposed, whole)}; "
        f"hidden by kernels and sets, not by copies): {kinds}{more}.{_waiting(run, rows)}"
    )
    orphans = int((run.activities.launch[found] == ROOT).sum())
    if orphans:
        sentence += f" {plural(orphans, 'of them was', 'of them were')} launched before this file begins."
    return Answer("collectives", ASK, sentence, "exposed" if 2 * exposed >= whole else "hidden", tuple(rows), _COLUMNS)


def _sized(row: dict[str, Any]) -> str:
    return f" of {size(row['moved_bytes'])}" if row["moved_bytes"] is not None else " (size not recorded)"


def _rows(run: Run, found: Ints) -> list[dict[str, Any]]:
    groups: dict[tuple[Any, ...], list[int]] = {}
    for activity in found.tolist():
        told = said(run, activity)
        name = run.activity_name(activity)
        key = (
            (name, told.name, told.in_elements, told.dtype, told.group_size) if told else (name, None, None, None, None)
        )
        groups.setdefault(key, []).append(activity)
    rows = [_row(run, key, members) for key, members in groups.items()]
    return sorted(rows, key=lambda row: -row["total_ns"])


def said(run: Run, activity: int) -> Collective | None:
    """The collective's arguments, on the kernel itself or on a slice around its launch."""
    known = run.trace.collectives
    row = int(run.activities.row[activity])
    if row in known:
        return known[row]
    launch = int(run.activities.launch[activity])
    rows = (int(run.host.row[slice_]) for slice_ in run.ancestors(launch))
    return next((known[row] for row in rows if row in known), None)


def _row(run: Run, key: tuple[Any, ...], members: list[int]) -> dict[str, Any]:
    a = run.activities
    name, collective, elements, dtype, ranks = key
    took = (a.end_ns[members] - a.start_ns[members]).tolist()
    decoded = decode(name)
    moved = moved_bytes(elements, dtype)
    median = stats.median(took)
    return {
        "collective": kind_of(collective) or decoded.short,
        "algorithm": decoded.short,
        "name": name,
        "count": len(members),
        "a_step": len(members) / step_count(run),
        "moved_bytes": moved,
        "group_size": ranks,
        "median_ns": median,
        "least_ns": min(took),
        "most_ns": max(took),
        "total_ns": sum(took),
        "exposed_ns": exposed_ns(run, np.array(members)),
        "rate": rate(moved, min(took)) if moved and min(took) else None,
        "event": int(run.trace.columns.index[a.row[members[0]]]),
    }


def moved_bytes(elements: int | None, dtype: str | None) -> int | None:
    """Bytes of a message; ``None`` where the file does not say."""
    element_bytes = dtype_bytes(dtype) if dtype else None
    return elements * element_bytes if elements is not None and element_bytes is not None else None


def kind_of(name: str | None) -> str | None:
    """NCCL's word for a collective, spelled as people do: ``allreduce`` → ``all-reduce``."""
    if name is None:
        return None
    bare = _SUFFIX.sub("", name.strip("_").replace("alltoall", "all_to_all"))
    for part in ("all", "reduce"):
        if bare.startswith(part) and len(bare) > len(part):
            bare = f"{part}_{bare[len(part) :].strip('_')}"
    return bare.replace("_", "-")


def _waiting(run: Run, rows: list[dict[str, Any]]) -> str:
    """What the durations alone say of waiting: a small message that takes longer than a large one was not moving."""
    sized = [row for row in rows if row["moved_bytes"] is not None]
    pairs = [
        (small, large)
        for small in sized
        for large in sized
        if small["moved_bytes"] < large["moved_bytes"] and small["median_ns"] > large["median_ns"]
    ]
    text = ""
    if pairs:
        small, large = max(pairs, key=lambda pair: pair[0]["median_ns"])
        text = (
            f" {size(small['moved_bytes'])} take {duration(small['median_ns'])} and {size(large['moved_bytes'])} "
            f"{duration(large['median_ns'])}: the small ones wait for another rank."
        )
    if (run.world_size or 0) > 1:
        text += " One rank's file cannot tell moving from waiting: `foretrace fleet` reads all ranks' together."
    return text


READING = Reading("collectives", ASK, answer)
