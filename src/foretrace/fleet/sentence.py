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


def step_ns(standings: Sequence[Standing]) -> float:
    """How long a step takes the ranks, in their median."""
    return stats.median([one.step_ns for one in standings]) or 0.0


def has_steps(standings: Sequence[Standing]) -> bool:
    """Whether the times are those of a step; else of a whole trace."""
    return any(one.steps for one in standings)


def culprit(standings: Sequence[Standing]) -> Standing | None:
    """The rank that holds the others up most, where that is worth a word: more than 2 % of a step."""
    most = max(standings, key=lambda one: one.holds_up_ns or 0.0)
    return most if (most.holds_up_ns or 0.0) > _WORTH_A_WORD * step_ns(standings) else None


def works_longer(one: Standing, standings: Sequence[Standing]) -> bool:
    """Whether a rank's own kernels take more than 5 % longer than the others' do."""
    others = _others_own_ns(one, standings)
    return bool(others and one.own_ns and one.own_ns > _LONGER * others)


def _others_own_ns(one: Standing, standings: Sequence[Standing]) -> float | None:
    return stats.median([other.own_ns for other in standings if other is not one and other.own_ns is not None])


def sentence(standings: Sequence[Standing], meetings: Meetings) -> str:
    """For two ranks or more."""
    if not meetings.met:
        return f"Who waits for whom cannot be told: {_why_not(meetings)}. {_apart(standings)}".rstrip()
    step, late, per = step_ns(standings), culprit(standings), _per(standings)
    if late is not None:
        held = late.holds_up_ns or 0.0
        return (
            f"Rank {late.rank} holds the others up by {duration(held)} {per} ({percent(held, step)} of "
            f"{duration(step)}): it came last to {late.last:,} of {plural(late.met, 'collective')}. "
            f"{_why(late, standings)}"
        ).rstrip()
    lost = stats.median([one.lost_ns for one in standings if one.lost_ns is not None]) or 0.0
    if lost > _WORTH_A_WORD * step:
        return (
            f"Ranks wait {duration(lost)} {per} for one another ({percent(lost, step)} of {duration(step)}, in their "
            "median), and no one rank is behind it: another one is late each time."
        )
    of_it = f" ({percent(lost, step)})" if step else ""
    waits = f"they wait {duration(lost)} {per}{of_it}, in their median"
    return f"No rank holds the others up for long: {waits}."


def _per(standings: Sequence[Standing]) -> str:
    return "a step" if has_steps(standings) else "in all"


def _why(late: Standing, standings: Sequence[Standing]) -> str:
    others = _others_own_ns(late, standings)
    if late.own_ns is None or others is None:
        return ""
    times = f"{duration(late.own_ns)} {_per(standings)}, the others' {duration(others)}"
    if works_longer(late, standings):
        return f"Its own kernels take longer ({times})."
    return f"Its own kernels take no longer ({times}): it starts them later."


def _why_not(meetings: Meetings) -> str:
    if not meetings.unmatched:
        return "the traces hold no collective of a step"
    kernels = plural(meetings.unmatched, "kernel")
    return (
        f"of {kernels} of collectives none could be put to another rank's (steps, groups, kinds or sizes differ, or "
        "the files do not say which ranks belong together)"
    )


def _apart(standings: Sequence[Standing]) -> str:
    known = sorted((one.wall_ns, one.rank) for one in standings if one.wall_ns is not None)
    if len(known) < 2:  # noqa: PLR2004 - one has nothing to be held against
        return ""
    (least, quick), (most, slow) = known[0], known[-1]
    what = "A step takes" if has_steps(standings) else "The whole takes"
    return f"{what} {duration(least)} on rank {quick} and {duration(most)} on rank {slow}."
