"""A small hand-made trace, written event by event as Kineto writes them; times in microseconds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from foretrace.run import Run, read

if TYPE_CHECKING:
    from pathlib import Path


class Recorder:
    """Collects events; `run` writes them to a file, reads it and checks the invariants."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "trace.json"
        self.events: list[dict[str, Any]] = []
        self.pid: int | str = 1
        self.gpu: int | str = 0

    def add(self, **event: Any) -> None:
        """Any event."""
        self.events.append({"ph": "X", "pid": self.pid, "tid": 1, **event})

    def op(self, name: str, ts: float, dur: float, **args: Any) -> None:
        """An operator on the host."""
        self.add(cat="cpu_op", name=name, ts=ts, dur=dur, args={"External id": 7, **args})

    def annotation(self, name: str, ts: float, dur: float) -> None:
        """A user annotation on the host."""
        self.add(cat="user_annotation", name=name, ts=ts, dur=dur)

    def call(self, correlation: int, ts: float, dur: float = 4, name: str = "cudaLaunchKernel") -> None:
        """A runtime call."""
        self.add(cat="cuda_runtime", name=name, ts=ts, dur=dur, args={"correlation": correlation})

    def kernel(self, correlation: int, ts: float, dur: float, name: str = "k", **args: Any) -> None:
        """A kernel on stream 7."""
        given = {"device": 0, "stream": 7, "correlation": correlation, **args}
        self.add(cat="kernel", name=name, pid=self.gpu, tid=7, ts=ts, dur=dur, args=given)

    def run(self, **metadata: Any) -> Run:
        """Write, read and check."""
        self.path.write_text(json.dumps({"schemaVersion": 1, **metadata, "traceEvents": self.events}), encoding="utf-8")
        run = read(self.path)
        run.check()
        return run


@pytest.fixture
def trace(tmp_path: Path) -> Recorder:
    """An empty trace to add events to."""
    return Recorder(tmp_path)
