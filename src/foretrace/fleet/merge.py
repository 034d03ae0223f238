"""Ranks' kernels put together: which are one collective, on one clock, and who came when.

Where the files count the collectives of a group, those with one number are one. Else all ranks of a group launch its
collectives in one order, so the k-th that a step launches is one collective on every rank that did the same in that
step; likewise the k-th that one rank sends to another is the k-th that this one receives.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from foretrace import stats

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from foretrace.fleet.summary import Group, Part, Summary

_CLOCKS_AGREE_NS = 20_000
"""Ranks leave a collective within some 10 µs of each other; medians further apart are clocks that disagree."""
TIED_NS = 5_000
"""Who comes within this of another is not the last."""
_ENDS_TOGETHER = frozenset({"all-reduce", "all-gather", "all-to-all", "reduce-scatter", "barrier"})
_ONE_SIZE = frozenset({"all-reduce", "broadcast", "reduce"})
# kernels of several at once are `coalesced`, or by NCCL's own name `send-recv`
_POINT_TO_POINT = frozenset({"send", "recv", "send-recv", "coalesced"})
_PAIRED = "send and recv"
_PAIR = 2


@dataclass(frozen=True, slots=True)
class Meeting:
    """One collective on several ranks; tuples go by ``ranks``, nanoseconds on one clock.

    Attributes:
        step, group, kind, moved_bytes: As in `Part`.
        ranks, start_ns, end_ns: Whose kernels, and when they ran.
        lost_ns: How long at least each had nothing to do but wait for the last.
        last: The rank that came last; ``None`` where two did within `TIED_NS`.
        late_ns: From the last but one's coming to the last one's.
        apart_ns: From the first one's coming to the last one's.
        moving_ns: From the last one's coming to the first end; ``None`` where not all of the group are here.
    """

    step: int | None
    group: Group
    kind: str
    moved_bytes: int | None
    ranks: tuple[int, ...]
    start_ns: tuple[int, ...]
    end_ns: tuple[int, ...]
    lost_ns: tuple[int, ...]
    last: int | None
    late_ns: int
    apart_ns: int
    moving_ns: int | None


@dataclass(frozen=True, slots=True)
class Meetings:
    """What could be matched.

    Attributes:
        met: In order of time.
        unmatched: Kernels of collectives without partners.
        odd_ranks: Ranks that in some step did something else than the most of a group.
        ahead_ns: Rank → how far its clock runs ahead; empty where the clocks agree.
        counted: Whether the files' own numbers say of all that they are one, and not the order of launches.
    """

    met: tuple[Meeting, ...]
    unmatched: int
    odd_ranks: tuple[int, ...]
    ahead_ns: Mapping[int, int]
    counted: bool = False


_Matched = dict[int, "Part"]


def meet(summaries: Mapping[int, Summary]) -> Meetings:
    """Match the collectives of ranks, and put them on one clock."""
    by_group: defaultdict[tuple[Hashable, Group], dict[int, list[Part]]] = defaultdict(dict)
    for rank, summary in sorted(summaries.items()):
        for part in summary.parts:
            by_group[_place(rank, part), part.group].setdefault(rank, []).append(part)
    members: defaultdict[Group, set[int]] = defaultdict(set)
    for (_, group), parts in by_group.items():
        members[group].update(parts)
    world = max((one.world_size or 0 for one in summaries.values()), default=0)
    one_group = all(summary.groups == 1 for summary in summaries.values())
    matched: list[_Matched] = []
    unmatched, odd = 0, set()
    for (_, group), parts in by_group.items():
        together = _is_one(group, members[group], world, one_group=one_group)
        same = _alike(parts, group) if together else {}
        unmatched += sum(len(sequence) for rank, sequence in parts.items() if rank not in same)
        odd |= parts.keys() - same.keys() if same else set()
        matched += [dict(zip(same, row, strict=True)) for row in zip(*same.values(), strict=True)]
    ahead = _ahead(matched)
    met = sorted((_meeting(parts, ahead, world) for parts in matched), key=lambda meeting: max(meeting.start_ns))
    counted = all(
        part.sequence is not None and part.kind not in _POINT_TO_POINT for parts in matched for part in parts.values()
    )
    return Meetings(tuple(met), unmatched, tuple(sorted(odd)), ahead, counted)


def _place(rank: int, part: Part) -> Hashable:
    """Where the order of launches tells which are one: between two ranks in a step, at one number, or in a step."""
    if part.kind in _POINT_TO_POINT:
        peers = {"send": (rank, part.peer), "recv": (part.peer, rank)}.get(part.kind)
        return part.step, peers if part.peer is not None else None
    return part.step if part.sequence is None else (part.sequence,)


def _is_one(group: Group, members: set[int], world: int, *, one_group: bool) -> bool:
    """Whether ``members`` are ranks of one group, as far as the files tell: other groups may have its name."""
    if len(members) < _PAIR:
        return False
    return one_group or group.ranks is not None or group.size == world


def _alike(parts: Mapping[int, Sequence[Part]], group: Group) -> dict[int, Sequence[Part]]:
    """The ranks that did the same in a step, if they are the most; nothing where a pair cannot be told from others."""
    to_any = any(one.kind in _POINT_TO_POINT and one.peer is None for each in parts.values() for one in each)
    if to_any and max(len(parts), group.count or 0) > _PAIR:
        return {}
    signatures = {rank: tuple(_what(part) for part in sequence) for rank, sequence in parts.items()}
    (common, count), *_ = Counter(signatures.values()).most_common(1)
    if count < _PAIR or count <= len(parts) // 2:
        return {}
    return {rank: sequence for rank, sequence in parts.items() if signatures[rank] == common}


def _what(part: Part) -> tuple[str, int | None]:
    kind = _PAIRED if part.kind in _POINT_TO_POINT else part.kind
    return kind, part.moved_bytes if kind in _ONE_SIZE else None


def _ahead(matched: Sequence[_Matched]) -> dict[int, int]:
    """Each rank's clock against the others', from the ends of what all ranks of a group leave together.

    Least squares over the groups: a rank's collectives inside a machine say nothing of other machines' clocks, those
    between machines do. Where only sends and receives tie ranks, their clocks agree if the kernels overlap, and else
    their ends are taken for one. Empty where all clocks agree.
    """
    later: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    paired: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for parts in matched:
        (first, of_first), *others = parts.items()
        for rank, part in others:
            apart = part.end_ns - of_first.end_ns
            if part.kind in _ENDS_TOGETHER:
                later[first, rank].append(apart)
            elif part.kind in _POINT_TO_POINT:
                overlap = part.start_ns < of_first.end_ns and of_first.start_ns < part.end_ns
                paired[first, rank].append(0 if overlap else apart)
    tied = _Tied(later)
    later.update({pair: values for pair, values in paired.items() if tied.join(*pair)})
    ahead: dict[int, int] = {}
    for ranks in tied.parts():
        ahead |= _solved(ranks, {pair: values for pair, values in later.items() if pair[0] in ranks})
    return ahead if any(ahead.values()) else {}


class _Tied:
    """Which ranks are tied to which."""

    def __init__(self, pairs: Iterable[tuple[int, int]]) -> None:
        self._of: dict[int, set[int]] = {}
        for pair in pairs:
            self.join(*pair)

    def join(self, one: int, other: int) -> bool:
        """Tie two ranks; whether they were not before."""
        first, second = self._of.setdefault(one, {one}), self._of.setdefault(other, {other})
        if first is second:
            return False
        first |= second
        self._of.update(dict.fromkeys(second, first))
        return True

    def parts(self) -> list[set[int]]:
        """The ranks, those together that are tied."""
        return list({id(part): part for part in self._of.values()}.values())


def _solved(ranks: set[int], later: Mapping[tuple[int, int], Sequence[int]]) -> dict[int, int]:
    """How far each clock of tied ranks is ahead of the slowest; 0 for all where they agree."""
    column = {rank: i for i, rank in enumerate(sorted(ranks))}
    equations, offsets = np.zeros((len(later), len(ranks))), np.zeros(len(later))
    for row, ((first, rank), values) in enumerate(later.items()):
        equations[row, column[rank]], equations[row, column[first]] = 1, -1
        offsets[row] = stats.median(values) or 0.0
    solved = np.linalg.lstsq(equations, offsets, rcond=None)[0]
    if solved.max() - solved.min() <= _CLOCKS_AGREE_NS:
        return dict.fromkeys(column, 0)
    return {rank: round(float(solved[i] - solved.min())) for rank, i in column.items()}


def _meeting(parts: _Matched, ahead: Mapping[int, int], world: int) -> Meeting:
    one = next(iter(parts.values()))
    start = {rank: part.start_ns - ahead.get(rank, 0) for rank, part in parts.items()}
    end = {rank: part.end_ns - ahead.get(rank, 0) for rank, part in parts.items()}
    second, came = sorted(start.values())[-2:]
    last = max(start, key=start.__getitem__)
    sizes = [part.moved_bytes for part in parts.values() if part.moved_bytes is not None]
    whole = len(parts) >= (one.group.count or world)
    return Meeting(
        step=one.step,
        group=one.group,
        kind=_what(one)[0],
        moved_bytes=max(sizes, default=None),
        ranks=tuple(parts),
        start_ns=tuple(start.values()),
        end_ns=tuple(end.values()),
        lost_ns=tuple(_lost(start[r], end[r], part.exposed_ns, came) for r, part in parts.items()),
        last=last if came - second > TIED_NS else None,
        late_ns=came - second,
        apart_ns=came - min(start.values()),
        moving_ns=max(0, min(end.values()) - came) if whole else None,
    )


def _lost(start: int, end: int, exposed: int, came: int) -> int:
    """The part of the wait that no other work filled, at least; who left before the last one came waited for nobody."""
    return max(0, min(came - start, exposed - (end - came))) if end > came else 0
