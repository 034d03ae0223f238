"""Steps of kernels by hand, as Kineto writes them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

DATA = Path(__file__).parents[2] / "data"


def events_of(steps: Sequence[Sequence[tuple[str, str, Any, float]]]) -> list[dict[str, Any]]:
    """Kineto events of steps; each step is a list of (op, kernel, shapes, µs), launched and run one after the other."""
    events: list[dict[str, Any]] = []
    now, correlation = 0.0, 0

    def slice_(cat: str, name: str, start: float, dur: float, pid: int, tid: int, **args: Any) -> None:
        events.append(
            {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": start, "dur": dur, "args": args}
        )

    for number, kernels in enumerate(steps):
        begin = now
        for op, kernel, shapes, micros in kernels:
            correlation += 1
            arguments = {"Input Dims": shapes, "Input type": ["c10::BFloat16"] * len(shapes)} if shapes else {}
            slice_("cpu_op", op, now + 1, 8, 100, 1, **arguments)
            slice_("cuda_runtime", "cudaLaunchKernel", now + 2, 4, 100, 1, correlation=correlation)
            slice_("kernel", kernel, now + 10, micros, 0, 7, device=0, stream=7, correlation=correlation)
            now += 20 + micros
        slice_("user_annotation", f"ProfilerStep#{number}", begin, now - begin + 5, 100, 1)
        now += 10
    return events
