"""Columns to the model: nesting, links, steps, regions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from foretrace.devices import find
from foretrace.run import environment, regions
from foretrace.run.categories import DEVICE, HOST, Kind, kind_of
from foretrace.run.links import link
from foretrace.run.model import STEP_PREFIX, Activities, Host, Run, Step
from foretrace.run.tree import ROOT, nearest, nest, self_times
from foretrace.trace import LOST

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from foretrace.devices import Device
    from foretrace.trace import Trace

    Ints = NDArray[np.int64]


def build(trace: Trace, device: Device | None = None) -> Run:
    """Understand a trace.

    Args:
        trace: What `foretrace.trace.read_trace` gave.
        device: Ceilings to use instead of those found by the device's name.
    """
    kinds = np.array([kind_of(c) for c in trace.tables.category] or [Kind.OTHER], dtype=np.int8)[trace.columns.category]
    timed = trace.columns.start_ns != LOST
    host = _host(trace, np.flatnonzero(np.isin(kinds, HOST) & timed), kinds)
    steps = _steps(trace, host)
    activities = _activities(trace, host, np.flatnonzero(np.isin(kinds, DEVICE) & timed), kinds, steps)
    return Run(
        trace=trace,
        host=host,
        activities=activities,
        steps=tuple(
            Step(name, number, slice_, start, end, np.flatnonzero(activities.step == position))
            for position, (name, number, slice_, start, end) in enumerate(steps)
        ),
        device=device or _device(trace),
        environment=environment.beside(trace.path),
        notes=trace.notes,
    )


def _device(trace: Trace) -> Device | None:
    for properties in trace.metadata.get("deviceProperties") or []:
        if isinstance(properties, dict) and isinstance(properties.get("name"), str):
            return find(properties["name"], properties)
    return None


def _host(trace: Trace, rows: Ints, kinds: NDArray[np.int8]) -> Host:
    columns = trace.columns
    start = columns.start_ns[rows]
    end = start + np.maximum(columns.dur_ns[rows], 0)
    thread = columns.process[rows].astype(np.int64) * (len(trace.tables.thread) + 1) + columns.thread[rows]
    order = np.lexsort((rows, -end, start, thread))
    rows, start, end, thread = rows[order], start[order], end[order], thread[order]
    kind = kinds[rows]
    parent, end = nest(thread, start, end, frame=kind == Kind.PYTHON, annotation=kind == Kind.ANNOTATION)
    names = columns.name[rows]
    module = np.isin(names, regions.module_names(trace)) & np.isin(kind, (Kind.ANNOTATION, Kind.PYTHON))
    region = np.isin(names, regions.user_names(trace)) & (kind == Kind.ANNOTATION)
    return Host(
        row=rows,
        kind=kind,
        thread=thread,
        start_ns=start,
        end_ns=end,
        parent=parent,
        self_ns=self_times(parent, start, end),
        op=nearest(parent, kind == Kind.OPERATOR),
        region=nearest(parent, region),
        module=nearest(parent, module),
    )


def _steps(trace: Trace, host: Host) -> list[tuple[str, int, int, int, int]]:
    """(name, number, slice, start, end) of every step marker, in order of time."""
    found = []
    marks = [i for i, name in enumerate(trace.tables.name) if name.startswith(STEP_PREFIX)]
    annotations = np.isin(trace.columns.name[host.row], marks) & (host.kind == Kind.ANNOTATION)
    for slice_ in np.flatnonzero(annotations).tolist():
        name = trace.name(int(host.row[slice_]))
        number = name.removeprefix(STEP_PREFIX)
        if number.isdecimal():
            found.append((name, int(number), slice_, int(host.start_ns[slice_]), int(host.end_ns[slice_])))
    return sorted(found, key=lambda step: step[3])


def _activities(
    trace: Trace,
    host: Host,
    rows: Ints,
    kinds: NDArray[np.int8],
    steps: list[tuple[str, int, int, int, int]],
) -> Activities:
    columns = trace.columns
    rows = rows[np.argsort(columns.start_ns[rows], kind="stable")]
    start = columns.start_ns[rows]
    launch = link(trace, host, rows)
    linked = launch != ROOT
    launched_at = np.where(linked, host.start_ns[launch] if len(host) else 0, -1)
    step = np.full(len(rows), -1, dtype=np.int64)
    if steps:
        starts, ends = (np.array([s[i] for s in steps], dtype=np.int64) for i in (3, 4))
        at = np.searchsorted(starts, launched_at, side="right") - 1
        inside = linked & (at >= 0) & (launched_at < ends[at])
        step[inside] = at[inside]
    return Activities(
        row=rows,
        kind=kinds[rows],
        start_ns=start,
        end_ns=start + np.maximum(columns.dur_ns[rows], 0),
        stream=columns.stream[rows],
        device=columns.device[rows],
        launch=launch,
        op=_through(host.op, launch),
        region=regions.of_launches(host, launch, [s[2] for s in steps]),
        module=_through(host.module, launch),
        step=step,
        in_graph=_in_graph(trace, host, launch) | (columns.graph[rows] > 0),
    )


def _through(values: Ints, launch: Ints) -> Ints:
    """``values`` of each activity's launch; `ROOT` for orphans."""
    return np.where(launch != ROOT, values[launch], ROOT) if len(values) else np.full(len(launch), ROOT)


def _in_graph(trace: Trace, host: Host, launch: Ints) -> NDArray[np.bool_]:
    graph_calls = [i for i, name in enumerate(trace.tables.name) if "GraphLaunch" in name]
    if not graph_calls or not len(host):
        return np.zeros(len(launch), dtype=np.bool_)
    called = trace.columns.name[host.row[launch]]
    in_graph: NDArray[np.bool_] = np.isin(called, graph_calls) & (launch != ROOT)
    return in_graph


def read(path: str | Path, *, device: Device | None = None) -> Run:
    """Read a trace file and understand it; see `foretrace.trace.read_trace` for what ``path`` may be."""
    from foretrace.trace import read_trace  # noqa: PLC0415 - build() itself needs no file

    return build(read_trace(path), device)
