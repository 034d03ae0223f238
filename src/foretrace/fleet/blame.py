"""Who lost how much time to whom, step by step.

A rank that comes last may itself have waited before: what it lost to another in the same step, and is late by now, is
the other's doing. So lateness is followed to where it began, also from group to group.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from foretrace.run.intervals import union_ns

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from foretrace.fleet.merge import Meeting


@dataclass(slots=True)
class Losses:
    """Of one step, nanoseconds.

    Attributes:
        lost: Rank → time in which it had nothing to do but wait.
        held: (who began it, who lost it) → time; what nobody in particular began is left out.
    """

    lost: dict[int, int]
    held: dict[tuple[int, int], float]


def losses(met: Iterable[Meeting]) -> dict[int | None, Losses]:
    """What every step lost."""
    by_step: defaultdict[int | None, list[Meeting]] = defaultdict(list)
    for meeting in met:
        by_step[meeting.step].append(meeting)
    return {step: _of_step(meetings) for step, meetings in by_step.items()}


def _of_step(meetings: Sequence[Meeting]) -> Losses:
    lost, held = _lost(meetings), _held(meetings)
    sums: defaultdict[int, float] = defaultdict(float)
    for (_, rank), ns in held.items():
        sums[rank] += ns
    # nobody can be held up for longer than it waited
    at_most = {rank: min(1.0, lost[rank] / ns) if ns else 0.0 for rank, ns in sums.items()}
    return Losses(lost, {pair: ns * at_most[pair[1]] for pair, ns in held.items()})


def _lost(meetings: Sequence[Meeting]) -> dict[int, int]:
    """Two collectives that wait at a time lose it once."""
    sums: defaultdict[int, int] = defaultdict(int)
    waits: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for meeting in meetings:
        came = max(meeting.start_ns)
        for rank, start, end, lost in zip(
            meeting.ranks, meeting.start_ns, meeting.end_ns, meeting.lost_ns, strict=True
        ):
            sums[rank] += lost
            if lost:
                waits[rank].append((start, min(came, end)))
    found = dict(sums)
    for rank, intervals in waits.items():
        start, end = np.array(intervals, dtype=np.int64).T
        found[rank] = min(found[rank], union_ns(start, end))
    return found


def _held(meetings: Sequence[Meeting]) -> dict[tuple[int, int], float]:
    held: defaultdict[tuple[int, int], float] = defaultdict(float)
    delays: defaultdict[int, defaultdict[int, float]] = defaultdict(lambda: defaultdict(float))
    for meeting in meetings:
        last = meeting.last
        if last is None:
            continue
        before = dict(delays[last]) if meeting.step is not None else {}
        nearest = {last: 1.0}
        # in the order of their coming: the last but one, whose wait is the last one's lateness, ends the row
        for rank, _, lost in sorted(
            zip(meeting.ranks, meeting.start_ns, meeting.lost_ns, strict=True), key=lambda one: one[1]
        ):
            if rank == last:
                continue
            # what delayed both alike makes neither late to the other
            more = {culprit: ns - delays[rank][culprit] for culprit, ns in before.items() if ns > delays[rank][culprit]}
            nearest = _shares(last, meeting.late_ns, more)
            for culprit, share in nearest.items():
                some = share * min(lost, meeting.late_ns)
                delays[rank][culprit] += some
                if culprit != rank and some:
                    held[culprit, rank] += some
        delays[last][last] += nearest.get(last, 0.0) * meeting.late_ns
    return dict(held)


def _shares(last: int, late_ns: int, delayed: dict[int, float]) -> dict[int, float]:
    """Whose doing it is that ``last`` came last: of those that delayed it before, as far as they did, then its own."""
    before = sum(delayed.values())
    if not before:
        return {last: 1.0}
    inherited = min(1.0, before / late_ns)
    shares = {culprit: inherited * ns / before for culprit, ns in delayed.items()}
    shares[last] = shares.get(last, 0.0) + 1.0 - inherited
    return shares
