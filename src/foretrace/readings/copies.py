"""What moves between host and device?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from foretrace import stats
from foretrace.names import copy_way
from foretrace.readings.autotuning import benchmarked
from foretrace.readings.base import Advice, Answer, Column, Reading
from foretrace.readings.groups import busy_in_periods_ns
from foretrace.readings.host import a_step, lengths, step_count
from foretrace.readings.idle import window
from foretrace.run import ROOT, Kind, Run
from foretrace.units import duration, percent, plural, rate, size

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

ASK = "What moves between host and device?"

_SPOKEN = 3
_SMALL_BYTES = 64 * 1024  # below this the latency of a copy hides its bandwidth
_WORTH_SHARE = 0.01
_WAYS = {
    "HtoD": "from host to device",
    "DtoH": "from device to host",
    "DtoD": "on the device",
    "PtoP": "between devices",
    "HtoH": "on the host",
}
_COLUMNS = (
    Column("name", "copy"),
    Column("op", "op"),
    Column("count", "a step", "count"),
    Column("moved_bytes", "each", "bytes"),
    Column("median_ns", "GPU µs", "ns"),
    Column("held_ns", "CPU µs", "ns"),
    Column("bytes_per_s", "rate", "byte_rate"),
    Column("of_link", "of the link", "share"),
)


def answer(run: Run) -> Answer | None:
    """Copies of the steps by way and op: bytes, time, rate against the host link, pinned or pageable; silent without.

    Copies of an autotuner are left out. Those inside the device are spoken of only where nothing crosses the link.
    ``unknown`` where no copy says how many bytes it moved, or one that crosses the link from or to which host memory.
    """
    a = run.activities
    copies = np.flatnonzero((a.kind == Kind.COPY) & ((a.step >= 0) | (not run.steps)) & ~benchmarked(run))
    if not len(copies):
        return None
    rows = _rows(run, copies)
    crossing = [row for row in rows if row["way"] in ("HtoD", "DtoH")]
    told = crossing or rows
    text = "; ".join(_spoken(run, row) for row in told[:_SPOKEN])
    more = f"; {plural(len(told) - _SPOKEN, 'more kind')} in the table" if len(told) > _SPOKEN else ""
    sentence = f"{text[:1].upper()}{text[1:]}{more}."
    if not crossing:
        sentence = f"Nothing crosses the link to the host. {sentence}"
    inside = [row for row in rows if row not in crossing]
    if crossing and inside:
        moved = sum(row["total_bytes"] or 0 for row in inside) / step_count(run)
        each = sum(row["count"] for row in inside)
        sentence += f" {each:,.0f} copies {a_step(run)} stay on the device ({size(moved)})."
    memory = {row["pageable"] for row in crossing}
    verdict = "pageable" if True in memory else "unknown" if None in memory else "pinned" if memory else "on-device"
    if all(row["moved_bytes"] is None for row in rows):
        verdict, sentence = "unknown", f"{sentence} The file does not say how many bytes were moved."
    return Answer("copies", ASK, sentence, verdict, tuple(rows), _COLUMNS, _advice(run, crossing))


def _rows(run: Run, copies: Ints) -> list[dict[str, Any]]:
    a, columns = run.activities, run.trace.columns
    ops = np.where(a.op[copies] != ROOT, columns.name[run.host.row[a.op[copies]]] if len(run.host) else ROOT, ROOT)
    keys = np.stack([columns.name[a.row[copies]], ops, columns.moved_bytes[a.row[copies]]], axis=1)
    every, places = np.unique(keys, axis=0, return_inverse=True)
    rows = [_row(run, copies[places.ravel() == place]) for place in range(len(every))]
    return sorted(rows, key=lambda row: -row["total_ns"])


def _row(run: Run, members: Ints) -> dict[str, Any]:
    a = run.activities
    first = run.activity(int(members[0]))
    took = a.end_ns[members] - a.start_ns[members]
    calls = a.launch[members][(a.launch[members] != ROOT) & ~a.in_graph[members]]
    held = lengths(run, calls)
    moved, median = first.moved_bytes, stats.median(took.tolist()) or 0.0
    way = copy_way(first.name)
    passes = 2 if way == "DtoD" else 1  # the device's memory is read and written
    per_second = passes * moved / median * 1e9 if moved is not None and median else None
    link = run.device.link_bytes_per_s if run.device is not None else None
    large = moved is not None and moved >= _SMALL_BYTES
    crosses = way in ("HtoD", "DtoH")
    return {
        "name": first.name,
        "way": way,
        "pageable": _pageable(first.name),
        "op": first.op,
        "count": len(members) / step_count(run),
        "moved_bytes": moved,
        "total_bytes": moved * len(members) if moved is not None else None,
        "median_ns": median,
        "least_ns": int(took.min()),
        "most_ns": int(took.max()),
        "total_ns": int(took.sum()),
        "held_ns": stats.median(held.tolist()),
        "held_total_ns": int(held.sum()),
        "bytes_per_s": per_second,
        "of_link": per_second / link if per_second is not None and link and large and crosses else None,
        "event": first.event,
    }


def _pageable(name: str) -> bool | None:
    """Whether a copy's host memory is pageable; ``None`` where its name, as those of ROCm and XPU, says neither."""
    return True if "Pageable" in name else False if "Pinned" in name else None


def _spoken(run: Run, row: dict[str, Any]) -> str:
    what = size(row["moved_bytes"]) if row["moved_bytes"] is not None else "an unknown size"
    where = _WAYS.get(row["way"] or "", row["name"])
    if row["pageable"]:
        where = where.replace("host", "pageable host memory")
    of_link = f", {percent(row['of_link'], 1)} of the link" if row["of_link"] is not None else ""
    speed = ""
    if row["moved_bytes"] is not None and row["moved_bytes"] >= _SMALL_BYTES and row["bytes_per_s"]:
        both = ", read and written" if row["way"] == "DtoD" else ""
        speed = f" ({rate(row['bytes_per_s'], 1e9)}{of_link}{both})"
    count = f"{row['count']:,.2g}" if row["count"] < 1 else f"{row['count']:,.0f}"
    busy = busy_in_periods_ns(run)
    share = f", {percent(row['total_ns'], busy)} of GPU busy" if row["total_ns"] > busy / 10 else ""
    return f"{count}× {a_step(run)} {what} {where}, {duration(row['median_ns'])} each{speed}{share}"


def _advice(run: Run, crossing: list[dict[str, Any]]) -> Advice | None:
    """Pin what is copied from pageable memory, where it holds the CPU for a hundredth of the time or more."""
    held = sum(row["held_total_ns"] for row in crossing if row["pageable"] and row["way"] == "HtoD")
    low, high = window(run)
    if not held or held < _WORTH_SHARE * (high - low):
        return None
    text = (
        "Copy from pinned memory with non_blocking=True (pin_memory in the DataLoader) if the host buffer is reused: "
        "pinning a new buffer for each copy costs as much as it saves."
    )
    return Advice(text, held // step_count(run), waiting=True)


READING = Reading("copies", ASK, answer)
