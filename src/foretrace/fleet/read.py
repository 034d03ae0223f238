"""Read many traces through an executor, and put together what belongs together."""

from __future__ import annotations

import re
from collections import defaultdict
from concurrent.futures import as_completed
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
        ranks: By their number; a trace that names none has its place in the order of the files.
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
        InputError: Nothing is there.
    """
    found: dict[str, None] = {}
    for path in paths:
        if "://" not in path and Path(path).is_dir():
            inside = [str(member.path) for member in traces_in(Path(path))]
            if not inside:
                raise InputError(f"no trace in `{path}`", hint="traces are named *.json, *.json.gz, *.json.zip")
            found.update(dict.fromkeys(inside))
        else:
            found[path] = None
    if not found:
        raise InputError("no trace was given", hint="`foretrace fleet traces/` reads all that are in a folder")
    return list(found)


def read_fleet(paths: Sequence[str], executor: Executor, tell: Callable[[str, int, int], None]) -> Fleet:
    """Read the traces at ``paths`` and hold the ranks of each run against each other.

    Args:
        paths: As `find` gives them.
        executor: Reads them; a trace that it fails at is in `Fleet.failed`.
        tell: Told what is done, how many traces are, and how many there are.
    """
    tell("reading", 0, len(paths))
    pending = {executor.submit(summarize, path): path for path in paths}
    summaries, failed = {}, {}
    for done, future in enumerate(as_completed(pending), 1):
        path = pending[future]
        result = _result(path, future)
        if isinstance(result, Failed):
            failed[path] = result
        else:
            summaries[path] = result
        tell("reading", done, len(paths))
    jobs = _jobs([summaries[path] for path in paths if path in summaries])
    return Fleet(tuple(jobs), tuple(failed[path] for path in paths if path in failed))


def _result(path: str, future: Future[Summary]) -> Summary | Failed:
    try:
        return future.result()
    except ForetraceError as error:
        return Failed(path, error.message, error.hint)
    except Exception as error:  # noqa: BLE001 - a worker may die of anything, and the others' traces count
        return Failed(path, f"{type(error).__name__}: {error}".strip(": "))


def _jobs(summaries: Sequence[Summary]) -> Iterable[Job]:
    """One job where no rank comes twice; else one for all files of a folder whose names differ in numbers only."""
    if len(summaries) and _distinct(summaries):
        return [_job(summaries)]
    alike: defaultdict[str, list[Summary]] = defaultdict(list)
    for summary in summaries:
        alike[re.sub(r"\d+", "#", summary.path)].append(summary)
    groups = alike.values()
    return [_job(part) for group in groups for part in ([group] if _distinct(group) else [[one] for one in group])]


def _distinct(summaries: Sequence[Summary]) -> bool:
    ranks = [summary.rank for summary in summaries if summary.rank is not None]
    return len(ranks) == len(summaries) == len(set(ranks)) or len(summaries) == 1


def _job(summaries: Sequence[Summary]) -> Job:
    ranks = {i if one.rank is None else one.rank: one for i, one in enumerate(summaries)}
    sizes = [one.world_size for one in summaries if one.world_size is not None]
    ranks = dict(sorted(ranks.items()))
    return Job(_name([one.path for one in summaries]), ranks, meet(ranks), max(sizes, default=None))


def _name(paths: Sequence[str]) -> str:
    """What the file names of a job have in common, numbers left out: ``ddp_rank#.json.gz``; one file's own name."""
    if len(paths) == 1:
        return Path(paths[0]).name
    names = {re.sub(r"\d+", "#", Path(path).name) for path in paths}
    return names.pop() if len(names) == 1 else Path(paths[0]).parent.name or "."
