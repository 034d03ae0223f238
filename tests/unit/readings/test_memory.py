from __future__ import annotations

from typing import TYPE_CHECKING

from build import TraceBuilder

from foretrace.readings import memory

if TYPE_CHECKING:
    from collections.abc import Callable

    from foretrace.run import Run


def _allocated(built: TraceBuilder, at: float, moved: int, total: int, *, device_type: int = 1) -> TraceBuilder:
    arguments = {"Bytes": moved, "Total Allocated": total, "Total Reserved": 4_000_000, "Device Type": device_type}
    return built.event("cpu_instant_event", "[memory]", at, None, **arguments)


def _two_steps(peak: int = 3_000_000) -> TraceBuilder:
    built = TraceBuilder().step(1, 0, 100).step(2, 100, 100)
    _allocated(built.op("aten::empty", 10, 20), 15, 1_000_000, 1_000_000)
    _allocated(built.op("aten::mm", 110, 20), 115, 2_000_000, peak)
    _allocated(built, 116, 90_000_000, 90_000_000, device_type=0)
    return _allocated(built, 150, -1_000_000, 2_000_000)


def test_peak_and_growth() -> None:
    """The peak is the device's, in the op that reached it; growth is between the ends of the steps."""
    answer = memory.answer(_two_steps().run())
    assert answer is not None
    assert answer.verdict == "measured"
    assert answer.sentence == (
        "Peak 3.00 MB allocated (4.00 MB reserved) in aten::mm, ProfilerStep#2. The last step ends with 1.00 MB more "
        "than the first."
    )
    assert [(row["op"], row["grown_bytes"]) for row in answer.evidence] == [
        ("aten::mm", 2_000_000),
        ("aten::empty", 1_000_000),
    ]


def test_a_higher_peak_is_followed() -> None:
    """Another total, another peak."""
    answer = memory.answer(_two_steps(peak=3_500_000).run())
    assert answer is not None
    assert answer.sentence.startswith("Peak 3.50 MB allocated")


def test_driver_calls_without_memory_events_are_unknown() -> None:
    """The driver's allocator was called, and the trace does not hold what for."""
    built = TraceBuilder().step(1, 0, 900).step(2, 900, 900).call("cudaMalloc", 10, 400).call("cudaMalloc", 950, 300)
    answer = memory.answer(built.kernel("k", 500, 5, launch=(480, 5)).run())
    assert answer is not None
    assert answer.verdict == "unknown"
    assert answer.sentence == (
        "1 call to the driver's allocator a step (cudaMalloc) holds the CPU for 350 µs. What they hold is unknown: the "
        "trace was taken without profile_memory=True."
    )


def test_silent_without_memory(recorded: Callable[[str], Run]) -> None:
    """A trace without memory events and without allocator calls raises no such question."""
    assert memory.answer(recorded("mlp_64x128x768x3072_eager")) is None
