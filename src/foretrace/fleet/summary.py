"""What one rank's trace says that the others' must be held against, small enough to travel between machines."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from foretrace.readings import collectives
from foretrace.run import ROOT, build
from foretrace.trace import read_trace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from foretrace.run import Run

    Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Group:
    """A process group, alike on all its ranks: name, ranks as the files spell them, how many; as far as they say."""

    name: str | None
    ranks: str | None
    size: int | None

    @property
    def count(self) -> int | None:
        """How many ranks it has; long lists are shortened in the files."""
        if self.size is not None or self.ranks is None or "..." in self.ranks:
            return self.size
        return len(re.findall(r"\d+", self.ranks))


@dataclass(frozen=True, slots=True)
class Part:
    """One rank's kernel of one collective.

    Attributes:
        step: ``N`` of the ``ProfilerStep#N`` that launched it; ``None`` in a trace without steps.
        group: Whom it is with.
        kind: ``all-reduce``; the kernel's name in short where the file does not say.
        moved_bytes: Of this rank's message; ``None`` where the file does not say.
        start_ns, end_ns: Unix time by the clock of its machine.
        exposed_ns: How long it ran beside no other kernel and no set.
        sequence: The how many-th of its group it is; ``None`` where the file does not say.
        peer: The rank that it is sent to or comes from; ``None`` for what is no send or receive, or does not say.
    """

    step: int | None
    group: Group
    kind: str
    moved_bytes: int | None
    start_ns: int
    end_ns: int
    exposed_ns: int
    sequence: int | None = None
    peer: int | None = None


@dataclass(frozen=True, slots=True)
class StepTimes:
    """One step of one rank, nanoseconds.

    Attributes:
        index: ``N`` of ``ProfilerStep#N``; ``None`` for a whole trace without steps.
        wall_ns: The step's annotation on the host; the activities' span where there is none.
        busy_ns: Some activity ran.
        own_ns: Some activity other than a collective's kernel ran.
        exposed_ns: A collective's kernel ran, and no other kernel and no set.
    """

    index: int | None
    wall_ns: int
    busy_ns: int
    own_ns: int
    exposed_ns: int


@dataclass(frozen=True, slots=True)
class Summary:
    """One trace.

    Attributes:
        path: As it was given.
        rank, world_size, device: As the file says.
        groups: How many process groups there were, as the file says.
        start_ns, end_ns: Unix time of the first and the last thing that it holds.
        steps: In order.
        parts: Of collectives that a step launched (any, without steps), in the order of their launch.
        notes: What was repaired, missing or cut, in words.
    """

    path: str
    rank: int | None
    world_size: int | None
    device: str | None
    groups: int | None
    start_ns: int
    end_ns: int
    steps: tuple[StepTimes, ...]
    parts: tuple[Part, ...]
    notes: tuple[str, ...]


def summarize(path: str) -> Summary:
    """Read one trace and keep what a fleet needs of it.

    Raises:
        ForetraceError: As `foretrace.trace.read_trace`.
    """
    run = build(read_trace(path))
    talking = collectives.is_collective(run)
    start, dur = run.trace.columns.start_ns, run.trace.columns.dur_ns
    return Summary(
        path=path,
        rank=run.rank,
        world_size=run.world_size,
        device=run.device_name,
        groups=run.process_groups,
        start_ns=run.trace.base_ns + int(start.min(initial=0)),
        end_ns=run.trace.base_ns + int((start + np.maximum(dur, 0)).max(initial=0)),
        steps=_steps(run, talking),
        parts=_parts(run, talking),
        notes=tuple(note.text for note in run.notes),
    )


def _steps(run: Run, talking: NDArray[np.bool_]) -> tuple[StepTimes, ...]:
    a = run.activities
    if not run.steps:
        if not len(a):
            return ()
        span = int(a.end_ns.max() - a.start_ns[0])
        return (_times(run, None, span, np.arange(len(a)), talking),)
    return tuple(_times(run, step.index, step.dur_ns, step.activities, talking) for step in run.steps)


def _times(run: Run, index: int | None, wall_ns: int, activities: Ints, talking: NDArray[np.bool_]) -> StepTimes:
    own = activities[~talking[activities]]
    exposed = collectives.exposed_ns(run, activities[talking[activities]])
    return StepTimes(index, wall_ns, run.busy_ns(activities), run.busy_ns(own), exposed)


def _parts(run: Run, talking: NDArray[np.bool_]) -> tuple[Part, ...]:
    a, base_ns = run.activities, run.trace.base_ns
    found = []
    activities, exposed = np.flatnonzero(talking), collectives.exposed_each_ns(run)
    launched = a.launch[activities] != ROOT
    asked = np.where(launched, run.host.start_ns[a.launch[activities]] if len(run.host) else 0, a.start_ns[activities])
    order = np.lexsort((a.start_ns[activities], asked))
    for activity, alone_ns in zip(activities[order].tolist(), exposed[order].tolist(), strict=True):
        at = int(a.step[activity])
        if run.steps and at == ROOT:
            continue  # of a step that the trace does not hold
        step = run.steps[at].index if run.steps else None
        said = collectives.said(run, activity)
        group = Group(said.group_name, said.group_ranks, said.group_size) if said else Group(None, None, None)
        kind = collectives.kind_of(said.name if said else None) or _kind_by_name(run.identity(activity).short)
        moved = collectives.moved_bytes(said.in_elements, said.dtype) if said else None
        start, end = base_ns + int(a.start_ns[activity]), base_ns + int(a.end_ns[activity])
        sequence, peer = (said.sequence, said.peer) if said else (None, None)
        found.append(Part(step, group, kind, moved, start, end, alone_ns, sequence, peer))
    return tuple(found)


def _kind_by_name(short: str) -> str:
    """``NCCL all-reduce`` → ``all-reduce``."""
    return short.partition(" ")[2] or short
