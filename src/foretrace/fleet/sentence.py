"""Who waits for whom, in a sentence or two."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foretrace import stats
from foretrace.units import duration, percent, plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foretrace.fleet.merge import Meetings
    from foretrace.fleet.standing import Standing

_WORTH_A_WORD = 0.02
_LONGER = 1.05


def culprit(standings: Sequence[Standing]) -> Standing | None:
    """The rank that holds the others up most, where that is worth a word: at least 2 % of its step."""
    known = [one for one in standings if one.holds_up_ns is not None and one.wall_ns]
    if not known:
        return None
    most = max(known, key=lambda one: one.holds_up_ns or 0.0)
    return most if (most.holds_up_ns or 0.0) >= _WORTH_A_WORD * (most.wall_ns or 0.0) else None


def works_longer(one: Standing, standings: Sequence[Standing]) -> bool:
    """Whether a rank's own kernels take more than 5 % longer than the others' do."""
    others = _others_own_ns(one, standings)
    return bool(others and one.own_ns and one.own_ns > _LONGER * others)


def _others_own_ns(one: Standing, standings: Sequence[Standing]) -> float | None:
    return stats.median([other.own_ns for other in standings if other is not one and other.own_ns is not None])


def sentence(standings: Sequence[Standing], meetings: Meetings) -> str:
    """For two ranks or more."""
    late = culprit(standings)
    if late is not None:
        held = (
            f"Rank {late.rank} holds the others up by {duration(late.holds_up_ns or 0)} a step "
            f"({percent(late.holds_up_ns or 0, late.wall_ns or 0)} of its {duration(late.wall_ns or 0)}): it came last "
            f"to {late.last:,} of {plural(late.met, 'collective')}."
        )
        return f"{held} {_why(late, standings)}"
    if meetings.met:
        most = max(standings, key=lambda one: one.holds_up_ns or 0.0)
        if not most.holds_up_ns:
            return "No rank holds the others up: what waits does so beside other work."
        return (
            f"No rank holds the others up for long: rank {most.rank} does most, by {duration(most.holds_up_ns or 0)} a "
            f"step ({percent(most.holds_up_ns or 0, most.wall_ns or 0)})."
        )
    return f"Who waits for whom cannot be told: {_why_not(meetings)}. {_apart(standings)}".rstrip()


def _why(late: Standing, standings: Sequence[Standing]) -> str:
    others = _others_own_ns(late, standings)
    if late.own_ns is None or others is None:
        return ""
    times = f"{duration(late.own_ns)} a step, the others' {duration(others)}"
    if works_longer(late, standings):
        return f"Its own kernels take longer ({times})."
    return f"Its own kernels take no longer ({times}): it starts them later."


def _why_not(meetings: Meetings) -> str:
    if not meetings.unmatched:
        return "the traces hold no collective of a step"
    return f"{plural(meetings.unmatched, 'kernel')} of collectives, and in no step the same on all ranks of a group"


def _apart(standings: Sequence[Standing]) -> str:
    known = sorted((one.wall_ns, one.rank) for one in standings if one.wall_ns is not None)
    if len(known) < 2:  # noqa: PLR2004 - one has nothing to be held against
        return ""
    (least, quick), (most, slow) = known[0], known[-1]
    return f"A step takes {duration(least)} on rank {quick} and {duration(most)} on rank {slow}."
