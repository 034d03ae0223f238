"""A recorded trace, changed: the sentences of an answer must follow."""

from __future__ import annotations

import gzip
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foretrace.run import Run, read

if TYPE_CHECKING:
    from collections.abc import Callable

_DATA = Path(__file__).parents[2] / "data"
RECORDED = {
    path.name.removesuffix(".json.gz"): path
    for folder in ("h200", "h200_live", "two_ranks")
    for path in sorted((_DATA / folder).glob("*.json.gz"))
}
"""Every recorded trace by its name."""


def path_of(name: str) -> Path:
    """The recorded trace of that name."""
    return RECORDED[name]


def mutated(name: str, change: Callable[[dict[str, Any]], dict[str, Any] | None], **header: Any) -> Run:
    """The recorded trace ``name`` after ``change`` of every event; an event changed to ``None`` is left out.

    ``header`` replaces top-level keys of the file.
    """
    document = json.loads(gzip.decompress(path_of(name).read_bytes())) | header
    changed = (change(event) for event in document["traceEvents"])
    document["traceEvents"] = [event for event in changed if event is not None]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        path.write_text(json.dumps(document))
        run = read(path)
    run.check()
    return run
