from __future__ import annotations

from typing import TYPE_CHECKING, Any

from build import TraceBuilder
from mutate import mutated

from foretrace.readings import launch

if TYPE_CHECKING:
    from collections.abc import Callable

    from foretrace.run import Run


def test_half_of_the_launches_find_an_idle_gpu(recorded: Callable[[str], Run]) -> None:
    """In the eager MLP 9 of 21 calls begin when the GPU has nothing left: the 9 gaps of the whole-gap kind."""
    answer = launch.answer(recorded("mlp_64x128x768x3072_eager"))
    assert answer is not None
    assert answer.verdict == "mixed"
    assert answer.sentence.startswith(
        "At times, for 509 µs: 9 of 21 launch calls (42.9 %) began when the GPU had nothing left to do."
    )


def test_a_deep_queue_is_fed(recorded: Callable[[str], Run]) -> None:
    """Long kernels behind a fast host: no call finds the GPU idle, and the queue is deep."""
    answer = launch.answer(recorded("mlp_4x2048x2048x16384_eager"))
    assert answer is not None
    assert answer.verdict == "fed"
    assert answer.sentence == (
        "No: each of the 24 launch calls found the GPU at work. When one begins, 16 earlier ones are still queued "
        "(median), at most 26."
    )


def test_latency_depth_and_stretch() -> None:
    """Four short kernels launched 100 µs apart, each 5 µs after its call begins: one stretch, an empty queue."""
    built = TraceBuilder()
    for i in range(4):
        built.op(f"aten::op{i}", 100 * i, 30).kernel(f"k{i}", 100 * i + 15, 2, launch=(100 * i + 10, 4))
    answer = launch.answer(built.run())
    assert answer is not None
    assert answer.sentence == (
        "Yes, for 294 µs: 3 of 4 launch calls (75.0 %) began when the GPU had nothing left to do. On an idle GPU, work "
        "starts 5.00 µs (median), at most 5.00 µs, after its call begins; when a call begins, 0 earlier ones are still "
        "queued (median), at most 0. The longest launch-bound stretch is 3 launches in a row (aten::op1 … aten::op3): "
        "the GPU waits 294 µs of 300 µs for what these calls start."
    )
    (row,) = answer.evidence
    assert (row["launches"], row["idle_ns"], row["wall_ns"]) == (3, 294_000, 300_000)


def test_a_stretch_counts_no_time_in_which_another_stream_works() -> None:
    """The kernel that a call starts comes 300 µs later; for 200 of those a kernel launched after it works."""
    built = TraceBuilder()
    built.op("aten::a", 0, 30).kernel("a", 15, 2, launch=(10, 4))
    built.op("aten::late", 100, 30).kernel("late", 410, 2, launch=(110, 4), stream=8)
    built.op("aten::b", 150, 30).kernel("b", 200, 200, launch=(160, 4))
    answer = launch.answer(built.run())
    assert answer is not None
    assert answer.sentence.startswith("At times, for 183 µs: 1 of 3 launch calls")
    assert [row["idle_ns"] for row in answer.evidence] == [183_000]


def test_a_kernel_before_its_launch_is_clock_skew() -> None:
    """A kernel that starts 0.8 µs before its call has no huge latency; the clocks disagree."""
    built = TraceBuilder().kernel("k", 1004.2, 9, launch=(1005.0, 4), api="cuLaunchKernelEx")
    answer = launch.answer(built.run())
    assert answer is not None
    assert answer.sentence == (
        "1 GPU event begins before the launch call, by up to 800 ns: the clocks of host and device disagree."
    )


def test_a_graph_launch_is_one_call(recorded: Callable[[str], Run]) -> None:
    """Six launch calls drive the CUDA-graph MLP: a copy and a graph in each of three steps."""
    answer = launch.answer(recorded("mlp_64x128x768x3072_cudagraph"))
    assert answer is not None
    assert "3 of 6 launch calls" in answer.sentence


def test_silent_without_gpu_and_unknown_without_links() -> None:
    """A trace of the CPU raises no question; orphans alone cannot say."""
    assert launch.answer(TraceBuilder(device=None).op("aten::mm", 0, 10).run()) is None
    orphans = launch.answer(TraceBuilder().kernel("a", 5, 5).kernel("b", 20, 5).run())
    assert orphans is not None
    assert orphans.verdict == "unknown"


def test_longer_kernels_feed_the_gpu() -> None:
    """When every kernel of the eager MLP runs until the next one starts, no launch call finds the GPU idle."""

    def longer(event: dict[str, Any]) -> dict[str, Any]:
        return {**event, "dur": 2000.0} if event.get("cat") == "kernel" else event

    answer = launch.answer(mutated("mlp_64x128x768x3072_eager", longer))
    assert answer is not None
    assert answer.verdict == "fed"
