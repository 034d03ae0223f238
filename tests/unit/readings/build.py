"""A tiny trace by hand, for tests: events as Kineto writes them, times in microseconds."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from foretrace.run import Run, read

_HOST, _GPU = 100, 0
MAIN, BACKWARD = 1, 2
"""Two host threads."""


class TraceBuilder:
    """Collects events; `run` writes them to a file, reads it and gives the checked `Run`.

    Every method returns the builder. A launch and its activity are tied by a fresh correlation number.

    Args:
        device: Name in ``deviceProperties``; ``None`` leaves the header out.
        metadata: More top-level keys of the file.
    """

    def __init__(self, device: str | None = "NVIDIA H200", **metadata: Any) -> None:
        self.events: list[dict[str, Any]] = []
        self.metadata = dict(metadata)
        if device is not None:
            self.metadata["deviceProperties"] = [{"id": 0, "name": device}]
        self._correlation = 0

    def event(
        self,
        cat: str,
        name: str,
        start: float,
        dur: float | None,
        tid: int | str = MAIN,
        **args: Any,
    ) -> TraceBuilder:
        """Any slice on a host thread; an instant where ``dur`` is ``None``."""
        timing = {"ph": "i", "s": "t"} if dur is None else {"ph": "X", "dur": dur}
        self.events.append({**timing, "cat": cat, "name": name, "pid": _HOST, "tid": tid, "ts": start, "args": args})
        return self

    def op(
        self,
        name: str,
        start: float,
        dur: float,
        *,
        dims: Any = None,
        types: Any = None,
        thread: int = MAIN,
        **args: Any,
    ) -> TraceBuilder:
        """An operator; ``dims`` and ``types`` as in ``Input Dims`` and ``Input type``."""
        if dims is not None:
            args |= {"Input Dims": dims, "Input type": types or ["float"] * len(dims)}
        return self.event("cpu_op", name, start, dur, thread, **args)

    def annotation(self, name: str, start: float, dur: float, *, thread: int = MAIN) -> TraceBuilder:
        """A ``record_function`` scope."""
        return self.event("user_annotation", name, start, dur, thread)

    def step(self, number: int, start: float, dur: float) -> TraceBuilder:
        """``ProfilerStep#number``."""
        return self.annotation(f"ProfilerStep#{number}", start, dur)

    def call(self, name: str, start: float, dur: float, *, thread: int = MAIN, **args: Any) -> TraceBuilder:
        """A runtime call (a driver call where the name starts with ``cu`` and no ``cuda``)."""
        driver = name.startswith("cu") and not name.startswith("cuda")
        return self.event("cuda_driver" if driver else "cuda_runtime", name, start, dur, thread, **args)

    def activity(
        self,
        cat: str,
        name: str,
        start: float,
        dur: float,
        *,
        launch: tuple[float, float] | None = None,
        api: str = "cudaLaunchKernel",
        thread: int = MAIN,
        stream: int = 7,
        **args: Any,
    ) -> TraceBuilder:
        """Work on the device, launched by ``api`` at ``launch`` = (start, dur); without ``launch`` an orphan."""
        self._correlation += 1
        if launch is not None:
            self.call(api, *launch, thread=thread, correlation=self._correlation)
        return self.of_launch(cat, name, start, dur, stream=stream, **args)

    def of_launch(self, cat: str, name: str, start: float, dur: float, *, stream: int = 7, **args: Any) -> TraceBuilder:
        """Another activity of the latest launch (nodes of a CUDA graph)."""
        args = {"device": 0, "stream": stream, "correlation": self._correlation, **args}
        self.events.append(
            {"ph": "X", "cat": cat, "name": name, "pid": _GPU, "tid": stream, "ts": start, "dur": dur, "args": args}
        )
        return self

    def kernel(self, name: str, start: float, dur: float, **options: Any) -> TraceBuilder:
        """A kernel; options as in `activity`."""
        return self.activity("kernel", name, start, dur, **options)

    def copy(self, name: str, start: float, dur: float, **options: Any) -> TraceBuilder:
        """A copy such as ``Memcpy HtoD (Pageable -> Device)``; ``bytes`` among the options."""
        return self.activity("gpu_memcpy", name, start, dur, **{"api": "cudaMemcpyAsync", **options})

    def set(self, start: float, dur: float, **options: Any) -> TraceBuilder:
        """A memset."""
        return self.activity("gpu_memset", "Memset (Device)", start, dur, **{"api": "cudaMemsetAsync", **options})

    def flow(self, category: str, number: int, start: float, end: float, threads: tuple[int, int]) -> TraceBuilder:
        """An arrow from a slice that begins at ``start`` on the first thread to one at ``end`` on the second."""
        for phase, at, thread in zip("sf", (start, end), threads, strict=True):
            self.events.append(
                {"ph": phase, "id": number, "cat": category, "name": category, "pid": _HOST, "tid": thread, "ts": at}
            )
        return self

    def run(self) -> Run:
        """Write, read and check."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "trace.json"
            path.write_text(json.dumps({**self.metadata, "traceEvents": self.events}))
            run = read(path)
        run.check()
        return run
