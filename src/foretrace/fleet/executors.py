"""Where a fleet's traces are read: here, in processes of this machine, or on a Dask cluster that runs already."""

from __future__ import annotations

import importlib
import logging
import multiprocessing
import re
import socket
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from foretrace.errors import InputError, MissingDependencyError
from foretrace.processes import Processes, cores

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_T = TypeVar("_T")
_DASK = "dask://"
_ADDRESS = re.compile(r"(?P<host>[^\s:/]+):(?P<port>\d{1,5})")
_SECONDS = 10
_MOST_PROCESSES = 61
"""As many as a pool may have on Windows."""


@contextmanager
def executor(where: str, workers: int | None, tasks: int) -> Iterator[Executor]:
    """An executor for ``tasks`` traces: ``local`` or ``dask://HOST:PORT``.

    Args:
        where: Which.
        workers: Processes of this machine, each of which holds one trace at a time; one a core unless given.
        tasks: How many traces there are: no more processes are started.

    Raises:
        InputError: No such executor, or nobody works there.
        MissingDependencyError: Dask is not installed.
    """
    if where == "local":
        count = min(workers or cores(), tasks, _MOST_PROCESSES)
        if count <= 1:
            yield _Here()
            return
        with Processes(count) as pool:
            try:
                yield pool
            except KeyboardInterrupt:
                for process in multiprocessing.active_children():  # each may have a whole trace to read yet
                    process.terminate()
                raise
    elif where.startswith(_DASK):
        if workers is not None:
            raise InputError("a cluster has the workers that it has", hint="leave `--workers` out")
        with _dask(where.removeprefix(_DASK)) as cluster:
            yield cluster
    else:
        raise InputError(f"no executor `{where}`", hint="executors are `local` and `dask://HOST:PORT`")


class _Here(Executor):
    """Runs each call at once: one worker needs no process, and Ctrl-C ends it."""

    def submit(self, fn: Callable[..., _T], /, *args: Any, **kwargs: Any) -> Future[_T]:  # noqa: ANN401 - concurrent.futures' own
        future: Future[_T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - the future's to raise
            future.set_exception(error)
        return future


@contextmanager
def _dask(address: str) -> Iterator[Executor]:
    found = _ADDRESS.fullmatch(address)
    if found is None:
        raise InputError(
            f"`{_DASK}{address}` is no address", hint="write `dask://HOST:PORT`, as `dask scheduler` prints"
        )
    try:
        from distributed import Client  # noqa: PLC0415 - 1 s, and only who has a cluster needs it
    except ImportError as error:
        raise MissingDependencyError(
            "reading on a Dask cluster needs `distributed`", hint="pip install 'foretrace[dask]'"
        ) from error
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what goes wrong is said below
    try:
        socket.create_connection((found["host"], int(found["port"])), _SECONDS).close()
        client = Client(f"tcp://{address}", timeout=_SECONDS, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, OverflowError, ValueError) as error:
        hint = "`dask scheduler` prints the address of a new one; its workers need foretrace and the same files"
        raise InputError(f"no Dask scheduler answers at `{address}`", hint=hint) from error
    with client:
        _see_workers(client, address)
        yield client.get_executor(pure=False)  # type: ignore[no-untyped-call]


def _see_workers(client: Any, address: str) -> None:  # noqa: ANN401 - untyped
    """Ask before the work: a task that no worker can take would be waited for without end."""
    try:
        client.wait_for_workers(1, timeout=_SECONDS)
        # by name: a worker that lacks foretrace could not even unpack a function of it
        client.submit(importlib.import_module, "foretrace.fleet.summary", pure=False).result(timeout=_SECONDS)
    except TimeoutError as error:
        hint = f"`dask worker tcp://{address}` starts one, where the files are"
        raise InputError(f"the Dask scheduler at `{address}` has no worker that answers", hint=hint) from error
    except ImportError as error:
        hint = "install it where `dask worker` runs"
        raise InputError(f"the workers at `{address}` have no foretrace of this version", hint=hint) from error
