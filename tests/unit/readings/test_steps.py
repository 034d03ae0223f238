from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from build import TraceBuilder
from mutate import mutated

from foretrace.readings import steps

if TYPE_CHECKING:
    from collections.abc import Callable

    from foretrace.run import Run


def test_last_step_waits_for_the_queue(recorded: Callable[[str], Run]) -> None:
    """The long last step of a trace with a deep queue is the final synchronize, and nothing of the step itself."""
    answer = steps.answer(recorded("mlp_4x2048x2048x16384_eager"))
    assert answer is not None
    assert answer.verdict == "synchronize"
    assert answer.sentence == (
        "ProfilerStep#4 takes 8.87 ms on the CPU, 28× the others' median (318 µs): as the last step it waits 8.60 ms "
        "in cudaDeviceSynchronize for all queued work to end."
    )


def test_first_step_of_the_file(recorded: Callable[[str], Run]) -> None:
    """A slower first step is told from the others, with what the CPU did more."""
    answer = steps.answer(recorded("linear_1024x32x64_eager"))
    assert answer is not None
    assert answer.verdict == "ops"
    assert answer.sentence.startswith(
        "ProfilerStep#2 takes 275 µs on the CPU, 2.8× the others' median (99.1 µs): 109 µs more"
    )
    assert "It is the first of the file" in answer.sentence


@pytest.mark.parametrize("name", ["llama4_decode1", "mlp_recompiles", "tp_rank0"])
def test_silent_where_steps_are_alike(recorded: Callable[[str], Run], name: str) -> None:
    """Steps within a fifth of each other raise no question."""
    assert steps.answer(recorded(name)) is None


@pytest.mark.parametrize(
    ("call", "cause"),
    [
        ("cudaMalloc", "allocator"),
        ("cudaStreamSynchronize", "synchronize"),
        ("cudaLaunchKernel", "launch calls"),
        ("cudaMemcpyAsync", "copy calls"),
    ],
)
def test_the_cause_is_the_extra_call(call: str, cause: str) -> None:
    """One of four equal steps gets a long call more; the whole difference is put to it."""
    built = TraceBuilder()
    for number in range(4):
        start = number * 1_000
        built.step(number, start, 100 if number != 2 else 600)
        built.op("aten::mm", start + 10, 50 if number != 2 else 550)
        if number == 2:
            built.call(call, start + 20, 500)
    answer = steps.answer(built.run())
    assert answer is not None
    assert answer.verdict == cause.replace(" ", "-")
    assert answer.sentence == (
        f"ProfilerStep#2 takes 600 µs on the CPU, 6× the others' median (100 µs): 500 µs more in {cause} ({call})."
    )
    assert answer.evidence[2]["by_cause_ns"] == {cause: 500_000}


def test_a_step_that_took_less_has_no_cause_for_more(recorded: Callable[[str], Run]) -> None:
    """The quickest of three steps has some call that took 47 ns more: that is not most of its difference."""
    answer = steps.answer(recorded("train_mlp_eager"))
    assert answer is not None
    assert [row["because"] for row in answer.evidence] == ["Python frames +538 µs", None, "Python frames +249 µs"]


def test_the_profilers_own_buffer_is_no_launch_cost() -> None:
    """A buffer request of 800 µs inside an 805 µs launch call is the profiler's work; the call itself cost 5."""
    built = TraceBuilder()
    for number in range(3):
        start = number * 2_000
        long = 800 if number == 1 else 0
        built.step(number, start, 100 + long).op("aten::mm", start + 10, 50 + long)
        built.call("cudaLaunchKernel", start + 20, 5 + long)
        if long:
            built.event("overhead", "Activity Buffer Request", start + 22, 800, tid=99)
    answer = steps.answer(built.run())
    assert answer is not None
    assert answer.verdict == "the-profiler-itself"
    assert "800 µs more in the profiler itself (Activity Buffer Request)" in answer.sentence


def test_two_unlike_steps_are_unknown() -> None:
    """With two steps nobody can say which one is usual."""
    answer = steps.answer(TraceBuilder().step(1, 0, 100).step(2, 100, 300).op("aten::mm", 10, 5).run())
    assert answer is not None
    assert answer.verdict == "unknown"


def test_a_longer_step_changes_the_answer() -> None:
    """When another step is made the longest, it is the one that is asked about."""

    def longer(event: dict[str, Any]) -> dict[str, Any]:
        if event.get("name") == "ProfilerStep#3" and event.get("cat") == "user_annotation":
            return {**event, "dur": event["dur"] * 0.25}
        return event

    answer = steps.answer(mutated("tp_rank0", longer))
    assert answer is not None
    assert answer.sentence.startswith("ProfilerStep#2 takes 2.54 ms on the CPU, 1.")
