from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from build import TraceBuilder
from mutate import mutated

from foretrace.readings import variance

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from foretrace.run import Run

NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def _steps(durations: Sequence[float], *, name: str = "my_kernel", beside: int | None = None) -> Run:
    """One kernel a step with the given durations; in step ``beside`` another stream works at the same time."""
    builder = TraceBuilder()
    for i, duration in enumerate(durations):
        at = 1_000 * i
        builder.step(i, at, 900).kernel(name, at + 10, duration, launch=(at + 1, 2))
        if i == beside:
            builder.kernel("other_kernel", at + 5, 400, stream=9)
    return builder.run()


def test_up_is_slower_than_gate_though_the_same_kernel(recorded: Callable[[str], Run]) -> None:
    """Compiled MLP: 55.9 and 60.4 µs at two places of the step; the trace does not say why."""
    answer = variance.answer(recorded("mlp_64x128x768x3072_compiled"))
    assert answer is not None
    assert answer.verdict == "unknown"
    assert answer.sentence == (
        "nvjet 256×128×64, 4 stages, bf16→bf16 (aten::mm) takes 55.9 µs as kernel 1 of the step and 60.4 µs as "
        "kernel 2, and why cannot be told from the trace. Kernel, shapes and grid are the same, nothing runs beside it "
        "on the GPU, and no clocks are recorded."
    )
    assert answer.evidence[0]["difference_ns"] == pytest.approx(4_470, abs=5)


def test_silent_where_times_agree(recorded: Callable[[str], Run]) -> None:
    """Gate and up of the eager MLP differ by 0.13 µs, less than their spread."""
    assert variance.answer(recorded("mlp_64x128x768x3072_eager")) is None


def test_the_first_step_is_told_as_warm_up() -> None:
    """Only the first of five is slow."""
    answer = variance.answer(_steps([90, 50, 50, 51, 50]))
    assert answer is not None
    assert "only the first step is slow" in answer.sentence
    assert (answer.evidence[0]["low_ns"], answer.evidence[0]["high_ns"]) == (50_000, 90_000)


def test_work_beside_it_is_the_reason() -> None:
    """The slow step has another stream's kernel over its whole length."""
    answer = variance.answer(_steps([50, 90, 50], beside=1))
    assert answer is not None
    assert "other streams work beside the slower one for 100 % of its time" in answer.sentence


def test_a_slow_step_in_the_middle_cannot_be_explained() -> None:
    """Neither first nor contended: unknown."""
    answer = variance.answer(_steps([50, 90, 50]))
    assert answer is not None
    assert answer.verdict == "unknown"


def test_collectives_wait_for_ranks() -> None:
    """A collective's spread is the ranks'."""
    answer = variance.answer(_steps([50, 90, 50], name=NCCL))
    assert answer is not None
    assert "waiting for the last rank" in answer.sentence


def test_differences_below_the_clocks_noise_are_none() -> None:
    """0.4 µs apart is not worth a word."""
    assert variance.answer(_steps([1.0, 1.4, 1.0])) is None


def test_same_shapes_with_other_strides_are_not_the_same_call(recorded: Callable[[str], Run]) -> None:
    """The rotary embedding's multiplications read other layouts: their difference is no variance."""
    answer = variance.answer(recorded("llama4_prefill"))
    assert answer is None or all(row["difference"] < 0.3 for row in answer.evidence)


def test_figures_follow_the_trace() -> None:
    """Up twice as slow as it was."""
    seen: list[int] = []

    def slow_up(event: dict[str, Any]) -> dict[str, Any]:
        if event.get("cat") != "kernel" or "256x128" not in event["name"]:
            return event
        seen.append(1)
        return {**event, "dur": event["dur"] * 2} if len(seen) % 2 == 0 else event

    answer = variance.answer(mutated("mlp_64x128x768x3072_compiled", slow_up))
    assert answer is not None
    assert "takes 55.9 µs as kernel 1 of the step and 121 µs as kernel 2" in answer.sentence


def test_silent_where_nothing_ran_twice() -> None:
    """One launch has no variance."""
    assert variance.answer(TraceBuilder().kernel("my_kernel", 0, 10).run()) is None
