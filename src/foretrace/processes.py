"""Processes of this machine, for work that keeps more than one core busy."""

from __future__ import annotations

import os
import signal
from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ProcessPoolExecutor
    from types import TracebackType

_T = TypeVar("_T")


def cores() -> int:
    """Cores that this process may use."""
    allowed = getattr(os, "sched_getaffinity", None)  # Linux
    return len(allowed(0)) if allowed else os.cpu_count() or 1


class Processes(Executor):
    """Up to ``count`` processes, which start with the first work and end with the ``with`` block."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._pool: ProcessPoolExecutor | None = None

    def submit(self, fn: Callable[..., _T], /, *args: Any, **kwargs: Any) -> Future[_T]:  # noqa: ANN401 - concurrent.futures' own
        """See `concurrent.futures.Executor`; ``fn`` is imported by name in the process."""
        if self._pool is None:
            import multiprocessing  # noqa: PLC0415 - 10 ms that only large files wait for
            from concurrent.futures import ProcessPoolExecutor  # noqa: PLC0415 - as above

            # a forked process has its parent's locks without the threads that release them; Ctrl-C is the parent's
            self._pool = ProcessPoolExecutor(
                self._count,
                mp_context=multiprocessing.get_context("spawn"),
                initializer=signal.signal,
                initargs=(signal.SIGINT, signal.SIG_IGN),
            )
        return self._pool.submit(fn, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002 - as above
        """See `concurrent.futures.Executor`."""
        if self._pool is not None:
            self._pool.shutdown(wait=wait, cancel_futures=cancel_futures)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # what is under way ends by itself: who reads a result of which the half was sent would wait for the rest
        self.shutdown(wait=False, cancel_futures=True)
