"""Time that the trace's steps spent compiling: Dynamo's calls, and autotuning beside them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from foretrace.readings.autotuning import tuner_slices
from foretrace.run import ROOT, Run
from foretrace.run.tree import nearest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

# What PyTorch's `dynamo_timed` writes around a compilation, newest name first; the outermost one counts.
_COMPILES = re.compile(r"(dynamo|entire_frame_compile|_compile\.compile_inner)( \(dynamo_timed\))?$")


@dataclass(frozen=True, slots=True)
class Compiling:
    """Compilation seen in a trace.

    Attributes:
        compiles: Slices of Dynamo's compilations, in order of time.
        compile_ns: Their durations.
        tunings: Outermost autotuning slices outside them.
        tuning_ns: Their durations.
        steps_ns: Wall time of all steps, or from the first to the last host slice where there are none.
    """

    compiles: tuple[int, ...]
    compile_ns: tuple[int, ...]
    tunings: tuple[int, ...]
    tuning_ns: tuple[int, ...]
    steps_ns: int

    @property
    def dominates(self) -> bool:
        """Whether compiling and tuning take more than half of the steps."""
        return 2 * (sum(self.compile_ns) + sum(self.tuning_ns)) > self.steps_ns > 0


@lru_cache(maxsize=2)
def compiling(run: Run) -> Compiling:
    """The compilations and the autotuning of a run."""
    host = run.host
    if not len(host):
        return Compiling((), (), (), (), 0)
    codes = [code for code, name in enumerate(run.trace.tables.name) if _COMPILES.match(name)]
    wanted = np.isin(run.trace.columns.name[host.row], codes)
    inside = nearest(host.parent, wanted)
    compiles = _outermost(run, wanted, inside)
    tuner = tuner_slices(run)
    tuning = (tuner == np.arange(len(host))) & (inside == ROOT)
    tunings = _outermost(run, tuning, tuner)
    steps = sum(step.dur_ns for step in run.steps) or int(host.end_ns.max() - host.start_ns.min())
    return Compiling(tuple(compiles), _lengths(run, compiles), tuple(tunings), _lengths(run, tunings), steps)


def _outermost(run: Run, wanted: NDArray[np.bool_], around: Ints) -> list[int]:
    """The ``wanted`` slices that no other of them encloses; ``around`` is the innermost of them at each slice."""
    parent = run.host.parent
    enclosed = (parent != ROOT) & (around[parent] != ROOT)
    found = np.flatnonzero(wanted & ~enclosed)
    ordered: list[int] = found[np.argsort(run.host.start_ns[found], kind="stable")].tolist()
    return ordered


def _lengths(run: Run, slices: Sequence[int]) -> tuple[int, ...]:
    index = list(slices)
    return tuple(int(ns) for ns in run.host.end_ns[index] - run.host.start_ns[index])
