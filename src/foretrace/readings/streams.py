"""What overlaps?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from foretrace.readings.base import Answer, Column, Reading
from foretrace.readings.collectives import exposed_ns, is_collective
from foretrace.run.intervals import covered_ns, union_ns
from foretrace.units import duration, percent, plural

if TYPE_CHECKING:
    from foretrace.run import Run

ASK = "What overlaps?"

_COLUMNS = (
    Column("stream", "stream"),
    Column("events", "GPU events", "count"),
    Column("busy_ns", "busy µs", "ns"),
    Column("hidden_ns", "under other streams µs", "ns"),
    Column("share", "of GPU busy", "share"),
)


def answer(run: Run) -> Answer | None:
    """Busy time of every stream, and how much of it runs beside another stream; silent with one stream.

    Verdict ``none``, ``partly`` or ``mostly`` by the overlapped part of the smaller streams; ``unknown`` where events
    do not say their stream.
    """
    a = run.activities
    if not len(a) or ((a.stream == a.stream[0]) & (a.device == a.device[0])).all():
        return None
    lanes = np.unique(np.stack([a.device, a.stream], axis=1), axis=0)
    if (a.stream < 0).any():
        unknown = int((a.stream < 0).sum())
        text = f"Unknown: {plural(unknown, 'GPU event')} of {len(a):,} name no stream."
        return Answer("streams", ASK, text, verdict="unknown")
    gpus = np.unique(a.device)
    rows = sorted((_row(run, d, s) for d, s in lanes), key=lambda row: -row["busy_ns"])
    total = int((a.end_ns - a.start_ns).sum())
    busy = run.busy_ns()
    overlap = total - busy
    side = sum(row["busy_ns"] for row in rows[1:])
    on = f" on {len(gpus)} GPUs" if len(gpus) > 1 else ""
    columns = (Column("device", "GPU"), *_COLUMNS) if on else _COLUMNS
    count = f"{plural(len(lanes), 'stream')}{on}"
    if not overlap:
        sentence = f"None of the {count} overlaps another: GPU busy equals the sum of its events, {duration(busy)}."
        verdict = "none"
    else:
        of_gpu = f" of GPU {rows[0]['device']}" if on else ""
        which = f"stream {rows[0]['stream']}{of_gpu}" if len(rows) == 2 else "the busiest"  # noqa: PLR2004 - two streams
        sentence = (
            f"{count} overlap for {duration(overlap)}: beside {which} the others are busy {duration(side)} and "
            f"{percent(overlap, side)} of that is hidden."
        )
        verdict = "mostly" if 2 * overlap >= side else "partly"
    return Answer("streams", ASK, sentence + _communication(run), verdict, tuple(rows), columns)


def _row(run: Run, device: int, stream: int) -> dict[str, Any]:
    """One stream beside the others of its GPU."""
    a = run.activities
    same = a.device == device
    mine = same & (a.stream == stream)
    beside = same & ~mine
    here, others = (a.start_ns[mine], a.end_ns[mine]), (a.start_ns[beside], a.end_ns[beside])
    busy = union_ns(*here)
    first = int(np.flatnonzero(mine)[0])
    return {
        "stream": int(a.stream[first]),
        "device": int(a.device[first]),
        "events": int(mine.sum()),
        "busy_ns": busy,
        "hidden_ns": covered_ns(here, others),
        "share": busy / max(run.busy_ns(np.flatnonzero(same)), 1),
        "event": int(run.trace.columns.index[a.row[first]]),
    }


def _communication(run: Run) -> str:
    collective = is_collective(run)
    if not collective.any():
        return ""
    a = run.activities
    whole = union_ns(a.start_ns[collective], a.end_ns[collective])
    exposed = exposed_ns(run)
    return f" Of {duration(whole)} of communication {duration(exposed)} ({percent(exposed, whole)}) is exposed."


READING = Reading("streams", ASK, answer)
