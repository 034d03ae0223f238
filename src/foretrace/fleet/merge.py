"""Summaries of all ranks held against each other: which kernels are one collective, who came last, who waited.

All ranks of a group run its collectives in one order, so the k-th that a step launches is one collective on every rank.
It moves data once the last rank has come; before that the others wait. What they lose is the wait in which they have no
other work: a rank that computes ahead while its communication waits finds the next collective early, and loses nothing.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from foretrace import stats

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from foretrace.fleet.summary import Group, Part, Summary

CLOCKS_AGREE_NS = 100_000
"""Ranks leave a collective within some 10 µs of each other; medians further apart are clocks that disagree."""
_ENDS_TOGETHER = frozenset({"all-reduce", "all-gather", "all-to-all", "reduce-scatter", "barrier"})
_ONE_SIZE = frozenset({"all-reduce", "broadcast", "reduce"})
_POINT_TO_POINT = frozenset({"send", "recv"})


@dataclass(frozen=True, slots=True)
class Meeting:
    """One collective on all ranks whose traces have it; tuples go by ``ranks``, times are on one clock.

    ``exposed_ns`` is what each kernel ran beside no other work of its rank.
    """

    step: int | None
    group: Group
    kind: str
    moved_bytes: int | None
    ranks: tuple[int, ...]
    start_ns: tuple[int, ...]
    end_ns: tuple[int, ...]
    exposed_ns: tuple[int, ...]

    @property
    def last(self) -> int:
        """The rank that came last."""
        return self.ranks[self.start_ns.index(max(self.start_ns))]

    @property
    def apart_ns(self) -> int:
        """From the first rank's coming to the last one's."""
        return max(self.start_ns) - min(self.start_ns)

    @property
    def moving_ns(self) -> int:
        """From the last rank's coming to the first end."""
        return max(0, min(self.end_ns) - max(self.start_ns))

    def lost_ns(self, rank: int) -> int:
        """How long at least ``rank`` had nothing to do but wait for the last one."""
        at = self.ranks.index(rank)
        waited = min(max(self.start_ns), self.end_ns[at]) - self.start_ns[at]
        moved = max(0, self.end_ns[at] - max(self.start_ns))
        return max(0, min(waited, self.exposed_ns[at] - moved))

    def held_up_ns(self, rank: int) -> int:
        """How much of that the last rank would have spared ``rank`` by coming with the last but one."""
        second, last = sorted(self.start_ns)[-2:]
        return min(self.lost_ns(rank), last - second)


@dataclass(frozen=True, slots=True)
class Meetings:
    """What could be matched.

    Attributes:
        met: In order of time.
        unmatched: Collectives of a single rank, or whose group differs in number or kind between ranks.
        ahead_ns: Rank → how far its clock runs ahead of the others'; empty where the clocks agree.
    """

    met: tuple[Meeting, ...]
    unmatched: int
    ahead_ns: Mapping[int, int]


def meet(summaries: Mapping[int, Summary]) -> Meetings:
    """Match the collectives of ranks, and put them on one clock."""
    by_group: defaultdict[tuple[int | None, Group], dict[int, list[Part]]] = defaultdict(dict)
    for rank, summary in sorted(summaries.items()):
        for part in summary.parts:
            by_group[part.step, part.group].setdefault(rank, []).append(part)
    members: defaultdict[Group, set[int]] = defaultdict(set)
    for (_, group), parts in by_group.items():
        members[group].update(parts)
    met, unmatched = [], 0
    for (_, group), parts in by_group.items():
        if _alike(parts, members[group]):
            met += [_meeting(dict(zip(parts, same, strict=True))) for same in zip(*parts.values(), strict=True)]
        else:
            unmatched += sum(map(len, parts.values()))
    ahead = _ahead(met)
    if max(map(abs, ahead.values()), default=0) <= CLOCKS_AGREE_NS:
        ahead = {}
    together = sorted((_on_one_clock(meeting, ahead) for meeting in met), key=lambda meeting: max(meeting.start_ns))
    return Meetings(tuple(together), unmatched, ahead)


def _alike(parts: Mapping[int, Sequence[Part]], members: set[int]) -> bool:
    """Whether every rank of a group did the same in a step, one collective after the other."""
    several = parts.keys() == members and len(members) > 1
    if not several or len({len(sequence) for sequence in parts.values()}) > 1:
        return False
    return all(len({_what(part) for part in same}) == 1 for same in zip(*parts.values(), strict=True))


def _what(part: Part) -> tuple[str, int | None]:
    kind = "send and recv" if part.kind in _POINT_TO_POINT else part.kind
    return kind, part.moved_bytes if kind in _ONE_SIZE else None


def _meeting(parts: Mapping[int, Part]) -> Meeting:
    one = next(iter(parts.values()))
    sizes = [part.moved_bytes for part in parts.values() if part.moved_bytes is not None]
    start, end, exposed = zip(*((part.start_ns, part.end_ns, part.exposed_ns) for part in parts.values()), strict=True)
    return Meeting(one.step, one.group, _what(one)[0], max(sizes, default=None), tuple(parts), start, end, exposed)


def _ahead(met: Iterable[Meeting]) -> dict[int, int]:
    """By how much each rank leaves collectives later than the middle of those that it leaves them with."""
    later: defaultdict[int, list[float]] = defaultdict(list)
    for meeting in met:
        middle = stats.median(meeting.end_ns)
        if meeting.kind in _ENDS_TOGETHER and middle is not None:
            for rank, end in zip(meeting.ranks, meeting.end_ns, strict=True):
                later[rank].append(end - middle)
    return {rank: round(stats.median(values) or 0) for rank, values in later.items()}


def _on_one_clock(meeting: Meeting, ahead: Mapping[int, int]) -> Meeting:
    if not ahead:
        return meeting
    off = [ahead.get(rank, 0) for rank in meeting.ranks]
    start = tuple(t - by for t, by in zip(meeting.start_ns, off, strict=True))
    end = tuple(t - by for t, by in zip(meeting.end_ns, off, strict=True))
    return replace(meeting, start_ns=start, end_ns=end)
