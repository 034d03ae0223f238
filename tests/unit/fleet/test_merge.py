"""Collectives of several ranks held against each other: what is one, who came last, what the others lost."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from foretrace.fleet import Fleet, Job, Summary
from foretrace.fleet.merge import meet
from foretrace.fleet.sentence import culprit, sentence
from foretrace.fleet.standing import kinds, standings
from foretrace.fleet.summary import Group, Part, StepTimes
from foretrace.render.to_terminal import to_terminal
from foretrace.report.fleet import fleet_document

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

WORLD = Group("0", "[0, 1, 2, 3]", None)
US = 1_000
Seen = tuple[int, int, int]  # step, start and end in µs


def part(step: int | None, start: int, end: int, **other: Any) -> Part:
    """A kernel that runs beside nothing else, unless told otherwise; times in µs."""
    given: dict[str, Any] = {"group": WORLD, "kind": "all-reduce", "moved_bytes": 8, "exposed_ns": (end - start) * US}
    return Part(step=step, start_ns=start * US, end_ns=end * US, **{**given, **other})


def summary(rank: int, parts: Sequence[Part], *, own_us: int = 300, groups: int | None = None) -> Summary:
    """A rank whose steps take a millisecond."""
    steps = tuple(
        StepTimes(i, 1_000 * US, 600 * US, own_us * US, 100 * US)
        for i in sorted({one.step for one in parts if one.step is not None})
    )
    return Summary(f"rank{rank}.json", rank, 4, "NVIDIA H200", groups, 0, 1, steps, tuple(parts), ())


def ranks_of(*seen: Sequence[Seen], **other: Any) -> dict[int, Summary]:
    """Ranks 0, 1 and so on with the collectives that each saw."""
    found = {}
    for rank, each in enumerate(seen):
        found[rank] = summary(rank, [part(step, start, end, **other) for step, start, end in each])
    return found


def job(ranks: Mapping[int, Summary]) -> Job:
    """A job of four ranks."""
    return Job("job", ranks, meet(ranks), 4)


def test_the_last_rank_and_what_the_others_lose() -> None:
    """Rank 2 comes 500 µs after rank 0 and 400 after rank 3; what it alone costs is up to the last but one."""
    found = job(ranks_of(*([(0, at, 610)] for at in (100, 150, 600, 200))))
    (meeting,) = found.meetings.met
    assert (meeting.last, meeting.late_ns, meeting.apart_ns, meeting.moving_ns) == (2, 400 * US, 500 * US, 10 * US)
    assert meeting.lost_ns == (500 * US, 450 * US, 0, 400 * US)
    late = culprit(standings(found))
    assert late is not None
    assert (late.rank, late.holds_up_ns, late.last, late.met) == (2, 400 * US, 1, 1)
    assert sentence(standings(found), found.meetings) == (
        "Rank 2 holds the others up by 400 µs a step (40.0 % of 1.00 ms): it came last to 1 of 1 collective. Its own "
        "kernels take no longer (300 µs a step, the others' 300 µs): it starts them later."
    )


def test_a_rank_that_works_longer() -> None:
    """The cause is said by its own kernels."""
    ranks = ranks_of(*([(0, at, 610)] for at in (100, 100, 100, 600)))
    ranks[3] = summary(3, ranks[3].parts, own_us=800)
    found = job(ranks)
    assert "Rank 3 holds the others up" in (said := sentence(standings(found), found.meetings))
    assert said.endswith("Its own kernels take longer (800 µs a step, the others' 300 µs).")


def test_who_computes_ahead_loses_nothing() -> None:
    """A collective that waits beside other work is not lost time, and holds nobody up."""
    found = job(ranks_of([(0, 0, 510)], [(0, 500, 510)], exposed_ns=10 * US))
    assert found.meetings.met[0].lost_ns == (0, 0)
    assert culprit(standings(found)) is None
    assert sentence(standings(found), found.meetings) == (
        "No rank holds the others up for long: they wait 0 ns a step (0 %), in their median."
    )


def test_a_delay_is_whose_it_was() -> None:
    """Rank 1 is 500 µs late to its pair; rank 0, delayed by it, is late to rank 2: both lose it to rank 1, once."""
    pairs = Group("1", "[0, 1]", 2), Group("2", "[0, 2]", 2)
    ranks = {
        0: summary(0, [part(0, 100, 610, group=pairs[0]), part(0, 620, 640, group=pairs[1])]),
        1: summary(1, [part(0, 600, 610, group=pairs[0])]),
        2: summary(2, [part(0, 120, 640, group=pairs[1])]),
    }
    first, second, third = standings(job(ranks))
    assert (first.lost_ns, third.lost_ns) == (500 * US, 500 * US)
    assert second.holds_up_ns == 500 * US
    assert first.holds_up_ns == 0
    assert (first.last, second.last) == (1, 1)


def test_two_collectives_that_wait_at_a_time_lose_it_once() -> None:
    """On two streams for the same rank: 500 µs, not a millisecond."""
    groups = Group("1", "[0, 1]", 2), Group("2", "[0, 1]", 2)
    ranks = {
        rank: summary(rank, [part(0, start, 610, group=group) for group in groups])
        for rank, start in enumerate((100, 600))
    }
    waiting, late = standings(job(ranks))
    assert waiting.lost_ns == late.holds_up_ns == 500 * US


def test_ranks_that_take_turns_are_no_one_s_fault() -> None:
    """Another one is late each step: they wait all the same, and the sentence says so."""
    starts = [[100] * 3 for _ in range(3)]
    for step in range(3):
        starts[step][step] = 600
    found = job(ranks_of(*([(s, 2_000 * s + starts[s][r], 2_000 * s + 610) for s in range(3)] for r in range(3))))
    assert sentence(standings(found), found.meetings) == (
        "Ranks wait 500 µs a step for one another (50.0 % of 1.00 ms, in their median), and no one rank is behind it: "
        "another one is late each time."
    )


def test_a_tie_has_no_last() -> None:
    """Within 5 µs nobody came last."""
    (meeting,) = job(ranks_of([(0, 100, 200)], [(0, 104, 200)])).meetings.met
    assert meeting.last is None


def test_clocks_that_disagree_are_aligned_by_the_ends() -> None:
    """Rank 1's clock is 7 s ahead; by its own clock it would come last by as much. Without, a few µs are left alone."""
    off = 7_000_000
    found = meet(ranks_of([(0, 100, 160), (1, 300, 360)], [(0, off + 150, off + 160), (1, off + 350, off + 360)]))
    assert found.ahead_ns == {0: 0, 1: off * US}
    assert [(m.last, m.apart_ns) for m in found.met] == [(1, 50 * US)] * 2
    assert meet(ranks_of([(0, 100, 160)], [(0, 150, 175)])).ahead_ns == {}


