"""Where does the peak come from?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from foretrace.readings.base import Answer, Column, Reading
from foretrace.readings.calls import Call, calls
from foretrace.readings.host import a_step, by_name, in_scope, lengths, per_step, spoken
from foretrace.run import ROOT, Run
from foretrace.trace import LOST
from foretrace.units import duration, plural, size

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

ASK = "Where does the peak come from?"

_CPU = 0  # c10::DeviceType
_LARGEST = 10
_COLUMNS = (
    Column("op", "allocated by"),
    Column("step", "step"),
    Column("grown_bytes", "grew by", "bytes"),
    Column("allocated_bytes", "to", "bytes"),
)


def answer(run: Run) -> Answer | None:
    """The peak of the device's caching allocator, the op that reached it, growth, and calls to the driver's allocator.

    Read from ``[memory]`` events, which a trace has with ``profile_memory=True``. Without them: ``unknown`` where the
    driver's allocator was called in the steps, and silent where it was not. A peak that was measured beside the trace
    is told too.
    """
    rows = _instants(run)
    driver = _driver(run)
    beside = run.environment.peak_memory_bytes if run.environment is not None else None
    if not len(rows):
        measured = f"Peak {size(beside)}, measured beside the trace." if beside is not None else ""
        if not driver:
            return Answer("memory", ASK, measured, "measured") if measured else None
        unknown = measured or "What they hold is unknown: the trace was taken without profile_memory=True."
        return Answer("memory", ASK, f"{driver} {unknown}", "measured" if measured else "unknown")
    allocated, reserved = run.trace.columns.allocated_bytes[rows], run.trace.columns.reserved_bytes[rows]
    peak = int(np.argmax(allocated))
    slice_ = _around(run, int(rows[peak]))
    where = f" in {run.name(slice_)}" if slice_ != ROOT else ""
    step = _step(run, int(run.trace.columns.start_ns[rows[peak]]))
    when = f", {step}" if step else ""
    held = f" ({size(int(reserved[peak]))} reserved)" if reserved[peak] >= 0 else ""
    parts = [f"Peak {size(int(allocated[peak]))} allocated{held}{where}{when}.", _growth(run, rows, allocated), driver]
    evidence = tuple(_rows(run, rows, allocated))
    return Answer("memory", ASK, " ".join(part for part in parts if part), "measured", evidence, _COLUMNS)


def _instants(run: Run) -> Ints:
    """Rows of the device's ``[memory]`` events in order of time."""
    columns = run.trace.columns
    rows = np.flatnonzero((columns.allocated_bytes >= 0) & (columns.start_ns != LOST) & (columns.device_type != _CPU))
    return rows[np.argsort(columns.start_ns[rows], kind="stable")]


def _around(run: Run, row: int) -> int:
    """The innermost op on the event's thread that contains it, or −1."""
    columns, host = run.trace.columns, run.host
    thread = int(columns.process[row]) * (len(run.trace.tables.thread) + 1) + int(columns.thread[row])
    at = int(columns.start_ns[row])
    mine = np.flatnonzero(host.thread == thread)
    last = int(np.searchsorted(host.start_ns[mine], at, side="right")) - 1
    slice_ = int(mine[last]) if last >= 0 else ROOT
    while slice_ != ROOT and host.end_ns[slice_] < at:
        slice_ = int(host.parent[slice_])
    return int(host.op[slice_]) if slice_ != ROOT else ROOT


def _step(run: Run, at: int) -> str | None:
    return next((step.name for step in run.steps if step.start_ns <= at < step.end_ns), None)


def _growth(run: Run, rows: Ints, allocated: Ints) -> str:
    """How much more is allocated after the last step than after the first."""
    if len(run.steps) < 2:  # noqa: PLR2004 - growth is between steps
        return ""
    times = run.trace.columns.start_ns[rows]
    after = [int(np.searchsorted(times, step.end_ns)) - 1 for step in (run.steps[0], run.steps[-1])]
    if min(after) < 0:
        return ""
    grown = int(allocated[after[1]] - allocated[after[0]])
    if not grown:
        return "Every step ends with as much as the first."
    more = "more" if grown > 0 else "less"
    return f"The last step ends with {size(abs(grown))} {more} than the first."


def _driver(run: Run) -> str:
    """Calls to the driver's allocator in the steps: each may stop the device, and none should happen in a warm step."""
    found = np.flatnonzero(np.isin(calls(run), (Call.ALLOCATE, Call.FREE)) & in_scope(run))
    if not len(found):
        return ""
    names = spoken(dict.fromkeys(run.name(int(members[0])) for members in by_name(run, found)))
    count, held = per_step(run, found), per_step(run, found, lengths(run, found))
    each = a_step(run)
    if count < 1:  # not in most of the steps
        count, held, each = len(found), int(lengths(run, found).sum()), "in all"
    calls_ = f"{plural(round(count), 'call')} to the driver's allocator {each} ({names})"
    return f"{calls_} {'hold' if count > 1 else 'holds'} the CPU for {duration(held)}."


def _rows(run: Run, rows: Ints, allocated: Ints) -> list[dict[str, Any]]:
    """The largest single allocations."""
    moved = run.trace.columns.moved_bytes[rows]
    found = []
    for i in np.argsort(-moved, kind="stable")[:_LARGEST].tolist():
        if moved[i] <= 0:
            break
        slice_ = _around(run, int(rows[i]))
        found.append(
            {
                "op": run.name(slice_) if slice_ != ROOT else None,
                "step": _step(run, int(run.trace.columns.start_ns[rows[i]])),
                "grown_bytes": int(moved[i]),
                "allocated_bytes": int(allocated[i]),
                "event": int(run.trace.columns.index[rows[i]]),
            }
        )
    return found


READING = Reading("memory", ASK, answer)
