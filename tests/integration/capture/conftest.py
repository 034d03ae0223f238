"""What the capture tests share: the targets' directory and a reader of the trace's own JSON."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def _path_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """A target's directory stays on ``sys.path``, so that its forwards can import; other tests do without it."""
    monkeypatch.setattr(sys, "path", sys.path.copy())


@pytest.fixture
def targets() -> Path:
    """Where the profiled files are."""
    return Path(__file__).parent / "targets"


@pytest.fixture
def spans() -> Callable[[Path], list[dict[str, Any]]]:
    """Read a trace's complete events in order of start, longest first."""

    def read(path: Path) -> list[dict[str, Any]]:
        events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
        complete = [event for event in events if event.get("ph") == "X"]
        return sorted(complete, key=lambda event: (event["ts"], -event["dur"]))

    return read
