"""A run, or one step of it, as the rows of a timeline: nested slices of CPU threads, activities of GPU streams."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from foretrace.readings.costs import cost
from foretrace.readings.groups import groups
from foretrace.report.window import stand_ins, window_of
from foretrace.run import ROOT, Kind
from foretrace.run.tree import nearest
from foretrace.units import plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from foretrace.report.window import Window
    from foretrace.run import Run


@dataclass(frozen=True, slots=True)
class Detail:
    """What is known of one activity beyond its place; unknown is ``None``.

    Attributes:
        short, words: The decoded name, for a label and as a sentence.
        chain: Region and ops around the launch, outermost first.
        launch, waited_ns: The call that launched it, and how long after the call began it started.
        module, shapes, step: As recorded.
        bound, of_limit: The ceiling that it meets, and the share of it that it reached.
        graph: Whether it ran inside a graph.
        change: What became of it in the other run of a comparison.
    """

    short: str
    words: str
    chain: tuple[str, ...]
    launch: str | None
    waited_ns: int | None
    module: str | None
    shapes: Any
    step: str | None
    bound: str | None
    of_limit: float | None
    graph: bool
    change: str | None = None


@dataclass(frozen=True, slots=True)
class Slice:
    """One box: ``lane`` and ``launch`` are positions in `Timeline.lanes` and `Timeline.slices`, ``row`` counts down.

    ``start_ns`` counts from the timeline's start. ``kind`` is what it is coloured by: ``op``, ``annotation``, ``call``
    or ``overhead`` on the host, a kernel's bound, ``copy`` or ``set`` on the device. ``pair`` is a number that a kernel
    shares with the same kernel of other steps; in a comparison, with its counterparts in the other timeline.
    """

    lane: int
    row: int
    start_ns: int
    dur_ns: int
    kind: str
    name: str
    event: int
    launch: int | None = None
    detail: Detail | None = None
    pair: int | None = None


@dataclass(frozen=True, slots=True)
class Lane:
    """One CPU thread or one stream of a device, ``rows`` boxes high."""

    label: str
    device: bool
    rows: int


@dataclass(frozen=True, slots=True)
class Timeline:
    """What is drawn.

    Attributes:
        label: What it shows.
        key: How links name its events: ``#event-12``.
        span_ns: Its length.
        steps: Name, start and length of the steps in it.
        lanes: Streams, then CPU threads, those with steps first.
        slices: Boxes of the host, then of the device; all are inside ``span_ns``.
        kernels: How many of the slices are kernels.
        left_out: What is not drawn, in words, or ``None``.
        stands_for: An event that is not drawn → the drawn event of the same kernel or op.
    """

    label: str
    span_ns: int
    steps: tuple[tuple[str, int, int], ...]
    lanes: tuple[Lane, ...]
    slices: tuple[Slice, ...]
    kernels: int
    left_out: str | None
    stands_for: Mapping[int, int] = field(default_factory=dict)
    key: str = "event"


def timeline(run: Run, events: Iterable[int] = (), *, one_step: bool = False) -> Timeline | None:
    """The timeline of ``run``; ``None`` where it has nothing to draw.

    A run of many slices is reduced to its representative step, the one whose GPU busy time is the median, and that to
    its longest slices. Python's own frames are left out, except those of modules.

    Args:
        run: The run.
        events: Events that links should lead to, although the step which is drawn may not be theirs.
        one_step: Draw one step however short the run is.
    """
    window = window_of(run, one_step=one_step)
    if not len(window.host) and not len(window.activities):
        return None
    device_lanes, device_slices = _device(run, window)
    host_lanes, host_slices = _host(run, window, len(device_lanes))
    kernels = int(np.count_nonzero(run.activities.kind[window.activities] == Kind.KERNEL))
    return Timeline(
        label=_label(run, window),
        span_ns=max(window.end_ns - window.start_ns, 1),
        steps=tuple(
            (run.steps[i].name, run.steps[i].start_ns - window.start_ns, run.steps[i].dur_ns) for i in window.steps
        ),
        lanes=(*device_lanes, *host_lanes),
        slices=(*host_slices, *device_slices),
        kernels=kernels,
        left_out="; ".join(window.left_out) or None,
        stands_for=stand_ins(run, window, events),
    )


def _host(run: Run, window: Window, first: int) -> tuple[list[Lane], list[Slice]]:
    """The lanes of the CPU threads, from position ``first`` on, and their boxes."""
    host = run.host
    drawn = np.zeros(len(host), dtype=np.bool_)
    drawn[window.host] = True
    above = nearest(host.parent, drawn)
    earliest: dict[int, int] = {}
    for slice_ in window.host.tolist():
        earliest.setdefault(int(host.thread[slice_]), slice_)
    stepping = {int(host.thread[step.slice]) for step in run.steps}
    threads = sorted(earliest, key=lambda thread: (thread not in stepping, int(host.start_ns[earliest[thread]])))
    lanes = {thread: first + at for at, thread in enumerate(threads)}
    rows = dict.fromkeys(threads, 0)
    depth = {ROOT: -1}
    slices = []
    for slice_ in window.host.tolist():
        thread, parent = int(host.thread[slice_]), int(host.parent[slice_])
        row = depth[slice_] = depth[int(above[parent]) if parent != ROOT else ROOT] + 1
        rows[thread] = max(rows[thread], row + 1)
        slices.append(
            Slice(
                lane=lanes[thread],
                row=row,
                start_ns=int(host.start_ns[slice_]) - window.start_ns,
                dur_ns=int(host.end_ns[slice_] - host.start_ns[slice_]),
                kind=_HOST_KINDS.get(int(host.kind[slice_]), "annotation"),
                name=run.name(slice_),
                event=int(run.trace.columns.index[host.row[slice_]]),
            )
        )
    return [Lane(_thread_label(run, earliest[t]), device=False, rows=rows[t]) for t in threads], slices


_HOST_KINDS = {int(Kind.OPERATOR): "op", int(Kind.LAUNCH): "call", int(Kind.OVERHEAD): "overhead"}


def _thread_label(run: Run, slice_: int) -> str:
    columns, tables = run.trace.columns, run.trace.tables
    row = int(run.host.row[slice_])
    process, thread = tables.process[int(columns.process[row])], tables.thread[int(columns.thread[row])]
    name = run.trace.thread_names.get((process, thread))
    return f"CPU {name}" if name else f"CPU thread {thread}"


def _device(run: Run, window: Window) -> tuple[list[Lane], list[Slice]]:
    """The lanes of the streams and their boxes, which refer to the window's host slices by position."""
    a, trace = run.activities, run.trace
    place = {slice_: at for at, slice_ in enumerate(window.host.tolist())}
    streams = sorted({(int(a.device[i]), int(a.stream[i])) for i in window.activities.tolist()})
    lanes = {stream: at for at, stream in enumerate(streams)}
    ends: dict[tuple[int, int], list[int]] = {stream: [] for stream in streams}
    pairs = {index: number for number, group in enumerate(groups(run)) for index in group.activities}
    slices = []
    for i in window.activities.tolist():
        stream = int(a.device[i]), int(a.stream[i])
        detail = _detail(run, i)
        slices.append(
            Slice(
                lane=lanes[stream],
                row=_free_row(ends[stream], int(a.start_ns[i]), int(a.end_ns[i])),
                start_ns=int(a.start_ns[i]) - window.start_ns,
                dur_ns=int(a.end_ns[i] - a.start_ns[i]),
                kind=(detail.bound or "unknown") if a.kind[i] == Kind.KERNEL else Kind(a.kind[i]).name.lower(),
                name=run.activity_name(i),
                event=int(trace.columns.index[a.row[i]]),
                launch=place.get(int(a.launch[i])),
                detail=detail,
                pair=pairs.get(i),
            )
        )
    return [Lane(_stream_label(*stream), device=True, rows=len(ends[stream])) for stream in streams], slices


