"""A trace from its file, as fast as this machine can."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foretrace.cli.progress import reading
from foretrace.processes import Processes, cores
from foretrace.trace import read_trace

if TYPE_CHECKING:
    from foretrace.trace import Trace

_MOST_PROCESSES = 8
"""Putting their columns together keeps one more busy."""


def load(path: str) -> Trace:
    """Read a trace: a large one with several processes, and with a bar at a terminal.

    Raises:
        ForetraceError: As `foretrace.trace.read_trace`.
    """
    count = min(cores(), _MOST_PROCESSES)
    with reading() as progress, Processes(count) as executor:
        return read_trace(path, progress=progress, executor=executor if count > 1 else None)
