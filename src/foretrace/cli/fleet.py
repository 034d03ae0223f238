"""``foretrace fleet``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foretrace.cli.output import STDOUT, Output
from foretrace.cli.progress import working
from foretrace.errors import InputError
from foretrace.fleet import executor, find, read_fleet
from foretrace.report.fleet import fleet_document, fleet_record

if TYPE_CHECKING:
    from foretrace.fleet import Fleet


def fleet(*paths: str, executor: str = "local", workers: int | None = None, out: Output = STDOUT) -> int:
    """Read the traces of many ranks together: who waits for whom, and for how long.

    Each trace is read by a worker, and only a small summary of it comes back: memory holds as many traces as there are
    workers. Ranks are told by what the files say; those whose windows overlap in time are one run.

    Args:
        paths: Traces, or folders with traces in them.
        executor: `local`, for processes on this machine, or `dask://HOST:PORT`, for a Dask cluster that sees the files.
        workers: Processes on this machine; one a core, unless given. Each holds one trace at a time.
        out: How and where to show it.
    """
    if workers is not None and workers < 1:
        raise InputError(f"{workers} workers read nothing", hint="give 1 or more")
    out.check()
    found = _read(find(paths), executor, workers)
    out.emit(lambda: fleet_document(found), lambda: fleet_record(found))
    return int(bool(found.failed))


def _read(paths: list[str], where: str, workers: int | None) -> Fleet:
    with working() as tell, executor(where, workers, len(paths)) as pool:
        return read_fleet(paths, pool, tell)
