"""How each rank of a job stands, and each kind of collective: medians over the steps."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from foretrace import stats
from foretrace.fleet.blame import losses

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from foretrace.fleet.blame import Losses
    from foretrace.fleet.jobs import Job
    from foretrace.fleet.merge import Meeting
    from foretrace.fleet.summary import StepTimes


@dataclass(frozen=True, slots=True)
class Standing:
    """One rank; nanoseconds a step, ``None`` without any.

    Attributes:
        rank: Its number.
        steps: How many steps the medians are over; 0 where the trace has none and stands for one.
        wall_ns, busy_ns, own_ns, exposed_ns: As in `StepTimes`.
        lost_ns: It had nothing to do but wait in a collective for another rank.
        holds_up_ns: What ranks lost to it, in the mean of those that did, directly or through ranks that it delayed.
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

    @property
    def step_ns(self) -> float:
        """A step's length: the host's mark, or the GPU's work where the host runs ahead of it."""
        return max(self.wall_ns or 0.0, self.busy_ns or 0.0)


@dataclass(frozen=True, slots=True)
class Kind:
    """Collectives of one kind and size in one group.

    Attributes:
        collective, moved_bytes, group: What they are; the group by its name.
        ranks: How many take part.
        count, a_step: How many there were, in all and in a step.
        moving_ns, apart_ns: Medians of `Meeting`'s.
        lost_ns: The median of what the rank that waits longest loses.
        latest: The rank that came last most often; ``None`` where none did by more than a tie.
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
    latest: int | None
    latest_count: int


def standings(job: Job) -> tuple[Standing, ...]:
    """Every rank, in order."""
    by_step = losses(job.meetings.met)
    last = Counter(meeting.last for meeting in job.meetings.met)
    met = Counter(rank for meeting in job.meetings.met for rank in meeting.ranks)
    held: dict[int, dict[int | None, float]] = defaultdict(lambda: dict.fromkeys(by_step, 0.0))
    victims: defaultdict[int, set[int]] = defaultdict(set)
    for culprit, victim in (pair for found in by_step.values() for pair in found.held):
        victims[culprit].add(victim)
    for step, found in by_step.items():
        for (culprit, _), ns in found.held.items():
            held[culprit][step] += ns / len(victims[culprit])
    return tuple(
        _standing(rank, summary.steps, by_step, held[rank], (last[rank], met[rank]))
        for rank, summary in job.ranks.items()
    )


def _standing(
    rank: int,
    steps: Sequence[StepTimes],
    by_step: dict[int | None, Losses],
    held: dict[int | None, float],
    counts: tuple[int, int],
) -> Standing:
    def middle(of: Callable[[StepTimes], int]) -> float | None:
        return stats.median([of(step) for step in steps])

    return Standing(
        rank=rank,
        steps=sum(step.index is not None for step in steps),
        wall_ns=middle(lambda step: step.wall_ns),
        busy_ns=middle(lambda step: step.busy_ns),
        own_ns=middle(lambda step: step.own_ns),
        exposed_ns=middle(lambda step: step.exposed_ns),
        lost_ns=stats.median([found.lost[rank] for found in by_step.values() if rank in found.lost]),
        holds_up_ns=stats.median(list(held.values())) if counts[1] else None,
        last=counts[0],
        met=counts[1],
    )


def kinds(job: Job) -> tuple[Kind, ...]:
    """Every kind of collective, those for which most is lost first."""
    alike: defaultdict[tuple[str, int | None, str | None], list[Meeting]] = defaultdict(list)
    for meeting in job.meetings.met:
        alike[meeting.kind, meeting.moved_bytes, meeting.group.name].append(meeting)
    found = [_kind(meetings) for meetings in alike.values()]
    return tuple(sorted(found, key=lambda kind: -(kind.lost_ns or 0.0) * kind.count))


def _kind(meetings: Sequence[Meeting]) -> Kind:
    one, steps = meetings[0], {meeting.step for meeting in meetings}
    latest = Counter(meeting.last for meeting in meetings if meeting.last is not None).most_common(1)
    return Kind(
        collective=one.kind,
        moved_bytes=one.moved_bytes,
        group=one.group.name,
        ranks=max(len(meeting.ranks) for meeting in meetings),
        count=len(meetings),
        a_step=len(meetings) / len(steps),
        moving_ns=stats.median([m.moving_ns for m in meetings if m.moving_ns is not None]),
        apart_ns=stats.median([meeting.apart_ns for meeting in meetings]),
        lost_ns=stats.median([max(meeting.lost_ns) for meeting in meetings]),
        latest=latest[0][0] if latest else None,
        latest_count=latest[0][1] if latest else 0,
    )
