"""Where a fleet's traces are read: processes of this machine, or a Dask cluster that somebody runs already."""

from __future__ import annotations

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

from foretrace.errors import InputError, MissingDependencyError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Executor

_DASK = "dask://"
_SECONDS = 10


@contextmanager
def executor(where: str, workers: int | None, tasks: int) -> Iterator[Executor]:
    """An executor for ``tasks`` traces: ``local`` or ``dask://HOST:PORT``.

    Args:
        where: Which.
        workers: Processes of this machine, each of which holds one trace at a time; one a core unless given.
        tasks: How many traces there are: no more processes are started.

    Raises:
        InputError: No such executor, or nobody answers there.
        MissingDependencyError: Dask is not installed.
    """
    if where == "local":
        count = min(workers or os.cpu_count() or 1, tasks)
        # one worker needs no process; a forked one would have the parent's locks without the threads that release them
        pool: Executor = (
            ThreadPoolExecutor(1)
            if count == 1
            else ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn"))
        )
        try:
            yield pool
        finally:
            pool.shutdown(cancel_futures=True)
    elif where.startswith(_DASK):
        if workers is not None:
            raise InputError("a cluster has the workers that it has", hint="leave `--workers` out")
        with _dask(where.removeprefix(_DASK)) as cluster:
            yield cluster
    else:
        raise InputError(f"no executor `{where}`", hint="executors are `local` and `dask://HOST:PORT`")


@contextmanager
def _dask(address: str) -> Iterator[Executor]:
    try:
        from distributed import Client  # noqa: PLC0415 - 1 s, and only who has a cluster needs it
    except ImportError as error:
        raise MissingDependencyError(
            "reading on a Dask cluster needs `distributed`", hint="pip install 'foretrace[dask]'"
        ) from error
    try:
        client = Client(f"tcp://{address}", timeout=_SECONDS, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise InputError(
            f"no Dask scheduler answers at `{address}`",
            hint="`dask scheduler` prints the address of a new one; its workers need foretrace and the same files",
        ) from error
    with client:
        yield client.get_executor(pure=False)  # type: ignore[no-untyped-call]