def test_clocks_of_two_machines_are_aligned_by_what_is_between_them() -> None:
    """Four collectives inside each machine, one between two and two; ranks 2 and 3's clock is a second ahead."""
    off = 1_000_000
    inside, between = (
        (Group("1", "[0, 1]", 2), Group("2", "[2, 3]", 2)),
        (Group("3", "[0, 2]", 2), Group("4", "[1, 3]", 2)),
    )
    ranks = {}
    for rank in range(4):
        ahead = off * (rank > 1)
        parts = [part(0, ahead + 100 * k, ahead + 100 * k + 20, group=inside[rank > 1]) for k in range(4)]
        came = 900 if rank < 2 else 500
        ranks[rank] = summary(rank, [*parts, part(0, ahead + came, ahead + 920, group=between[rank % 2])])
    found = meet(ranks)
    assert found.ahead_ns == {0: 0, 1: 0, 2: off * US, 3: off * US}
    assert [m.last for m in found.met if m.group in between] == [0, 1]


@pytest.mark.parametrize(
    "other",
    [
        [part(0, 100, 110)],  # one fewer
        [part(0, 100, 110, kind="all-gather"), part(0, 200, 210)],
        [part(0, 100, 110, moved_bytes=16), part(0, 200, 210)],
        [part(0, 100 * k, 100 * k + 10, group=Group("0", "[1, 2]", None)) for k in range(2)],
        [part(5, 100 * k, 100 * k + 10) for k in range(2)],
    ],
)
def test_what_differs_between_two_ranks_is_left_out(other: list[Part]) -> None:
    """A wrong pair would blame the wrong rank."""
    ranks = {**ranks_of([(0, 100, 110), (0, 200, 210)]), 1: summary(1, other)}
    found = meet(ranks)
    assert found.met == ()
    assert found.unmatched == 2 + len(other)
    assert sentence(standings(job(ranks)), found).startswith("Who waits for whom cannot be told")


def test_one_odd_rank_is_left_out_and_named() -> None:
    """The others are told all the same; what moves cannot be, while one is not seen to come."""
    group = Group("0", None, 4)
    found = meet(ranks_of([(0, 1, 9)], [(0, 2, 9)], [(0, 3, 9), (0, 10, 11)], [(0, 4, 9)], group=group))
    assert [m.ranks for m in found.met] == [(0, 1, 3)]
    assert (found.odd_ranks, found.unmatched, found.met[0].moving_ns) == ((2,), 2, None)


def test_groups_that_cannot_be_told_apart_are_not_matched() -> None:
    """Two groups of two under one name, whose ranks the files do not say; and kernels without a group, of several."""
    seen = [[(0, 100, 200)]] * 4
    assert meet(ranks_of(*seen, group=Group("1", None, 2))).met == ()
    nameless = ranks_of(*seen, group=Group(None, None, None))
    assert meet(nameless).met == ()
    assert len(meet({rank: replace(one, groups=1) for rank, one in nameless.items()}).met) == 1


