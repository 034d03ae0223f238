from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from build import TraceBuilder
from mutate import mutated

from foretrace.readings import graphs

if TYPE_CHECKING:
    from collections.abc import Callable

    from foretrace.run import Run


def test_one_launch_six_nodes(recorded: Callable[[str], Run]) -> None:
    """One graph launch a step runs 4 kernels and 2 memsets; the static input is copied by a kernel outside it."""
    answer = graphs.answer(recorded("mlp_64x128x768x3072_cudagraph"))
    assert answer is not None
    assert answer.sentence == (
        "1 graph launch a step, 25.7 µs of CPU each; one launch = 4 kernels + 2 memsets, 205 µs of GPU. Nodes are put "
        "to their ops by name and order (inferred). Outside the graph a copy kernel (16.3 µs) fills the static input: "
        "7.41 % of GPU busy."
    )


def test_nodes_are_put_to_their_gemm_or_op(recorded: Callable[[str], Run]) -> None:
    """Each node has its GEMM or the ops in its name, in the graph's order, and says that this is inferred."""
    answer = graphs.answer(recorded("mlp_64x128x768x3072_cudagraph"))
    assert answer is not None
    assert [row["put_to"] for row in answer.evidence] == [
        "GEMM 1 of 3",
        "GEMM 1 of 3",
        "GEMM 2 of 3",
        "GEMM 2 of 3",
        "_unsafe_view + gelu + mul",
        "GEMM 3 of 3",
    ]
    assert all(row["inferred"] for row in answer.evidence)


def test_a_helper_goes_to_the_gemm_before_it(recorded: Callable[[str], Run]) -> None:
    """The split-K reduction inside a graph belongs to the GEMM that it completes."""
    answer = graphs.answer(recorded("mlp_1x1x768x3072_cudagraph"))
    assert answer is not None
    assert [row["put_to"] for row in answer.evidence][-2:] == ["GEMM 3 of 3", "GEMM 3 of 3"]


@pytest.mark.parametrize("name", ["mlp_64x128x768x3072_eager", "llama4_decode1"])
def test_silent_without_graphs(recorded: Callable[[str], Run], name: str) -> None:
    """A trace without graph launches raises no such question."""
    assert graphs.answer(recorded(name)) is None


def test_a_launch_without_nodes_is_unknown() -> None:
    """A graph launch that owns nothing says so; events before the next wait are probably its nodes, as a guess."""
    built = TraceBuilder("AMD Instinct MI300X").call("hipGraphLaunch", 10, 20).call("hipStreamSynchronize", 40, 200)
    answer = graphs.answer(built.kernel("a", 50, 10).kernel("b", 70, 10).run())
    assert answer is not None
    assert answer.verdict == "unknown"
    assert "hipGraphLaunch was called 1 time, and no GPU event is linked to it." in answer.sentence
    assert "guess" in answer.sentence


def test_conditional_nodes_make_busy_a_lower_bound() -> None:
    """The host waits 5 ms for a graph of which 20 µs are recorded."""
    built = TraceBuilder().kernel("node", 30, 20, launch=(10, 10), api="cudaGraphLaunch")
    answer = graphs.answer(built.call("cudaStreamSynchronize", 25, 5_000).run())
    assert answer is not None
    assert "lower bound" in answer.sentence


def test_mutated_graph_is_followed() -> None:
    """With the sets gone and the copy kernel twice as long, both figures follow."""

    def changed(event: dict[str, Any]) -> dict[str, Any] | None:
        if event.get("cat") == "gpu_memset":
            return None
        if event.get("cat") == "kernel" and "multi_tensor_apply" in event["name"]:
            return {**event, "dur": event["dur"] * 2}
        return event

    answer = graphs.answer(mutated("mlp_64x128x768x3072_cudagraph", changed))
    assert answer is not None
    assert "one launch = 4 kernels, 203 µs of GPU" in answer.sentence
    assert "a copy kernel (32.7 µs)" in answer.sentence


def test_shares_are_of_the_steps_own_work(recorded: Callable[[str], Run]) -> None:
    """Eight events ran before the steps: the first GEMM is 712 µs of the 2.30 ms of a step, not of the whole trace."""
    answer = graphs.answer(recorded("mlp_4x2048x2048x16384_cudagraph"))
    assert answer is not None
    assert answer.evidence[1]["share"] == pytest.approx(712 / 2_300, rel=0.002)
