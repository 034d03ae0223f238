"""Which traces are the ranks of one run."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from foretrace.fleet.merge import Meetings, meet

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from foretrace.fleet.summary import Summary


@dataclass(frozen=True, slots=True)
class Job:
    """The ranks of one run.

    Attributes:
        name: What their paths have in common.
        ranks: By their number; one trace that names none is 0.
        meetings: Their collectives, held against each other.
        world_size: As the files say.
    """

    name: str
    ranks: Mapping[int, Summary]
    meetings: Meetings
    world_size: int | None

    @property
    def missing(self) -> tuple[int, ...]:
        """Ranks of which there is no trace."""
        return tuple(sorted(set(range(self.world_size or 0)) - self.ranks.keys()))


def jobs_of(summaries: Sequence[Summary]) -> list[Job]:
    """Ranks that were recorded at one time are one run; where one comes twice, names tell runs apart.

    Clocks of two machines can be so far apart that their files seem to be of different times: files whose names differ
    in numbers only are put together all the same.
    """
    parts = [part for cluster in _at_one_time(summaries) for part in _distinct(cluster)]
    alike: defaultdict[frozenset[tuple[str, str]], list[list[Summary]]] = defaultdict(list)
    for part in parts:
        alike[frozenset(map(_alike, part))].append(part)
    jobs = []
    for same in alike.values():
        together = [one for part in same for one in part]
        jobs += [together] if _are_distinct(together) else same
    order = {summary.path: i for i, summary in enumerate(summaries)}
    return [_job(part) for part in sorted(jobs, key=lambda part: min(order[one.path] for one in part))]


def _at_one_time(summaries: Sequence[Summary]) -> Iterable[list[Summary]]:
    """Ranks of one world size whose traces overlap in time, one with the next; those without a rank by themselves."""
    worlds: defaultdict[int | None, list[Summary]] = defaultdict(list)
    for one in summaries:
        if one.rank is None:
            yield [one]
        else:
            worlds[one.world_size].append(one)
    for world in worlds.values():
        cluster: list[Summary] = []
        until = 0
        for one in sorted(world, key=lambda one: one.start_ns):
            if cluster and one.start_ns > until:
                yield cluster
                cluster = []
            until = max(until, one.end_ns) if cluster else one.end_ns
            cluster.append(one)
        yield cluster


def _distinct(summaries: Sequence[Summary]) -> list[list[Summary]]:
    """As one where no rank comes twice; else by their names; else each by itself."""
    if _are_distinct(summaries):
        return [list(summaries)]
    alike: defaultdict[tuple[str, str], list[Summary]] = defaultdict(list)
    for one in summaries:
        alike[_alike(one)].append(one)
    return [p for group in alike.values() for p in ([group] if _are_distinct(group) else [[one] for one in group])]


def _are_distinct(summaries: Sequence[Summary]) -> bool:
    ranks = {one.rank for one in summaries}
    return len(summaries) == 1 or (len(ranks) == len(summaries) and None not in ranks)


def _alike(summary: Summary) -> tuple[str, str]:
    """The folder, and the name without its numbers."""
    folder, _, name = summary.path.replace("\\", "/").rpartition("/")
    return folder, re.sub(r"\d+", "#", name)


def _job(summaries: Sequence[Summary]) -> Job:
    ranks = dict(sorted((0 if one.rank is None else one.rank, one) for one in summaries))
    sizes = [one.world_size for one in summaries if one.world_size is not None]
    return Job(_name(summaries), ranks, meet(ranks), max(sizes, default=None))


def _name(summaries: Sequence[Summary]) -> str:
    """What the files of a job have in common, numbers left out: ``run7/rank#.json.gz``; one file's own path."""
    if len(summaries) == 1:
        return summaries[0].path
    folders, names = ({one[i] for one in map(_alike, summaries)} for i in (0, 1))
    name = names.pop() if len(names) == 1 else f"{len(summaries)} files"
    folder = folders.pop() if len(folders) == 1 else ""
    return f"{folder}/{name}" if folder else name