def test_sends_meet_receives_in_pairs_alone() -> None:
    """In a group of two it is known who sends to whom."""
    pairs = Group("1", "[0, 1]", 2), Group("1", "[2, 3]", 2)
    kinds_of = ["send", "recv"] * 2
    ranks = {r: summary(r, [part(0, 100 + r, 200, kind=kinds_of[r], group=pairs[r // 2])]) for r in range(4)}
    assert [(m.kind, m.ranks) for m in meet(ranks).met] == [("send and recv", (0, 1)), ("send and recv", (2, 3))]
    line = {r: summary(r, [part(0, 100, 200, kind=kinds_of[r])]) for r in range(4)}
    assert meet(line).met == ()


def test_a_root_that_has_left_waited_for_nobody() -> None:
    """A broadcast's root is done before the other comes."""
    (meeting,) = meet(ranks_of([(0, 0, 200)], [(0, 5_000, 5_010)], kind="broadcast")).met
    assert meeting.lost_ns == (0, 0)


def test_kinds_are_counted() -> None:
    """Calls, calls a step, who came last and how often, what was lost."""
    (kind,) = kinds(job(ranks_of(*([(s, 1_000 * s + 100 * r, 1_000 * s + 110) for s in range(3)] for r in range(2)))))
    assert (kind.count, kind.a_step, kind.latest, kind.latest_count, kind.lost_ns) == (3, 1.0, 1, 3, 100 * US)


def test_a_delay_that_all_have_shared_is_nobody_s_excuse() -> None:
    """In one group a step: rank 1 is 500 µs late, then rank 0 400 µs by itself."""
    first, second = standings(job(ranks_of([(0, 100, 610), (0, 1_400, 1_410)], [(0, 600, 610), (0, 1_000, 1_410)])))
    assert (first.holds_up_ns, second.holds_up_ns) == (400 * US, 500 * US)


def test_who_is_late_again_and_again_is_named() -> None:
    """Rank 0 once by 100 µs, then rank 1 eight times."""
    starts = [(200, 100, 100), *((100, 200, 100) for _ in range(8))]
    ranks = ranks_of(*([(0, 1_000 * k + at[r], 1_000 * k + 210) for k, at in enumerate(starts)] for r in range(3)))
    assert [one.holds_up_ns for one in standings(job(ranks))][:2] == [100 * US, 800 * US]
    assert (late := culprit(standings(job(ranks)))) is not None
    assert late.rank == 1


def test_clocks_that_nothing_ties_are_left_alone() -> None:
    """All-reduces tie 0 to 1, sends 1 to 2; 1 and 2 have one clock, 7 s ahead of 0's."""
    off, whole, line = 7_000_000, Group("1", "[0, 1]", 2), Group("2", "[1, 2]", 2)
    ranks = {
        0: summary(0, [part(0, 100, 200, group=whole)]),
        1: summary(
            1, [part(0, off + 150, off + 200, group=whole), part(0, off + 300, off + 400, group=line, kind="send")]
        ),
        2: summary(2, [part(0, off + 350, off + 400, group=line, kind="recv")]),
    }
    found = meet(ranks)
    assert found.ahead_ns == {0: 0, 1: off * US, 2: off * US}
    assert [m.apart_ns for m in found.met] == [50 * US, 50 * US]
    apart = {r: summary(r, [part(0, off * r, off * r + 9, group=Group(str(r), None, 1))]) for r in range(2)}
    assert meet(apart).ahead_ns == {}


def test_a_name_alone_makes_no_group() -> None:
    """Of each of two pairs under one name only one rank is here."""
    found = ranks_of([(0, 100, 200)], [(0, 100, 200)], group=Group("1", None, 2))
    assert meet(found).met == ()


def test_a_rank_that_is_missing_hides_what_moves() -> None:
    """Its coming is not seen: the size of a group is said, or its ranks are, or that there is one group of all."""
    seen = [[(0, 1, 9)]] * 3
    for group in (Group("0", "[0, 1, 2, 3]", None), Group("0", None, 4), Group(None, None, None)):
        ranks = {rank: replace(one, groups=1) for rank, one in ranks_of(*seen, group=group).items()}
        assert [m.moving_ns for m in meet(ranks).met] == [None]


def test_notes_say_what_was_done_with_the_ranks() -> None:
    """Who is missing, whose clock was set, who did something else, and that without steps only the order pairs."""
    off = 1_000
    ranks = ranks_of([(0, 1, 9)], [(0, off + 2, off + 9)], [(0, 3, 9), (0, 10, 11)])
    text = to_terminal(fleet_document(Fleet((replace(job(ranks), world_size=8),), ())), width=200)
    assert "note: of 8 ranks 5 have no trace here: 3–7" in text
    assert "note: by their files ranks leave collectives up to 1.00 ms apart: taken for clocks that disagree" in text
    assert "note: 2 kernels of collectives left out: rank 2 did something else" in text
    stepless = {r: summary(r, [part(None, 1, 9)]) for r in range(2)}
    shown = to_terminal(fleet_document(Fleet((job(stepless),), ())), width=200)
    assert (
        "without steps messages, and collectives that the files do not number, are paired by their order"
        in " ".join(shown.split())
    )
