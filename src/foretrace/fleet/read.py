"""Read many traces through an executor, and put together what belongs together."""

from __future__ import annotations

import gzip
import itertools
import os
import re
import zlib
from collections import defaultdict
from concurrent.futures import BrokenExecutor, CancelledError, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from foretrace.errors import ForetraceError, InputError
from foretrace.fleet.merge import Meetings, meet
from foretrace.fleet.summary import Summary, summarize
from foretrace.trace.folder import traces_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from concurrent.futures import Executor, Future

_HEAD_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Failed:
    """A trace that could not be read, and why."""

    path: str
    why: str
    hint: str | None = None


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


@dataclass(frozen=True, slots=True)
class Fleet:
    """Every run that was found, and what could not be read."""

    jobs: tuple[Job, ...]
    failed: tuple[Failed, ...]


def find(paths: Iterable[str]) -> list[str]:
    """The traces at ``paths``: files and addresses as they are, folders with all that is in them, each once.

    Raises:
        InputError: Nothing is there, or a folder cannot be read.
    """
    given = list(paths)
    if not given:
        raise InputError("no trace was given", hint="`foretrace fleet traces/` reads all that are in a folder")
    if not any(map(_is_there, given)):
        raise InputError(f"no file `{given[0]}`", hint="check the path; a pattern that matches nothing stays as it is")
    found: dict[str, str] = {}
    for path in given:
        for one in _inside(path) if "://" not in path and _is_there(path) and Path(path).is_dir() else [path]:
            found.setdefault(one if "://" in one else os.path.realpath(one), one)
    return list(found.values())


def _is_there(path: str) -> bool:
    try:
        return "://" in path or Path(path).exists()
    except OSError:  # a name that is too long, say: reading it says why
        return False


def _inside(folder: str) -> list[str]:
    try:
        traces = {str(member.path) for member in traces_in(Path(folder))}
        # by their first bytes they are no traces, but must not be passed over in silence
        broken = {str(path) for path in Path(folder).rglob("*.json.gz") if path.is_file() and not _unpacks(path)}
    except OSError as error:
        raise InputError(f"cannot read `{error.filename or folder}`: {error.strerror}") from error
    if not traces | broken:
        raise InputError(f"no trace in `{folder}`", hint="traces are named *.json, *.json.gz, *.json.zip")
    return sorted(traces | broken)


def _unpacks(path: Path) -> bool:
    try:
        with gzip.open(path) as file:
            file.read(_HEAD_BYTES)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        return False
    return True


def read_fleet(paths: Sequence[str], executor: Executor, tell: Callable[[str, int, int], None]) -> Fleet:
    """Read the traces at ``paths`` and hold the ranks of each run against each other.

    Args:
        paths: As `find` gives them.
        executor: Reads them; a trace that it fails at is in `Fleet.failed`.
        tell: Told what is done, how many traces are, and how many there are.
    """
    tell("reading", 0, len(paths))
    pending, done = {}, itertools.count(1)
    for path in paths:
        future = executor.submit(summarize, path)
        future.add_done_callback(lambda _: tell("reading", next(done), len(paths)))
        pending[future] = path
    summaries, failed = {}, {}
    for future in as_completed(pending):
        path = pending[future]
        result = _result(path, future)
        if isinstance(result, Failed):
            failed[path] = result
        else:
            summaries[path] = result
    jobs = _jobs([summaries[path] for path in paths if path in summaries])
    return Fleet(tuple(jobs), tuple(failed[path] for path in paths if path in failed))


def _result(path: str, future: Future[Summary]) -> Summary | Failed:
    try:
        return future.result()
    except ForetraceError as error:
        return Failed(path, error.message, error.hint)
    except (BrokenExecutor, MemoryError):
        why = "its worker died, or one that shared its pool did: perhaps for want of memory"
        return Failed(path, why, "let fewer workers read at a time: `--workers 1` holds one trace")
    except CancelledError:
        return Failed(path, "the cluster dropped it", "see whether its scheduler and workers still run")
    except Exception as error:  # noqa: BLE001 - a worker may die of anything, and the others' traces count
        return Failed(path, f"{type(error).__name__}: {error}".strip(": "))


def _jobs(summaries: Sequence[Summary]) -> list[Job]:
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
