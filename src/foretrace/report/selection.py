"""Part of a run as a run of its own, for ``--step`` and ``--region``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from foretrace.errors import InputError
from foretrace.run import ROOT, Host, Run, Step
from foretrace.run.tree import nearest, self_times

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Mask = NDArray[np.bool_]

_LISTED = 8


@dataclass(frozen=True, slots=True)
class Selection:
    """What was asked for: the number of a ``ProfilerStep#N``, the name of a region; ``None`` means all."""

    step: int | None = None
    region: str | None = None

    def __bool__(self) -> bool:
        return self.step is not None or self.region is not None


EVERYTHING = Selection()
"""The whole file."""


def select(run: Run, selection: Selection) -> Run:
    """``run`` reduced to a step and to a region, on every thread; times and event numbers stay those of the file.

    Raises:
        InputError: The trace has no such step or region; the hint lists those that it has.
    """
    if selection.step is not None:
        run = _step(run, selection.step)
    if selection.region is not None:
        run = _region(run, selection.region)
    return run


def region_names(run: Run) -> tuple[str, ...]:
    """The regions of ``run``, in order of their first appearance."""
    slices = np.unique(run.host.region[run.host.region != ROOT])
    codes = run.trace.columns.name[run.host.row[slices[np.argsort(run.host.start_ns[slices], kind="stable")]]]
    return tuple(run.trace.tables.name[code] for code in dict.fromkeys(codes.tolist()))


def _step(run: Run, number: int) -> Run:
    chosen = [position for position, step in enumerate(run.steps) if step.index == number]
    if not chosen:
        known = [str(step.index) for step in run.steps]
        raise InputError(
            f"no step {number} in this trace",
            hint=f"its steps are {_some(known)}" if known else "it has none: profile with a schedule and `prof.step()`",
        )
    begins = run.host.start_ns
    inside = np.zeros(len(run.host), dtype=np.bool_)
    for position in chosen:
        inside |= (begins >= run.steps[position].start_ns) & (begins < run.steps[position].end_ns)
    cut = _restricted(run, inside, np.isin(run.activities.step, chosen), chosen)
    until = _begins_after(run, chosen[-1])
    return replace(cut, steps=(*cut.steps[:-1], replace(cut.steps[-1], until_ns=until)))


def _begins_after(run: Run, position: int) -> int | None:
    """When the work of the next step that has any begins on the device; ``None`` after the last."""
    following = (step.activities for step in run.steps[position + 1 :] if len(step.activities))
    return next((int(run.activities.start_ns[activities].min()) for activities in following), None)


def _region(run: Run, name: str) -> Run:
    host = run.host
    scopes = np.unique(host.region[host.region != ROOT])
    named = [code for code, known in enumerate(run.trace.tables.name) if known == name]
    wanted = np.zeros(len(host), dtype=np.bool_)
    wanted[scopes] = np.isin(run.trace.columns.name[host.row[scopes]], named)
    if not wanted.any():
        known = [f"`{region}`" for region in region_names(run)]
        raise InputError(
            f"no region `{name}` in this trace",
            hint=f"its regions are {_some(known)}" if known else "it has none: mark one with `record_function`",
        )
    inside = nearest(host.parent, wanted) != ROOT
    region = run.activities.region
    activities = (region != ROOT) & inside[region]
    launches = run.activities.launch[activities]
    above = launches[(launches != ROOT) & ~inside[launches]]  # on other threads: the backward of this region
    while len(above):
        inside[above] = True
        above = np.unique(host.parent[above])
        above = above[above != ROOT]
    return _restricted(run, inside, activities, range(len(run.steps)))


def _some(known: Sequence[str]) -> str:
    return ", ".join(known[:_LISTED]) + (f" and {len(known) - _LISTED} more" if len(known) > _LISTED else "")


def _restricted(run: Run, slices: Mask, activities: Mask, positions: Sequence[int]) -> Run:
    """Keep these slices and activities, the steps at ``positions``, and whatever the kept ones refer to."""
    host, a = run.host, run.activities
    slices = slices.copy()
    slices[[run.steps[position].slice for position in positions]] = True
    for refers in (a.launch[activities], a.op[activities], a.region[activities], a.module[activities]):
        slices[refers[refers != ROOT]] = True
    kept = np.flatnonzero(slices)
    renumbered = np.full(len(host) + 1, ROOT, dtype=np.int64)  # the last entry answers for ROOT, index −1
    renumbered[kept] = np.arange(len(kept))
    # a slice whose parent was dropped hangs from the nearest one that was kept
    above = np.append(nearest(host.parent, slices), ROOT)
    parent = renumbered[above[host.parent[kept]]]
    start, end = host.start_ns[kept], host.end_ns[kept]
    reduced = Host(
        row=host.row[kept],
        kind=host.kind[kept],
        thread=host.thread[kept],
        start_ns=start,
        end_ns=end,
        parent=parent,
        self_ns=self_times(parent, start, end),
        op=renumbered[host.op[kept]],
        region=renumbered[host.region[kept]],
        module=renumbered[host.module[kept]],
    )
    step = np.full(len(run.steps) + 1, -1, dtype=np.int64)
    step[list(positions)] = np.arange(len(positions))
    chosen = replace(
        a,
        **{
            name: getattr(a, name)[activities]
            for name in ("row", "kind", "start_ns", "end_ns", "stream", "device", "in_graph")
        },
        **{name: renumbered[getattr(a, name)[activities]] for name in ("launch", "op", "region", "module")},
        step=step[a.step[activities]],
    )
    steps = tuple(
        _renumbered(run.steps[position], int(renumbered[run.steps[position].slice]), np.flatnonzero(chosen.step == new))
        for new, position in enumerate(positions)
    )
    return replace(run, host=reduced, activities=chosen, steps=steps)


def _renumbered(step: Step, slice_: int, activities: Ints) -> Step:
    return replace(step, slice=slice_, activities=activities)
