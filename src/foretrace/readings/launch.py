"""Is the GPU waiting for the CPU?"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from foretrace.readings import gaps
from foretrace.readings.base import Answer, Column, Reading
from foretrace.run import ROOT, Run
from foretrace.units import duration, percent, plural

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

ASK = "Is the GPU waiting for the CPU?"

_SHOWN = 5
_A_STRETCH = 3  # launches in a row; fewer are a stumble
_STARVED_SHARE, _FED_SHARE = 0.5, 0.1
_COLUMNS = (
    Column("stretch", "launch-bound stretch"),
    Column("launches", "launches", "count"),
    Column("idle_ns", "GPU idle µs", "ns"),
    Column("wall_ns", "of µs", "ns"),
)


@dataclass(frozen=True, slots=True)
class Launches:
    """Launch calls in order of time, one row for each call (a graph launch is one call), [n] each.

    Attributes:
        activity: The first activity that the call launched.
        call: Host slice of the call.
        latency_ns: From the start of the call to the start of the activity; negative when the clocks disagree.
        depth: Activities launched earlier and not yet begun when the call begins.
        starved_ns: How long the GPU had been idle, with nothing left to do, when the call began; 0 where it had work.
    """

    activity: Ints
    call: Ints
    latency_ns: Ints
    depth: Ints
    starved_ns: Ints


@lru_cache(maxsize=2)
def launches(run: Run) -> Launches:
    """Every call that launched something, with the state of the GPU when it began."""
    a = run.activities
    linked = np.flatnonzero(a.launch != ROOT)
    call, first = np.unique(a.launch[linked], return_index=True)  # activities are in order of start
    activity = linked[first]
    begun = run.host.start_ns[call]
    order = np.argsort(begun, kind="stable")
    call, activity, begun = call[order], activity[order], begun[order]
    asked = np.where(a.launch != ROOT, run.host.start_ns[a.launch], np.iinfo(np.int64).min)
    by_launch = np.argsort(asked, kind="stable")
    asked = asked[by_launch]
    depth = np.searchsorted(asked, begun, side="left") - np.searchsorted(a.start_ns, begun, side="left")
    by_launch = np.argsort(
        np.where(a.launch != ROOT, run.host.start_ns[a.launch], np.iinfo(np.int64).min), kind="stable"
    )
    reach = np.maximum.accumulate(a.end_ns[by_launch])
    earlier = np.searchsorted(asked, begun, side="left") - 1
    done = np.where(earlier >= 0, reach[np.maximum(earlier, 0)], begun)
    return Launches(activity, call, a.start_ns[activity] - begun, np.maximum(depth, 0), np.maximum(begun - done, 0))


def answer(run: Run) -> Answer | None:
    """How many launches found the GPU with nothing to do, the latency from call to start, and the queue's depth.

    ``starved`` when at least half of them did, ``fed`` below a tenth, ``mixed`` between; ``unknown`` without links. One
    launch raises no such question.
    """
    if not len(run.activities):
        return None
    if not run.knows_launches:
        text = "Unknown: no GPU event has its launch in this file."
        return Answer("launch", ASK, text, verdict="unknown")
    found = launches(run)
    skewed = int((found.latency_ns < 0).sum())
    if len(found.call) == 1 and not skewed:
        return None
    starved = int((found.starved_ns > 0).sum())
    share = starved / len(found.call)
    verdict = "starved" if share >= _STARVED_SHARE else "fed" if share < _FED_SHARE else "mixed"
    rows = _stretches(run, found)
    parts = [_verdict(run, verdict, starved, len(found.call)), _latency(found), _stretch(rows, verdict)]
    if len(found.call) == 1:
        parts = []
    if skewed:
        who = f"{plural(skewed, 'GPU event')} {'begin' if skewed > 1 else 'begins'} before the launch call"
        parts.append(
            f"{who}, by up to {duration(-int(found.latency_ns.min()))}: the clocks of host and device disagree."
        )
    columns = _COLUMNS if rows else ()
    return Answer("launch", ASK, " ".join(part for part in parts if part), verdict, tuple(rows), columns)


def _verdict(run: Run, verdict: str, starved: int, calls: int) -> str:
    word = {"starved": "Yes", "mixed": "At times", "fed": "No"}[verdict]
    if not starved:
        return f"{word}: each of the {plural(calls, 'launch call')} found the GPU at work."
    waited = gaps.gaps(run, int(run.activities.start_ns[0]), int(run.activities.end_ns.max()))
    took = duration(int(waited.lengths[waited.late].sum()))
    return (
        f"{word}, for {took}: {starved:,} of {plural(calls, 'launch call')} ({percent(starved, calls)}) began when the "
        "GPU had nothing left to do."
    )


def _latency(found: Launches) -> str:
    direct = found.latency_ns[(found.starved_ns > 0) & (found.latency_ns >= 0)]
    depth = f"{np.median(found.depth):,.0f} earlier ones are still queued (median), at most {found.depth.max():,}"
    if not len(direct):
        return f"When one begins, {depth}."
    typical = f"{duration(float(np.median(direct)))} (median), at most {duration(int(direct.max()))}"
    return f"On an idle GPU, work starts {typical}, after its call begins; when a call begins, {depth}."


def _stretches(run: Run, found: Launches) -> list[dict[str, Any]]:
    """Runs of consecutive launch calls that all found the GPU idle, longest idle time first."""
    starved = np.concatenate([[False], found.starved_ns > 0, [False]])
    turns = np.flatnonzero(np.diff(starved.astype(np.int8)))
    first, after = turns[::2], turns[1::2]
    # until any work starts, as the gaps that the sentence adds up
    begun, starts = run.host.start_ns[found.call], run.activities.start_ns
    until = starts[np.minimum(np.searchsorted(starts, begun, side="left"), len(starts) - 1)]
    waited = np.where(found.starved_ns > 0, found.starved_ns + np.maximum(until - begun, 0), 0)
    total = np.concatenate([[0], np.cumsum(waited)])
    idle = total[after] - total[first]
    rows = []
    for i in np.argsort(-idle, kind="stable")[:_SHOWN].tolist():
        begin, end = int(first[i]), int(after[i]) - 1
        began = run.host.start_ns[found.call[begin]] - found.starved_ns[begin]
        rows.append(
            {
                "stretch": f"{_asked_by(run, found, begin)} … {_asked_by(run, found, end)}",
                "launches": end - begin + 1,
                "idle_ns": int(idle[i]),
                "wall_ns": int(run.activities.end_ns[found.activity[end]] - began),
                "event": int(run.trace.columns.index[run.host.row[found.call[begin]]]),
                "last_event": int(run.trace.columns.index[run.host.row[found.call[end]]]),
            }
        )
    return rows


def _asked_by(run: Run, found: Launches, position: int) -> str:
    op = int(run.activities.op[found.activity[position]])
    return run.name(op if op != ROOT else int(found.call[position]))


def _stretch(rows: list[dict[str, Any]], verdict: str) -> str:
    if not rows or verdict == "fed" or rows[0]["launches"] < _A_STRETCH:
        return ""
    row = rows[0]
    return (
        f"The longest launch-bound stretch is {row['launches']:,} launches in a row ({row['stretch']}): the GPU waits "
        f"{duration(row['idle_ns'])} of {duration(row['wall_ns'])} for what these calls start."
    )


READING = Reading("launch", ASK, answer)
