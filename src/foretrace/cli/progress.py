"""A progress bar on stderr for files that take a while; nothing where stderr is no terminal."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_LARGE_BYTES = 20_000_000


@contextmanager
def reading() -> Iterator[Callable[[int, int], None] | None]:
    """A callback (bytes done, bytes in all) that draws a bar once the file turns out to be large."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console  # noqa: PLC0415 - 60 ms that only people at a terminal wait for
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn  # noqa: PLC0415 - as above

    bar = Progress(TextColumn("reading"), BarColumn(), DownloadColumn(), console=Console(stderr=True), transient=True)
    task = bar.add_task("reading", total=None)

    def advance(done: int, total: int) -> None:
        if total > _LARGE_BYTES:
            bar.start()
            bar.update(task, completed=done, total=total)

    try:
        yield advance
    finally:
        bar.stop()
