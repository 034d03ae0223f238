"""How each rank of a job stands, and each kind of collective: medians over the steps."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from foretrace import stats

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from foretrace.fleet.merge import Meeting
    from foretrace.fleet.read import Job
    from foretrace.fleet.summary import StepTimes


@dataclass(frozen=True, slots=True)
class Standing:
    """One rank; nanoseconds a step, ``None`` without any.

    Attributes:
        rank: Its number.
        steps: How many steps the medians are over; 0 where the trace has none and stands for one.
        wall_ns, busy_ns, own_ns, exposed_ns: As in `StepTimes`.
        lost_ns: It had nothing to do but wait in a collective for another rank.
        holds_up_ns: It made the others wait so, the mean over them.
        last: How many collectives it came last to.
        met: Of how many.
    """

    rank: int
    steps: int
    wall_ns: float | None
    busy_ns: float | None
    own_ns: float | None
    exposed_ns: float | None
    lost_ns: float | None
    holds_up_ns: float | None
    last: int
    met: int


@dataclass(frozen=True, slots=True)
class Kind:
    """Collectives of one kind and size in one group.

    Attributes:
        collective, moved_bytes, group: What they are; the group by its name.
        ranks: How many take part.
        count, a_step: How many there were, in all and in a step.
        moving_ns, apart_ns: Medians of `Meeting`'s.
        lost_ns: The median of what the rank that waits longest loses.
        latest: The rank that came last most often.
        latest_count: How often.
    """

    collective: str
    moved_bytes: int | None
    group: str | None
    ranks: int
    count: int
    a_step: float
    moving_ns: float | None
    apart_ns: float | None
    lost_ns: float | None
    latest: int
    latest_count: int


def standings(job: Job) -> tuple[Standing, ...]:
    """Every rank, in order."""
    met = job.meetings.met
    return tuple(_standing(rank, job.ranks[rank].steps, met) for rank in job.ranks)


def _standing(rank: int, steps: Sequence[StepTimes], met: Sequence[Meeting]) -> Standing:
    def middle(of: Callable[[StepTimes], int]) -> float | None:
        return stats.median([of(step) for step in steps])

    mine = [meeting for meeting in met if rank in meeting.ranks]
    led = [meeting for meeting in mine if meeting.last == rank]
    lost = ((meeting.step, float(meeting.lost_ns(rank))) for meeting in mine)
    held = ((meeting.step, float(_held_up_ns(meeting) if meeting.last == rank else 0)) for meeting in mine)
    return Standing(
        rank=rank,
        steps=sum(step.index is not None for step in steps),
        wall_ns=middle(lambda step: step.wall_ns),
        busy_ns=middle(lambda step: step.busy_ns),
        own_ns=middle(lambda step: step.own_ns),
        exposed_ns=middle(lambda step: step.exposed_ns),
        lost_ns=_a_step(lost),
        holds_up_ns=_a_step(held),
        last=len(led),
        met=len(mine),
    )


def _held_up_ns(meeting: Meeting) -> float:
    others = [meeting.held_up_ns(rank) for rank in meeting.ranks if rank != meeting.last]
    return stats.mean(others) or 0.0


def _a_step(times: Iterable[tuple[int | None, float]]) -> float | None:
    """The median over steps of each step's sum."""
    sums: defaultdict[int | None, float] = defaultdict(float)
    for step, ns in times:
        sums[step] += ns
    return stats.median(list(sums.values()))


def kinds(job: Job) -> tuple[Kind, ...]:
    """Every kind of collective, those for which most is lost first."""
    alike: defaultdict[tuple[str, int | None, str | None], list[Meeting]] = defaultdict(list)
    for meeting in job.meetings.met:
        alike[meeting.kind, meeting.moved_bytes, meeting.group.name].append(meeting)
    found = [_kind(meetings) for meetings in alike.values()]
    return tuple(sorted(found, key=lambda kind: -(kind.lost_ns or 0.0) * kind.count))


def _kind(meetings: Sequence[Meeting]) -> Kind:
    one, steps = meetings[0], {meeting.step for meeting in meetings}
    latest, times = Counter(meeting.last for meeting in meetings).most_common(1)[0]
    return Kind(
        collective=one.kind,
        moved_bytes=one.moved_bytes,
        group=one.group.name,
        ranks=max(len(meeting.ranks) for meeting in meetings),
        count=len(meetings),
        a_step=len(meetings) / len(steps),
        moving_ns=stats.median([meeting.moving_ns for meeting in meetings]),
        apart_ns=stats.median([meeting.apart_ns for meeting in meetings]),
        lost_ns=stats.median([max(map(meeting.lost_ns, meeting.ranks)) for meeting in meetings]),
        latest=latest,
        latest_count=times,
    )
