"""Which part of a run a timeline shows, and which of its events stand for those that are not shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from foretrace.readings.groups import groups
from foretrace.run import Kind
from foretrace.units import duration, plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from foretrace.run import Run

    Ints = NDArray[np.int64]

MOST_HOST, MOST_DEVICE = 8_000, 4_000
"""Slices of a timeline: about 0.6 MB of a page, and still drawn in one frame."""


@dataclass(frozen=True, slots=True)
class Window:
    """The part of a run that is drawn.

    Attributes:
        host, activities: Slices and activities, in order.
        start_ns, end_ns: The time that they span.
        steps: Positions of the steps in it.
        left_out: What is not drawn, in words.
    """

    host: Ints
    activities: Ints
    start_ns: int
    end_ns: int
    steps: tuple[int, ...]
    left_out: tuple[str, ...]


def representative(run: Run) -> int | None:
    """Position of the step with the median GPU busy time (the later of two middle ones); wall time without a GPU."""
    if not run.steps:
        return None
    busy = [run.busy_ns(step.activities) for step in run.steps]
    weight = busy if any(busy) else [step.dur_ns for step in run.steps]
    return sorted(range(len(weight)), key=lambda i: weight[i])[len(weight) // 2]


def window_of(run: Run, *, one_step: bool) -> Window:
    """The whole run where it is short, else its representative step (``one_step`` always), cut to its longest slices.

    Python's own frames are left out, except those of modules.
    """
    host, a = run.host, run.activities
    shown = (host.kind != Kind.PYTHON) | (np.arange(len(host)) == host.module)
    frames = int(np.count_nonzero(~shown))
    left_out = [f"{plural(frames, 'Python frame')} of the file"] if frames else []
    here, there = shown, np.ones(len(a), dtype=np.bool_)
    position = representative(run)
    steps: Sequence[int] = range(len(run.steps))
    if position is not None and (one_step or np.count_nonzero(here) > MOST_HOST or len(a) > MOST_DEVICE):
        step, steps = run.steps[position], (position,)
        here = shown & (host.start_ns >= step.start_ns) & (host.start_ns < step.end_ns)
        there = a.step == position
        if len(run.steps) > 1:
            left_out = [plural(len(run.steps) - 1, "other step"), *left_out]
    chosen, cut = _longest(host.end_ns - host.start_ns, np.flatnonzero(here), MOST_HOST)
    launched, dropped = _longest(a.end_ns - a.start_ns, np.flatnonzero(there), MOST_DEVICE)
    for what, (count, ns) in (("CPU slice", cut), ("GPU event", dropped)):
        if count:
            left_out.append(f"{plural(count, what)} of {duration(ns)} or less")
    starts = [int(times.min()) for times in (host.start_ns[chosen], a.start_ns[launched]) if len(times)]
    ends = [int(times.max()) for times in (host.end_ns[chosen], a.end_ns[launched]) if len(times)]
    return Window(chosen, launched, min(starts, default=0), max(ends, default=0), tuple(steps), tuple(left_out))


def _longest(length: Ints, candidates: Ints, most: int) -> tuple[Ints, tuple[int, int]]:
    """The longest of ``candidates`` in their own order; how many others there are, and how long those are at most."""
    if len(candidates) <= most:
        return candidates, (0, 0)
    order = np.argsort(-length[candidates], kind="stable")
    return np.sort(candidates[order[:most]]), (len(candidates) - most, int(length[candidates[order[most]]]))


def stand_ins(run: Run, window: Window, events: Iterable[int]) -> dict[int, int]:
    """Events of other steps → the event of the same kernel group, or of the op of the same name, that is drawn."""
    index, names = run.trace.columns.index, run.trace.columns.name
    host_rows, device_rows = run.host.row[window.host], run.activities.row[window.activities]
    drawn = {*index[host_rows].tolist(), *index[device_rows].tolist()}
    wanted = {event for event in events if event not in drawn}
    if not wanted:
        return {}
    same_name: dict[int, int] = {}
    for row in [*device_rows.tolist(), *host_rows.tolist()]:
        same_name.setdefault(int(names[row]), int(index[row]))
    rows = np.flatnonzero(np.isin(index, list(wanted))).tolist()
    found = {int(index[row]): same_name[int(names[row])] for row in rows if int(names[row]) in same_name}
    return found | dict(_same_group(run, window, wanted))


def _same_group(run: Run, window: Window, wanted: set[int]) -> Iterator[tuple[int, int]]:
    index = run.trace.columns.index[run.activities.row]
    drawn = set(window.activities.tolist())
    for group in groups(run):
        here = next((i for i in group.activities if i in drawn), None)
        if here is not None:
            for i in group.activities:
                if int(index[i]) in wanted:
                    yield int(index[i]), int(index[here])
