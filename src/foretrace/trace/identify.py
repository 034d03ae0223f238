"""What a file is when it is no profiler trace: people point at the wrong one of the files that PyTorch writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from foretrace.errors import TraceError
from foretrace.trace.schema import MALFORMED
from foretrace.trace.source import EXPORT_HINT

if TYPE_CHECKING:
    from foretrace.trace.source import Source

_PICKLE = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
_SNAPSHOT_KEYS = (b"segments", b"device_traces")
_SNAPSHOT_HINT = "open it at pytorch.org/memory_viz"
_MAGICS = (
    (_PICKLE, "a Python pickle"),
    ((b"SQLite format 3\x00",), "an SQLite database (an Nsight Systems export?)"),
    ((b"\x89PNG", b"\xff\xd8\xff"), "a picture"),
    ((b"%PDF",), "a PDF"),
    ((b"\x28\xb5\x2f\xfd",), "a Zstandard archive"),
    ((b"\x7fELF",), "a program"),
    ((b"<!DOCTYPE", b"<!doctype", b"<html"), "a web page"),
)
_OBJECTS = (
    (
        {"schema", "nodes"},
        "a PyTorch execution trace (ExecutionTraceObserver)",
        "record one with `torch.profiler` instead",
    ),
    ({"segments", "device_traces"}, "a CUDA memory snapshot", _SNAPSHOT_HINT),
    ({"cells", "nbformat"}, "a Jupyter notebook", EXPORT_HINT),
    ({"nodes", "shared"}, "a speedscope profile", EXPORT_HINT),
)


def refuse_known_formats(source: Source) -> None:
    """Raise `TraceError` naming the format, when the first bytes are those of something else."""
    head = source.data[:64].lstrip()
    if head.startswith(_PICKLE) and all(key in source.data for key in _SNAPSHOT_KEYS):
        raise TraceError(f"`{source.path}` is a CUDA memory snapshot, not a profiler trace", hint=_SNAPSHOT_HINT)
    for magics, what in _MAGICS:
        if head.startswith(magics):
            raise TraceError(f"`{source.path}` is {what}, not a profiler trace", hint=EXPORT_HINT)


def no_events(source: Source) -> TraceError:
    """The error for a text without an array of events: it says what the text is."""
    named = f"`{source.path}`"
    try:
        root = msgspec.json.decode(source.data)
    except MALFORMED:
        return TraceError(f"{named} is no profiler trace: no JSON with `traceEvents`", hint=EXPORT_HINT)
    if isinstance(root, dict):
        for keys, what, hint in _OBJECTS:
            if keys <= root.keys():
                return TraceError(f"{named} is {what}, not a profiler trace", hint=hint)
        if "traceEvents" in root:
            return TraceError(f"{named} is no profiler trace: its `traceEvents` is no list", hint=EXPORT_HINT)
        found = ", ".join(f"`{key}`" for key in list(root)[:5]) or "nothing"
        return TraceError(f"{named} is JSON without `traceEvents` (it has {found})", hint=EXPORT_HINT)
    return TraceError(f"{named} is JSON without `traceEvents`", hint=EXPORT_HINT)
