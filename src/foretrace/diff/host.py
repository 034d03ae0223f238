"""The host side of two runs, in counts a step: ops that came and went, launches, waits, regions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from foretrace.readings.calls import Call, calls
from foretrace.readings.host import step_of
from foretrace.run import ROOT, Kind, Run

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

_COMPILED = "Torch-Compiled Region: "
_LAUNCHING = (Call.LAUNCH, Call.GRAPH, Call.COPY, Call.SET)


@dataclass(frozen=True, slots=True)
class Count:
    """How often something happens in a step (median over steps) on both sides."""

    name: str
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class CpuOps:
    """Operators that only one side calls; ``changed`` are those that both call, but not equally often."""

    removed: tuple[str, ...]
    added: tuple[str, ...]
    changed: tuple[Count, ...]


@dataclass(frozen=True, slots=True)
class Region:
    """One ``record_function`` region a step: wall time on the host and GPU busy time, medians; ``None`` is absent."""

    name: str
    before_host_ns: float | None
    after_host_ns: float | None
    before_gpu_ns: float | None
    after_gpu_ns: float | None


def cpu_ops(before: Run, after: Run) -> CpuOps:
    """Operators gone, added, and called more or less often; launchers of generated kernels are none of them."""
    was, now = _ops(before), _ops(after)
    return CpuOps(
        removed=tuple(name for name in was if name not in now),
        added=tuple(name for name in now if name not in was),
        changed=tuple(Count(n, was[n], now[n]) for n in was if n in now and was[n] != now[n]),
    )


def launch_calls(before: Run, after: Run) -> tuple[Count, ...]:
    """Calls that launch kernels, graphs, copies and sets."""
    return _together(_calls(before, _LAUNCHING), _calls(after, _LAUNCHING))


def syncs(before: Run, after: Run) -> tuple[Count, ...]:
    """Calls that hold the CPU until the GPU has come so far."""
    return _together(_calls(before, (Call.WAIT,)), _calls(after, (Call.WAIT,)))


def compiled_calls(run: Run) -> dict[str, int]:
    """Compile id (``0/1``) of every compiled region that ran in the run's steps → how often in all."""
    names = run.trace.tables.name
    codes = [code for code, name in enumerate(names) if name.startswith(_COMPILED)]
    slices = np.flatnonzero(np.isin(run.trace.columns.name[run.host.row], codes) & (step_of(run) >= 0))
    found, counts = np.unique(run.trace.columns.name[run.host.row[slices]], return_counts=True)
    return {
        names[code].removeprefix(_COMPILED): count for code, count in zip(found.tolist(), counts.tolist(), strict=True)
    }


def regions(before: Run, after: Run) -> tuple[Region, ...]:
    """Regions by name; one that stands alone on each side is the same one under another name."""
    was, now = _regions(before), _regions(after)
    if len(was) == len(now) == 1 and was.keys() != now.keys():
        old, new = next(iter(was)), next(iter(now))
        return (Region(f"{old} → {new}", was[old][0], now[new][0], was[old][1], now[new][1]),)
    absent = (None, None)
    rows = ((name, was.get(name, absent), now.get(name, absent)) for name in dict.fromkeys([*was, *now]))
    return tuple(Region(name, a[0], b[0], a[1], b[1]) for name, a, b in rows)


def _together(was: Mapping[str, float], now: Mapping[str, float]) -> tuple[Count, ...]:
    return tuple(Count(name, was.get(name, 0.0), now.get(name, 0.0)) for name in dict.fromkeys([*was, *now]))


def _ops(run: Run) -> dict[str, float]:
    names = run.trace.columns.name
    launchers = np.isin(names[run.host.row], np.unique(names[run.activities.row]))
    return _counts(run, np.flatnonzero((run.host.kind == Kind.OPERATOR) & ~launchers))


def _calls(run: Run, wanted: tuple[Call, ...]) -> dict[str, float]:
    return _counts(run, np.flatnonzero(np.isin(calls(run), wanted)))


def _counts(run: Run, slices: Ints) -> dict[str, float]:
    """Median count a step of every name among ``slices``, in order of first appearance."""
    return {name: median for name, median in _medians(run, slices, np.ones(len(slices), dtype=np.int64)) if median}


def _medians(run: Run, slices: Ints, values: Ints) -> list[tuple[str, float]]:
    """For every name among ``slices`` the median over steps of the sum of ``values``."""
    where = step_of(run)[slices]
    slices, values, where = slices[where >= 0], values[where >= 0], where[where >= 0]
    codes, first, inverse = np.unique(
        run.trace.columns.name[run.host.row[slices]], return_index=True, return_inverse=True
    )
    sums = np.zeros((len(codes), len(run.steps)), dtype=np.int64)
    np.add.at(sums, (inverse, where), values)
    medians = np.median(sums, axis=1) if sums.size else np.zeros(len(codes))
    order = np.argsort(run.host.start_ns[slices[first]], kind="stable")
    return [(run.trace.tables.name[int(codes[i])], float(medians[i])) for i in order.tolist()]


def _regions(run: Run) -> dict[str, tuple[float, float | None]]:
    host = run.host
    scopes = np.unique(host.region[host.region != ROOT])
    walls = _medians(run, scopes, host.end_ns[scopes] - host.start_ns[scopes])
    busy = _region_busy(run)
    return {name: (wall, busy.get(name)) for name, wall in walls}


def _region_busy(run: Run) -> dict[str, float]:
    found: dict[str, list[int]] = {}
    for position, step in enumerate(run.steps):
        region = run.activities.region[step.activities]
        inside, region = step.activities[region != ROOT], region[region != ROOT]
        codes = run.trace.columns.name[run.host.row[region]]
        for code in np.unique(codes).tolist():
            times = found.setdefault(run.trace.tables.name[code], [0] * len(run.steps))
            times[position] = run.busy_ns(inside[codes == code])
    return {name: float(np.median(times)) for name, times in found.items()}
