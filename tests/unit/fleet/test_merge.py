"""Collectives of several ranks held against each other: what is one, who came last, what the others lost."""

from __future__ import annotations

from collections import Counter

import pytest

from foretrace.fleet import Job, Meeting, Meetings, Summary
from foretrace.fleet.merge import meet
from foretrace.fleet.sentence import culprit, sentence
from foretrace.fleet.standing import kinds, standings
from foretrace.fleet.summary import Group, Part, StepTimes

WORLD = Group("0", "[0, 1, 2, 3]")
US = 1_000
Seen = tuple[int, int, int]  # step, start and end in µs


def summary(
    rank: int, seen: list[Seen], *, kind: str = "all-reduce", group: Group = WORLD, own_us: int = 300, moved: int = 8
) -> Summary:
    """A rank whose kernels run beside nothing else."""
    steps = tuple(StepTimes(i, 1_000 * US, 600 * US, own_us * US, 100 * US) for i in sorted({s for s, _, _ in seen}))
    places: Counter[int] = Counter()
    parts = []
    for step, start, end in seen:
        parts.append(Part(step, group, places[step], kind, moved, start * US, end * US, (end - start) * US))
        places[step] += 1
    return Summary(f"rank{rank}.json", rank, 4, "NVIDIA H200", steps, tuple(parts), ())


def job(*summaries: Summary) -> Job:
    """A job of four ranks, of which these are 0, 1 and so on."""
    ranks = dict(enumerate(summaries))
    return Job("job", ranks, meet(ranks), 4)


def test_the_last_rank_and_what_the_others_lose() -> None:
    """Rank 2 comes 500 µs after rank 0 and 400 after rank 3; what it alone costs is up to the last but one."""
    found = job(*(summary(r, [(0, at, 610)]) for r, at in enumerate((100, 150, 600, 200))))
    (meeting,) = found.meetings.met
    assert (meeting.last, meeting.apart_ns, meeting.moving_ns) == (2, 500 * US, 10 * US)
    assert [meeting.lost_ns(r) for r in range(4)] == [500 * US, 450 * US, 0, 400 * US]
    assert [meeting.held_up_ns(r) for r in range(4)] == [400 * US, 400 * US, 0, 400 * US]
    late = culprit(standings(found))
    assert late is not None
    assert (late.rank, late.holds_up_ns, late.last, late.met) == (2, 400 * US, 1, 1)
    assert sentence(standings(found), found.meetings) == (
        "Rank 2 holds the others up by 400 µs a step (40.0 % of its 1.00 ms): it came last to 1 of 1 collective. Its "
        "own kernels take no longer (300 µs a step, the others' 300 µs): it starts them later."
    )


def test_a_rank_that_works_longer() -> None:
    """The cause is said by its own kernels."""
    ranks = [summary(r, [(0, 100, 610)]) for r in range(3)]
    found = job(*ranks, summary(3, [(0, 600, 610)], own_us=800))
    assert "Rank 3 holds the others up" in (said := sentence(standings(found), found.meetings))
    assert said.endswith("Its own kernels take longer (800 µs a step, the others' 300 µs).")


def test_who_computes_ahead_loses_nothing() -> None:
    """A collective that waits beside other work is not lost time, and holds nobody up."""
    early = Part(0, WORLD, 0, "all-reduce", 8, 0, 510 * US, 10 * US)
    late = Part(0, WORLD, 0, "all-reduce", 8, 500 * US, 510 * US, 10 * US)
    step = (StepTimes(0, 1_000 * US, 600 * US, 300 * US, 100 * US),)
    found = job(*(Summary(f"{i}", i, 2, None, step, (part,), ()) for i, part in enumerate((early, late))))
    assert [found.meetings.met[0].lost_ns(r) for r in (0, 1)] == [0, 0]
    assert culprit(standings(found)) is None
    assert sentence(standings(found), found.meetings) == (
        "No rank holds the others up: what waits does so beside other work."
    )


def test_clocks_that_disagree_are_aligned_by_the_ends() -> None:
    """Rank 1's clock is 7 s ahead; by its own clock it would come last by as much."""
    off = 7_000_000
    ranks = (
        summary(0, [(0, 100, 160), (1, 300, 360)]),
        summary(1, [(0, off + 150, off + 160), (1, off + 350, off + 360)]),
    )
    found = job(*ranks).meetings
    assert found.ahead_ns[1] - found.ahead_ns[0] == off * US
    assert [(m.last, m.apart_ns) for m in found.met] == [(1, 50 * US)] * 2
    near = meet({0: summary(0, [(0, 100, 160)]), 1: summary(1, [(0, 150, 180)])})
    assert near.ahead_ns == {}


@pytest.mark.parametrize(
    "other",
    [
        summary(1, [(0, 100, 110)]),  # one fewer
        summary(1, [(0, 100, 110), (0, 200, 210)], kind="all-gather"),
        summary(1, [(0, 100, 110), (0, 200, 210)], moved=16),
        summary(1, [(0, 100, 110), (0, 200, 210)], group=Group("0", "[1, 2]")),
        summary(1, [(5, 100, 110), (5, 200, 210)]),
    ],
)
def test_what_differs_between_ranks_is_left_out(other: Summary) -> None:
    """A wrong pair would blame the wrong rank."""
    found = meet({0: summary(0, [(0, 100, 110), (0, 200, 210)]), 1: other})
    assert found.met == ()
    assert found.unmatched == 2 + len(other.parts)
    assert sentence(standings(Job("", {0: other, 1: other}, found, 2)), found).startswith(
        "Who waits for whom cannot be told"
    )


def test_sends_meet_receives_and_groups_of_one_name_stay_apart() -> None:
    """Two pipelines, whose groups have one name and other ranks."""
    pairs = Group("1", "[0, 1]"), Group("1", "[2, 3]")
    ranks = [summary(r, [(0, 100 + r, 200)], kind=k, group=pairs[r // 2]) for r, k in enumerate(["send", "recv"] * 2)]
    met = job(*ranks).meetings.met
    assert [(m.kind, m.ranks) for m in met] == [("send and recv", (0, 1)), ("send and recv", (2, 3))]


def test_kinds_are_counted_and_those_that_cost_most_come_first() -> None:
    """Two sizes, the small one with the long wait."""
    small = [summary(r, [(s, 1_000 * s + 100 * r, 1_000 * s + 110)]) for s in range(3) for r in range(2)]
    ranks = [
        Summary("", r, 2, None, small[r].steps, tuple(p for one in small[r::2] for p in one.parts), ())
        for r in range(2)
    ]
    (kind,) = kinds(job(*ranks))
    assert (kind.count, kind.a_step, kind.latest, kind.latest_count, kind.lost_ns) == (3, 1.0, 1, 3, 100 * US)


def test_a_meeting_of_the_future() -> None:
    """A kernel that ended before the last rank came has waited no longer than it ran, whatever the clocks say."""
    odd = Meeting(0, WORLD, "all-reduce", 8, (0, 1), (0, 100), (50, 150), (50, 50))
    assert (odd.lost_ns(0), odd.moving_ns) == (50, 0)
    assert Meetings((odd,), 0, {}).met[0].last == 1
