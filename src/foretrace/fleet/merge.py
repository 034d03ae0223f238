"""Ranks' kernels put together: which are one collective, on one clock, and who came when.

All ranks of a group launch its collectives in one order, so the k-th that a step launches is one collective on every
rank that did the same in that step.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from foretrace import stats

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from foretrace.fleet.summary import Group, Part, Summary

CLOCKS_AGREE_NS = 20_000
"""Ranks leave a collective within some 10 µs of each other; medians further apart are clocks that disagree."""
TIED_NS = 5_000
"""Who comes within this of another is not the last."""
_ENDS_TOGETHER = frozenset({"all-reduce", "all-gather", "all-to-all", "reduce-scatter", "barrier"})
_ONE_SIZE = frozenset({"all-reduce", "broadcast", "reduce"})
_POINT_TO_POINT = frozenset({"send", "recv"})
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
    """

    met: tuple[Meeting, ...]
    unmatched: int
    odd_ranks: tuple[int, ...]
    ahead_ns: Mapping[int, int]


_Matched = dict[int, "Part"]


def meet(summaries: Mapping[int, Summary]) -> Meetings:
    """Match the collectives of ranks, and put them on one clock."""
    by_group: defaultdict[tuple[int | None, Group], dict[int, list[Part]]] = defaultdict(dict)
    for rank, summary in sorted(summaries.items()):
        for part in summary.parts:
            by_group[part.step, part.group].setdefault(rank, []).append(part)
    members: defaultdict[Group, set[int]] = defaultdict(set)
    for (_, group), parts in by_group.items():
        members[group].update(parts)
    one_group = all(summary.groups == 1 for summary in summaries.values())
    matched: list[_Matched] = []
    unmatched, odd = 0, set()
    for (_, group), parts in by_group.items():
        same = _alike(parts) if _is_one(group, members[group], one_group=one_group) else {}
        unmatched += sum(len(sequence) for rank, sequence in parts.items() if rank not in same)
        odd |= parts.keys() - same.keys() if same else set()
        matched += [dict(zip(same, row, strict=True)) for row in zip(*same.values(), strict=True)]
    ahead = _ahead(matched)
    met = sorted((_meeting(parts, ahead) for parts in matched), key=lambda meeting: max(meeting.start_ns))
    return Meetings(tuple(met), unmatched, tuple(sorted(odd)), ahead)


def _is_one(group: Group, members: set[int], *, one_group: bool) -> bool:
    """Whether ``members`` are ranks of one group, as far as the files tell."""
    if len(members) < _PAIR:
        return False
    if group.name is None:
        return one_group
    return group.size is None or len(members) <= group.size


def _alike(parts: Mapping[int, Sequence[Part]]) -> dict[int, Sequence[Part]]:
    """The ranks that did the same in a step, if they are the most; nothing where a pair cannot be told from others."""
    signatures = {rank: tuple(_what(part) for part in sequence) for rank, sequence in parts.items()}
    (common, count), *_ = Counter(signatures.values()).most_common(1)
    if count < _PAIR or count <= len(parts) // 2:
        return {}
    if len(parts) > _PAIR and any(kind == "send and recv" for kind, _ in common):
        return {}  # who sends to whom is not in the files
    return {rank: sequence for rank, sequence in parts.items() if signatures[rank] == common}


def _what(part: Part) -> tuple[str, int | None]:
    kind = "send and recv" if part.kind in _POINT_TO_POINT else part.kind
    return kind, part.moved_bytes if kind in _ONE_SIZE else None


def _ahead(matched: Sequence[_Matched]) -> dict[int, int]:
    """Each rank's clock against the others', from the ends of what all ranks of a group leave together.

    Least squares over the groups: a rank's collectives inside a machine say nothing of other machines' clocks, those
    between machines do. Empty where the clocks agree.
    """
    later: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for parts in matched:
        (first, of_first), *others = parts.items()
        if of_first.kind in _ENDS_TOGETHER:
            for rank, part in others:
                later[first, rank].append(part.end_ns - of_first.end_ns)
    ranks = sorted({rank for pair in later for rank in pair})
    if not ranks:
        return {}
    column = {rank: i for i, rank in enumerate(ranks)}
    equations, offsets = np.zeros((len(later), len(ranks))), np.zeros(len(later))
    for row, ((first, rank), values) in enumerate(later.items()):
        equations[row, column[rank]], equations[row, column[first]] = 1, -1
        offsets[row] = stats.median(values) or 0.0
    solved = np.linalg.lstsq(equations, offsets, rcond=None)[0]
    if solved.max() - solved.min() <= CLOCKS_AGREE_NS:
        return {}
    return {rank: round(float(by)) for rank, by in zip(ranks, solved - solved.min(), strict=True)}


def _meeting(parts: _Matched, ahead: Mapping[int, int]) -> Meeting:
    one = next(iter(parts.values()))
    start = {rank: part.start_ns - ahead.get(rank, 0) for rank, part in parts.items()}
    end = {rank: part.end_ns - ahead.get(rank, 0) for rank, part in parts.items()}
    second, came = sorted(start.values())[-2:]
    last = max(start, key=start.__getitem__)
    sizes = [part.moved_bytes for part in parts.values() if part.moved_bytes is not None]
    whole = one.group.size is None or len(parts) >= one.group.size
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
