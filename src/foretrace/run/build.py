"""Columns to the model: nesting, links, steps, regions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from foretrace.devices import find
from foretrace.run import environment, notes, ranks, regions, steps
from foretrace.run.categories import DEVICE, HOST, Kind, kinds
from foretrace.run.links import link
from foretrace.run.model import Activities, Host, Run, Step, device_properties
from foretrace.run.tree import ROOT, nearest, nest, self_times
from foretrace.trace import LOST

if TYPE_CHECKING:
    from concurrent.futures import Executor
    from pathlib import Path

    from numpy.typing import NDArray

    from foretrace.devices import Device
    from foretrace.trace import Trace

    Ints = NDArray[np.int64]


_CALLS_AT_ONCE = 16
"""How many threads' calls are looked through for the one that a piece of overhead lies in."""


def build(trace: Trace, device: Device | None = None) -> Run:
    """Understand a trace.

    Args:
        trace: What `foretrace.trace.read_trace` gave.
        device: Ceilings to use instead of those found by the device's name.
    """
    kind = kinds(trace)
    timed = trace.columns.start_ns != LOST
    host = _host(trace, np.flatnonzero(np.isin(kind, HOST) & timed), kind)
    marks = steps.usable(trace, host, steps.marks(trace, host))
    activities = _activities(trace, host, np.flatnonzero(np.isin(kind, DEVICE) & timed), kind, marks)
    run = Run(
        trace=trace,
        host=host,
        activities=activities,
        steps=tuple(
            Step(mark.name, mark.number, mark.slice, mark.start_ns, mark.end_ns, np.flatnonzero(activities.step == i))
            for i, mark in enumerate(marks)
        ),
        device=device or _device(trace, activities),
        environment=environment.beside(trace.path),
        notes=trace.notes,
    )
    return replace(run, notes=(*trace.notes, *notes.of(run)))


def _device(trace: Trace, activities: Activities) -> Device | None:
    """The ceilings of the devices that worked; ``None`` where they are unknown or those of several kinds of device."""
    gpus = [gpu for gpu in np.unique(activities.device).tolist() if gpu >= 0]
    named = [entry for entry in device_properties(trace, gpus) if isinstance(entry.get("name"), str)]
    if not named or (len(gpus) > 1 and len({entry["name"] for entry in named}) > 1):
        return None
    return find(named[0]["name"], named[0])


def _host(trace: Trace, rows: Ints, kinds: NDArray[np.int8]) -> Host:
    columns = trace.columns
    start = columns.start_ns[rows]
    end = start + np.maximum(columns.dur_ns[rows], 0)
    thread = columns.process[rows].astype(np.int64) * (len(trace.tables.thread) + 1) + columns.thread[rows]
    calls = np.flatnonzero(kinds[rows] == Kind.LAUNCH)
    overhead, around = _overhead(trace, kinds, start[calls], end[calls])
    rows = np.concatenate([rows, overhead])
    start = columns.start_ns[rows]
    end = start + np.maximum(columns.dur_ns[rows], 0)
    thread = np.concatenate([thread, thread[calls[around]]])
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


def _overhead(trace: Trace, kinds: NDArray[np.int8], start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Rows of the profiler's own work that lie inside a call, and the position of that call in ``start``, ``end``.

    The file gives them a thread of their own; inside the call they show what the call itself cost.
    """
    columns = trace.columns
    rows = np.flatnonzero((kinds == Kind.OVERHEAD) & (columns.start_ns != LOST) & (columns.dur_ns > 0))
    begins, lengths = columns.start_ns[rows], columns.dur_ns[rows]
    order = np.argsort(start, kind="stable")
    last = np.searchsorted(start[order], begins, side="right") - 1
    around = np.full(len(rows), ROOT, dtype=np.int64)
    for back in range(_CALLS_AT_ONCE):
        open_ = np.flatnonzero((around == ROOT) & (last - back >= 0))
        call = order[last[open_] - back]
        holds = (end[call] >= begins[open_] + lengths[open_]) & (end[call] - start[call] > lengths[open_])
        around[open_[holds]] = call[holds]
    return rows[around != ROOT], around[around != ROOT]


def _activities(
    trace: Trace,
    host: Host,
    rows: Ints,
    kinds: NDArray[np.int8],
    marks: list[steps.Mark],
) -> Activities:
    columns = trace.columns
    rows = rows[np.argsort(columns.start_ns[rows], kind="stable")]
    start = columns.start_ns[rows]
    launch = link(trace, host, rows)
    return Activities(
        row=rows,
        kind=kinds[rows],
        start_ns=start,
        end_ns=start + np.maximum(columns.dur_ns[rows], 0),
        stream=columns.stream[rows],
        device=columns.device[rows],
        launch=launch,
        op=_through(host.op, launch),
        region=_regions(trace, host, launch, marks),
        module=_through(host.module, launch),
        step=steps.of_launches(trace, host, launch, marks),
        in_graph=_in_graph(trace, host, launch) | (columns.graph[rows] > 0),
    )


def _regions(trace: Trace, host: Host, launch: Ints, marks: list[steps.Mark]) -> Ints:
    """The region of each launch, looked for among the steps of its own rank."""
    slices = np.array([mark.slice for mark in marks], dtype=np.int64)
    rank = ranks.groups(trace, host.row)
    found = np.full(len(launch), ROOT, dtype=np.int64)
    for one in ranks.distinct(rank):
        ours = np.flatnonzero((launch != ROOT) & (rank[launch] == one))
        found[ours] = regions.of_launches(host, launch[ours], slices[rank[slices] == one].tolist())
    return found


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


def read(path: str | Path, *, device: Device | None = None, executor: Executor | None = None) -> Run:
    """Read a trace file and understand it; see `foretrace.trace.read_trace` for ``path`` and ``executor``."""
    from foretrace.trace import read_trace  # noqa: PLC0415 - build() itself needs no file

    return build(read_trace(path, executor=executor), device)
