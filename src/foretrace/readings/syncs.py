"""Where does the CPU wait?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from foretrace import stats
from foretrace.readings import gaps
from foretrace.readings.base import Advice, Answer, Column, Reading
from foretrace.readings.calls import Call, calls
from foretrace.readings.host import (
    a_step,
    busy_within,
    costly_cpu_op,
    events,
    in_compile,
    in_scope,
    launches_something,
    lengths,
    per_step,
    plain,
    step_count,
    waits,
)
from foretrace.readings.idle import span
from foretrace.run import ROOT, Kind, Run
from foretrace.units import duration, percent, plural

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

ASK = "Where does the CPU wait?"

_SPOKEN = 3
_MANY = 5_000  # beyond this the innermost op stands for the asking one
_WORTH_SHARE = 0.01
_READS_BACK = ("aten::item", "aten::_local_scalar_dense")
_COLUMNS = (
    Column("op", "asked by"),
    Column("call", "call"),
    Column("count", "a step", "count"),
    Column("median_ns", "CPU waits µs", "ns"),
    Column("least_ns", "least µs", "ns"),
    Column("most_ns", "most µs", "ns"),
    Column("op_ns", "whole op µs", "ns"),
    Column("gpu_busy_ns", "GPU busy then µs", "ns"),
)


def answer(run: Run) -> Answer | None:
    """Calls of the steps that hold the CPU: synchronize calls, and copies that return only when they are done.

    A copy holds the CPU when its host memory is pageable or when the call outlives it. Waits of a compilation are its
    own cost and left out. The verdict is ``waits``,
    ``no-waits`` (``.item()`` was called, and none of it waited) or ``unknown`` (no runtime calls in the file). Silent
    where nothing waits but for the end of the work, and nothing was read back, or where there is no GPU to wait for.
    """
    if not len(run.activities):
        return None
    kind = calls(run)
    slices = np.flatnonzero(((kind == Call.WAIT) | _holding(run)) & in_scope(run) & ~in_compile(run))
    rows = _rows(run, slices)
    idle_items = _unwaited(run)
    inner = [row for row in rows if not row["final"]]
    if not inner and not len(idle_items):
        if len(run.activities) and not (run.host.kind == Kind.LAUNCH).any():
            return Answer("syncs", ASK, "Unknown: the file holds no runtime calls.", verdict="unknown")
        return None
    parts = [_elsewhere(run, inner), _waits(run, inner), _items(run, idle_items, inner), _final(rows)]
    verdict = "waits" if inner else "no-waits"
    sentence = " ".join(part for part in parts if part)
    return Answer("syncs", ASK, sentence, verdict, tuple(rows), _COLUMNS if rows else (), _advice(run, inner))


def _holding(run: Run) -> NDArray[np.bool_]:
    """Copy calls that return when the copy is done, or that stage pageable memory, [slices]."""
    a = run.activities
    copies = np.flatnonzero((a.kind == Kind.COPY) & (a.launch != ROOT) & ~a.in_graph)
    found = np.zeros(len(run.host), dtype=np.bool_)
    if len(copies):
        names = run.trace.columns.name[a.row[copies]]
        pageable = [code for code, name in enumerate(run.trace.tables.name) if "Pageable" in name]
        outlived = run.host.end_ns[a.launch[copies]] >= a.end_ns[copies]
        found[a.launch[copies[np.isin(names, pageable) | outlived]]] = True
    return found


def _rows(run: Run, slices: Ints) -> list[dict[str, Any]]:
    """One row for each (asking op, call); the waits after the last launch stand apart."""
    if not len(slices):
        return []
    launched = run.activities.launch[run.activities.launch != ROOT]
    last = int(run.host.start_ns[launched].max()) if len(launched) else -1
    final = (run.host.start_ns[slices] > last) & (run.host.op[slices] == ROOT)
    asking = np.array([_asking(run, int(s)) for s in slices]) if len(slices) < _MANY else run.host.op[slices]
    names = run.trace.columns.name[run.host.row]
    keys = np.stack([np.where(asking != ROOT, names[asking], ROOT), names[slices], final], axis=1)
    every, places = np.unique(keys, axis=0, return_inverse=True)
    busy = busy_within(run, run.host.start_ns[slices], run.host.end_ns[slices])
    copied = _copied(run)
    rows = []
    for place in range(len(every)):
        members = np.flatnonzero(places.ravel() == place)
        held, ops = lengths(run, slices[members]), asking[members]
        op = int(ops[0])
        rows.append(
            {
                "op": run.name(op) if op != ROOT else None,
                "call": run.name(int(slices[members[0]])),
                "copy": bool(calls(run)[slices[members[0]]] == Call.COPY),
                "final": bool(final[members[0]]),
                "count": per_step(run, slices[members]),
                "median_ns": stats.median(held.tolist()),
                "least_ns": int(held.min()),
                "most_ns": int(held.max()),
                "total_ns": int(held.sum()),
                "op_ns": stats.median(lengths(run, ops).tolist()) if op != ROOT else None,
                "op_least_ns": int(lengths(run, ops).min()) if op != ROOT else None,
                "op_most_ns": int(lengths(run, ops).max()) if op != ROOT else None,
                "copy_ns": copied.get(int(slices[members[0]])),
                "gpu_busy_ns": stats.median(busy[members].tolist()),
                "event": events(run, slices[members[:1]])[0],
            }
        )
    return sorted(rows, key=lambda row: -row["total_ns"])


def _copied(run: Run) -> dict[int, int]:
    """Copy call → how long the copy itself ran on the device."""
    a = run.activities
    copies = np.flatnonzero((a.kind == Kind.COPY) & (a.launch != ROOT))
    took = a.end_ns[copies] - a.start_ns[copies]
    return dict(zip(a.launch[copies].tolist(), took.tolist(), strict=True))


def _asking(run: Run, slice_: int) -> int:
    """The op that a person would name: the outermost of the unbroken chain of ``aten`` ops around a call."""
    op = int(run.host.op[slice_])
    while op != ROOT:
        above = int(run.host.parent[op])
        if above == ROOT or not (run.name(op).startswith("aten::") and run.name(above).startswith("aten::")):
            break
        op = above
    return op


def _between(least: float, most: float) -> str:
    low, high = duration(least), duration(most)
    if low == high:
        return low
    number, unit = low.split(" ")
    return f"{number} to {high}" if high.endswith(f" {unit}") else f"{low} to {high}"


def _waits(run: Run, rows: list[dict[str, Any]]) -> str:
    if not rows:
        return ""
    total = duration(sum(row["total_ns"] for row in rows) / step_count(run))
    texts = []
    for row in rows[:_SPOKEN]:
        held = _between(row["least_ns"], row["most_ns"])
        asked = f"{row['op']}: " if row["op"] else ""
        times = f"{row['count']:,.0f}× " if row["count"] > 1 else ""
        whole = ""
        if row["op"] in _READS_BACK:
            whole = f" (the whole op {_between(row['op_least_ns'], row['op_most_ns'])})"
        kind = "blocking " if row["copy"] else ""
        texts.append(f"{asked}{times}{kind}{row['call']} {held}{whole}{_behind(row)}")
    more = f"; {plural(len(rows) - _SPOKEN, 'more place')} in the table" if len(rows) > _SPOKEN else ""
    return f"The CPU waits {total} {a_step(run)}: {'; '.join(texts)}{more}."


def _behind(row: dict[str, Any]) -> str:
    """Say so where a copy took long only because earlier work had to finish first."""
    if row["copy_ns"] is None or row["gpu_busy_ns"] - row["copy_ns"] < row["median_ns"] / 2:
        return ""
    return f": it waits for earlier GPU work, the copy itself takes {duration(row['copy_ns'])}"


def _unwaited(run: Run) -> Ints:
    """``aten::item`` calls of the steps with no copy and no wait inside: the tensor is in host memory."""
    waiting = launches_something(run) | waits(run)
    items = np.flatnonzero(plain(run, "aten::item") & in_scope(run) & (run.host.kind == Kind.OPERATOR))
    return items[~waiting[items]]


def _items(run: Run, items: Ints, rows: list[dict[str, Any]]) -> str:
    if not len(items):
        return ""
    waiting = any(row["op"] in _READS_BACK for row in rows)
    others = " other" if waiting else ""
    return (
        f"{len(items):,}{others} aten::item ({per_step(run, items):,.0f} {a_step(run)}) read CPU tensors: "
        f"{'none of them waits' if len(items) > 1 else 'it does not wait'} for the GPU."
    )


def _final(rows: list[dict[str, Any]]) -> str:
    last = [row for row in rows if row["final"]]
    if not last:
        return ""
    return (
        f"After the last launch, {last[0]['call']} waits {duration(sum(row['total_ns'] for row in last))} for the end."
    )


def _elsewhere(run: Run, rows: list[dict[str, Any]]) -> str:
    """Say so when what holds the step up is not a wait but an op that computes on the CPU."""
    costly = costly_cpu_op(run)
    if costly is None or not run.steps:
        return ""
    name, total = costly
    whole = sum(step.dur_ns for step in run.steps)
    if total <= sum(row["total_ns"] for row in rows) or total < whole / 10:
        return ""
    each = duration(total / len(run.steps))
    return (
        f"The real cost is no wait: {name} computes on the CPU for {each} a step, {percent(total, whole)} of the steps."
    )


def _advice(run: Run, rows: list[dict[str, Any]]) -> Advice | None:
    if not rows or rows[0]["copy"] or not len(run.activities):
        return None  # a blocking copy is advised on under `copies`
    low, high = span(run)
    lost = gaps.breakdown(run, low, high).get("synchronize", 0)
    if lost < _WORTH_SHARE * (high - low):
        return None
    asked = rows[0]["op"] or rows[0]["call"]
    text = f"Let the host run ahead: read results back every few steps instead of at {asked} in each."
    return Advice(text, lost // step_count(run), waiting=True)


READING = Reading("syncs", ASK, answer)
