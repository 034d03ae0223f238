"""How late each rank came to each collective, in order: the pattern that a straggler leaves."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from foretrace.fleet.merge import TIED_NS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from foretrace.fleet.merge import Meeting


@dataclass(frozen=True, slots=True)
class Lateness:
    """Nanoseconds after the first rank that came, ``None`` where a rank had no part.

    Attributes:
        each: How many collectives in a row one entry stands for: where a rank was the latest.
        most_ns: The largest entry.
        by_rank: Rank → step after step, entry after entry.
    """

    each: int
    most_ns: int
    by_rank: Mapping[int, tuple[tuple[int | None, ...], ...]]


def lateness(met: Sequence[Meeting], most: int) -> Lateness | None:
    """At most ``most`` entries a rank, or one a step; ``None`` where all came together.

    Args:
        met: In order of time.
        most: Entries, and gaps between steps.
    """
    steps: defaultdict[int | None, list[dict[int, int]]] = defaultdict(list)
    for one in met:
        first = min(one.start_ns)
        steps[one.step].append({rank: start - first for rank, start in zip(one.ranks, one.start_ns, strict=True)})
    each = 1
    while each < max(map(len, steps.values()), default=0) and _entries(steps.values(), each) > most:
        each += 1
    entries = [[late[i : i + each] for i in range(0, len(late), each)] for late in steps.values()]
    ranks = sorted({rank for one in met for rank in one.ranks})
    most_ns = max((max(late.values()) for step in steps.values() for late in step), default=0)
    if most_ns <= TIED_NS:
        return None
    return Lateness(
        each, most_ns, {rank: tuple(tuple(_latest(rank, e) for e in step) for step in entries) for rank in ranks}
    )


def _entries(steps: Iterable[Sequence[object]], each: int) -> int:
    return sum(1 - -len(step) // each for step in steps)


def _latest(rank: int, entry: Sequence[Mapping[int, int]]) -> int | None:
    return max((late[rank] for late in entry if rank in late), default=None)