def _free_row(ends: list[int], start: int, end: int) -> int:
    """The first row whose last box has ended by ``start``; ``ends`` is brought up to date."""
    for row, taken in enumerate(ends):
        if taken <= start:
            ends[row] = end
            return row
    ends.append(end)
    return len(ends) - 1


def _stream_label(device: int, stream: int) -> str:
    return " ".join(
        [f"GPU {device}" if device >= 0 else "GPU", f"stream {stream}" if stream >= 0 else "(no stream named)"]
    )


def _detail(run: Run, index: int) -> Detail:
    a, activity, limit = run.activities, run.activity(index), cost(run, index)
    launch, step = int(a.launch[index]), int(a.step[index])
    known = [ns for ns in (limit.compute_ns, limit.memory_ns) if ns is not None]
    ceiling = max(known) if known and limit.bound in {"compute", "memory"} and activity.dur_ns else None
    return Detail(
        short=activity.identity.short,
        words=activity.identity.in_words if activity.identity.family != "unknown" else "",
        chain=activity.chain,
        launch=activity.launch,
        waited_ns=int(a.start_ns[index] - run.host.start_ns[launch]) if launch != ROOT else None,
        module=activity.module,
        shapes=activity.shapes,
        step=run.steps[step].name if step >= 0 else None,
        bound=limit.bound if activity.kind == "kernel" else None,
        of_limit=ceiling / activity.dur_ns if ceiling is not None else None,
        graph=activity.graph,
    )


def _label(run: Run, window: Window) -> str:
    steps = [run.steps[i].name for i in window.steps]
    if len(steps) == 1 and len(run.steps) > 1:
        return f"{steps[0]}, the step with the median GPU time"
    return plural(len(steps), "step") if steps else "the whole trace"
