"""``read_trace``: a file to a `Trace`, strict first, repaired only on failure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foretrace.trace import identify
from foretrace.trace.builder import ColumnsBuilder
from foretrace.trace.decode import decode
from foretrace.trace.repair import salvage, salvage_head
from foretrace.trace.source import load

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor
    from pathlib import Path

    from foretrace.trace.columns import Trace


def read_trace(
    path: str | Path, *, progress: Callable[[int, int], None] | None = None, executor: Executor | None = None
) -> Trace:
    """Read a Kineto trace (JSON, gzip or zip; a path, a directory with one trace, or a URL) into columns.

    Args:
        path: Where the trace is.
        progress: Called with (bytes done, bytes in all) while a large file is decoded.
        executor: Decodes the pieces of a file of 64 MB or more, where several processes do it sooner.

    Raises:
        InputError: Nothing is there, or it cannot be opened.
        TraceError: It is no profiler trace; the message says what it is.
    """
    source = load(path)
    identify.refuse_known_formats(source)
    builder = ColumnsBuilder()
    decoded = decode(source.data, builder, progress, executor)
    if not decoded.has_events:
        raise identify.no_events(source)
    metadata, notes = decoded.metadata, list(source.notes)
    if decoded.broken_head is not None:
        head, repairs = salvage_head(source.data[: decoded.broken_head])
        metadata = head | metadata
        notes += repairs
    if decoded.stopped_at is not None:
        more, repairs = salvage(source.data, decoded.stopped_at, builder, path=source.path, progress=progress)
        metadata |= more
        notes += repairs
    if not builder.events and source.data.lstrip()[:1] == b"[" and decoded.stopped_at is not None:
        raise identify.no_events(source)
    return builder.build(source.path, metadata, notes)
