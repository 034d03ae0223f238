"""Progress on stderr for what takes a while."""

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


@contextmanager
def working() -> Iterator[Callable[[str, int, int], None]]:
    """A callback (what is being done, how much is done, how much there is) that says so on stderr.

    At a terminal one line is redrawn; elsewhere each new thing that is being done is one line.
    """
    if not sys.stderr.isatty():
        told: set[str] = set()

        def tell(what: str, _done: int, _total: int) -> None:
            if what not in told:
                told.add(what)
                sys.stderr.write(f"{what} …\n")

        yield tell
        return
    from rich.console import Console  # noqa: PLC0415 - only people at a terminal wait for it
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn  # noqa: PLC0415

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=20), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=None)
        yield lambda what, done, total: bar.update(task, description=what, completed=done, total=total or None)
