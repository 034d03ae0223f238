from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from build import TraceBuilder
from mutate import mutated

from foretrace.readings import window

if TYPE_CHECKING:
    from collections.abc import Callable

    from foretrace.run import Run


_LINES = {
    "mlp_64x128x768x3072_eager": "3 steps of mlp_fwd · 5 kernels a step · all 21 GPU events linked to their launch",
    "mlp_recompiles": "3 steps of mlp_fwd · 621 to 629 kernels a step · all 2,511 GPU events linked to their launch",
    "ddp_rank1": "rank 1 of 2 · 3 steps of train_step · 105 kernels a step · all 393 GPU events linked to their launch",
}


@pytest.mark.parametrize("name", _LINES)
def test_first_line_of_a_complete_trace(recorded: Callable[[str], Run], name: str) -> None:
    """Device, rank, steps with their region, kernels a step and links are one line; nothing is missing."""
    answer = window.answer(recorded(name))
    assert answer.sentence == f"NVIDIA H200 · {_LINES[name]}"
    assert answer.verdict == "complete"
    assert answer.evidence == ()


def test_orphans_are_counted(recorded: Callable[[str], Run]) -> None:
    """GPU events that were launched before the file begins are named, and make the trace partial."""
    answer = window.answer(recorded("ddp_straggler_rank0"))
    assert "393 of 432 GPU events linked to their launch" in answer.sentence
    assert answer.verdict == "partial"
    assert [row["count"] for row in answer.evidence] == [39]


def test_lost_launches_follow_in_the_sentence() -> None:
    """Without its launch calls, a kernel is an orphan and the count falls."""

    def without_driver_calls(event: dict[str, Any]) -> dict[str, Any] | None:
        return None if event.get("cat") == "cuda_driver" else event

    answer = window.answer(mutated("mlp_64x128x768x3072_eager", without_driver_calls))
    assert "12 of 21 GPU events linked to their launch" in answer.sentence


def test_no_gpu_events_where_a_gpu_is_listed() -> None:
    """A listed device without any activity is said, with what was probably forgotten; no busy figure appears."""
    answer = window.answer(TraceBuilder().step(1, 0, 100).op("aten::mm", 10, 50).run())
    assert answer.verdict == "no-gpu"
    assert "no GPU events" in answer.sentence
    assert "ProfilerActivity.CUDA" in answer.sentence


def test_cpu_only() -> None:
    """A trace of the CPU names no GPU and is not called idle."""
    answer = window.answer(TraceBuilder(device=None).step(1, 0, 100).step(2, 100, 90).op("aten::mm", 10, 50).run())
    assert answer.sentence.startswith("CPU only · 2 steps. No GPU events: CPU times only.")


def test_no_steps_and_work_between_steps() -> None:
    """A trace without step marks says so; work launched between two marks is counted apart."""
    without = window.answer(TraceBuilder().kernel("k", 20, 5, launch=(10, 4)).run())
    assert "No usable step marks" in without.sentence
    between = TraceBuilder().step(1, 0, 100).step(2, 200, 100)
    between.kernel("k", 20, 5, launch=(10, 4)).kernel("k", 120, 5, launch=(110, 4))
    assert "1 GPU event launched outside the steps." in window.answer(between.run()).sentence
