from __future__ import annotations

from typing import TYPE_CHECKING, Any

from build import TraceBuilder
from mutate import mutated

from foretrace.readings import streams

if TYPE_CHECKING:
    from collections.abc import Callable

    from foretrace.run import Run


def test_three_streams_overlap_nothing(recorded: Callable[[str], Run]) -> None:
    """GPU busy equals the kernel sum: the side streams buy nothing."""
    answer = streams.answer(recorded("mlp_two_streams"))
    assert answer is not None
    assert answer.verdict == "none"
    assert answer.sentence == ("None of the 3 streams overlaps another: GPU busy equals the sum of its events, 168 µs.")
    assert sum(row["busy_ns"] for row in answer.evidence) == 168_352


def test_communication_stream(recorded: Callable[[str], Run]) -> None:
    """The straggler's peer spends most of its time in exposed communication on a stream of its own."""
    answer = streams.answer(recorded("ddp_straggler_rank0"))
    assert answer is not None
    assert answer.verdict == "mostly"
    assert "Of 37.1 ms of communication 31.1 ms (83.8 %) is exposed." in answer.sentence


def test_overlap_is_measured() -> None:
    """Half of the side stream's kernel runs beside the main stream's."""
    built = TraceBuilder().kernel("a", 0, 100, launch=(0, 1), stream=7).kernel("b", 50, 100, launch=(2, 1), stream=8)
    answer = streams.answer(built.run())
    assert answer is not None
    assert answer.sentence.startswith("2 streams overlap for 50.0 µs")
    assert [(row["stream"], row["busy_ns"], row["hidden_ns"]) for row in answer.evidence] == [
        (7, 100_000, 50_000),
        (8, 100_000, 50_000),
    ]


def test_silent_on_one_stream_and_unknown_without_streams(recorded: Callable[[str], Run]) -> None:
    """One stream has nothing to overlap; events that name none cannot tell."""
    assert streams.answer(recorded("sdpa")) is None
    built = TraceBuilder().kernel("a", 0, 10, launch=(0, 1), stream=7).kernel("b", 20, 10, launch=(2, 1), stream=-1)
    answer = streams.answer(built.run())
    assert answer is not None
    assert answer.verdict == "unknown"


def test_stretched_kernels_overlap() -> None:
    """Kernels made long enough run beside those of the other streams, and the verdict follows."""

    def longer(event: dict[str, Any]) -> dict[str, Any]:
        return {**event, "dur": 500.0} if event.get("cat") == "kernel" else event

    answer = streams.answer(mutated("mlp_two_streams", longer))
    assert answer is not None
    assert answer.verdict == "mostly"


def test_queues_of_intel_gpus_are_streams() -> None:
    """Events of Intel's GPUs name a SYCL queue and no stream: queues overlap as streams do."""
    built = TraceBuilder(None)
    for start, queue in ((0, 64), (50, 65)):
        args = {"device": 0, "sycl queue": queue, "l0 queue": "0x000055d08b8fc138"}
        built.event("kernel", "gemm_kernel", start, 100, tid=queue, **args)
    answer = streams.answer(built.run())
    assert answer is not None
    assert answer.sentence.startswith("2 streams overlap for 50.0 µs")
    assert [row["stream"] for row in answer.evidence] == [64, 65]
