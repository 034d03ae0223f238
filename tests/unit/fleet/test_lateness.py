"""How late each rank came, collective by collective."""

from __future__ import annotations

import pytest

from foretrace.fleet.lateness import lateness
from foretrace.fleet.merge import Meeting
from foretrace.fleet.summary import Group

US = 1_000


def meeting(step: int | None, at: int, late: dict[int, int]) -> Meeting:
    """An all-reduce of the ranks in ``late``, which come so many µs after ``at``."""
    start = tuple((at + us) * US for us in late.values())
    end = tuple(max(start) + US for _ in late)
    return Meeting(step, Group("0", None, 2), "all-reduce", 8, tuple(late), start, end, (0,) * len(late), None, 0, 0, 0)


def test_entries_go_by_step_and_time() -> None:
    """Two steps of two collectives; rank 2 takes part in one of them."""
    met = [
        meeting(3, 0, {0: 0, 1: 70}),
        meeting(3, 200, {0: 20, 1: 0, 2: 30}),
        meeting(4, 400, {0: 0, 1: 60}),
        meeting(4, 600, {0: 0, 1: 10}),
    ]
    found = lateness(met, 72)
    assert found is not None
    assert (found.each, found.most_ns) == (1, 70 * US)
    assert found.by_rank == {
        0: ((0, 20 * US), (0, 0)),
        1: ((70 * US, 0), (60 * US, 10 * US)),
        2: ((None, 30 * US), (None, None)),
    }


@pytest.mark.parametrize(
    ("steps", "collectives", "each", "entries"),
    [(3, 4, 1, 4), (3, 40, 2, 20), (3, 1_000, 44, 23), (100, 5, 5, 1), (1, 71, 1, 71), (1, 72, 2, 36)],
)
def test_many_collectives_share_an_entry(steps: int, collectives: int, each: int, entries: int) -> None:
    """Entries and the gaps between steps fit; the latest of an entry's collectives counts, and no step is mixed."""
    met = [
        meeting(step, 10_000 * step + i, {0: 0, 1: 100 if i == collectives - 1 else 50})
        for step in range(steps)
        for i in range(collectives)
    ]
    found = lateness(met, 72)
    assert found is not None
    assert (found.each, found.most_ns) == (each, 100 * US)
    assert {len(step) for step in found.by_rank[1]} == {entries}
    assert {step[-1] for step in found.by_rank[1]} == {100 * US}
    assert steps * (entries + 1) <= 72 or entries == 1


@pytest.mark.parametrize("met", [[], [meeting(0, 0, {0: 0, 1: 4})]])
def test_nothing_to_show(met: list[Meeting]) -> None:
    """No collective, or all came together."""
    assert lateness(met, 72) is None
