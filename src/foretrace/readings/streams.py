"""What overlaps?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from foretrace.readings.base import Answer, Column, Reading
from foretrace.readings.collectives import exposed_ns, is_collective
from foretrace.run.intervals import covered_ns, union_ns
from foretrace.units import duration, percent, plural

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
    rows = sorted((_row(run, (a.device == d) & (a.stream == s)) for d, s in lanes), key=lambda row: -row["busy_ns"])
    total = int((a.end_ns - a.start_ns).sum())
    busy = run.busy_ns()
    overlap = total - busy
    side = sum(row["busy_ns"] for row in rows[1:])
    count = plural(len(lanes), "stream")
    if not overlap:
        sentence = f"None of the {count} overlaps another: GPU busy equals the sum of its events, {duration(busy)}."
        verdict = "none"
    else:
        which = f"stream {rows[0]['stream']}" if len(rows) == 2 else "the busiest"  # noqa: PLR2004 - two streams
        sentence = (
            f"{count} overlap for {duration(overlap)}: beside {which} the others are busy {duration(side)} and "
            f"{percent(overlap, side)} of that is hidden."
        )
        verdict = "mostly" if 2 * overlap >= side else "partly"
    return Answer("streams", ASK, sentence + _communication(run), verdict, tuple(rows), _COLUMNS)


def _row(run: Run, mine: NDArray[np.bool_]) -> dict[str, Any]:
    a = run.activities
    here, others = (a.start_ns[mine], a.end_ns[mine]), (a.start_ns[~mine], a.end_ns[~mine])
    busy = union_ns(*here)
    first = int(np.flatnonzero(mine)[0])
    return {
        "stream": int(a.stream[first]),
        "device": int(a.device[first]),
        "events": int(mine.sum()),
        "busy_ns": busy,
        "hidden_ns": covered_ns(here, others),
        "share": busy / max(run.busy_ns(), 1),
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
