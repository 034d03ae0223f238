"""Find many traces and read them through an executor."""

from __future__ import annotations

import itertools
import os
from concurrent.futures import BrokenExecutor, CancelledError, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from foretrace.errors import ForetraceError, InputError
from foretrace.fleet.jobs import Job, jobs_of
from foretrace.fleet.summary import Summary, summarize
from foretrace.trace import traces_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from concurrent.futures import Executor, Future


@dataclass(frozen=True, slots=True)
class Failed:
    """A trace that could not be read, and why."""

    path: str
    why: str
    hint: str | None = None


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
        traces = [str(member.path) for member in traces_in(Path(folder))]
    except OSError as error:
        raise InputError(f"cannot read `{error.filename or folder}`: {error.strerror}") from error
    if not traces:
        raise InputError(f"no trace in `{folder}`", hint="traces are named *.json, *.json.gz, *.json.zip")
    return traces


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
    jobs = jobs_of([summaries[path] for path in paths if path in summaries])
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
