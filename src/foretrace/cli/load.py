"""A run from its file, as fast as this machine can."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foretrace.cli.progress import reading
from foretrace.processes import Processes, cores
from foretrace.run import build
from foretrace.trace import read_trace

if TYPE_CHECKING:
    from foretrace.devices import Device
    from foretrace.run import Run

_MOST_PROCESSES = 8
"""Putting their columns together keeps one more busy."""


def load(path: str, device: Device | None = None) -> Run:
    """Read a trace and understand it: a large one with several processes, and with a bar at a terminal.

    Args:
        path: Where it is.
        device: Ceilings to use instead of those found by the device's name.

    Raises:
        ForetraceError: As `foretrace.trace.read_trace`.
    """
    count = min(cores(), _MOST_PROCESSES)
    with reading() as progress, Processes(count) as executor:
        trace = read_trace(path, progress=progress, executor=executor if count > 1 else None)
    return build(trace, device)
