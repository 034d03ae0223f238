from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from build import TraceBuilder
from mutate import mutated

from foretrace.readings import syncs

if TYPE_CHECKING:
    from collections.abc import Callable

    from foretrace.run import Run


def test_item_and_pageable_copy(recorded: Callable[[str], Run]) -> None:
    """The two waits of `.item()` and of the pageable copy, the wait after it, and the cost that is no wait at all."""
    answer = syncs.answer(recorded("mlp_sync_and_pageable_copy"))
    assert answer is not None
    assert answer.verdict == "waits"
    assert "aten::to: blocking cudaMemcpyAsync 311 to 340 µs" in answer.sentence
    assert "aten::to: cudaStreamSynchronize 19.4 to 22.0 µs" in answer.sentence
    assert "aten::item: cudaStreamSynchronize 7.18 to 7.82 µs (the whole op 33.5 to 37.3 µs)" in answer.sentence
    assert answer.sentence.startswith(
        "The real cost is no wait: aten::randn computes on the CPU for 4.04 ms a step, 77.6 % of the steps. "
        "The CPU waits 358 µs a step: "
    )


@pytest.mark.parametrize("name", ["train_mlp_eager", "train_mlp_compiled"])
def test_items_on_cpu_tensors_do_not_wait(recorded: Callable[[str], Run], name: str) -> None:
    """An optimizer's 18 `aten::item` read its CPU step counters; none waits for the GPU."""
    answer = syncs.answer(recorded(name))
    assert answer is not None
    assert answer.verdict == "no-waits"
    assert answer.sentence.startswith("18 aten::item (6 a step) read CPU tensors: none of them waits for the GPU.")


def test_item_waits_for_earlier_kernels() -> None:
    """`.item()` behind 8 ms of kernels: the wait is the GPU's work, and the copy itself takes 2 µs."""
    built = TraceBuilder().step(1, 0, 9_000).op("aten::mm", 0, 50).kernel("k", 20, 8_000, launch=(10, 5))
    built.op("aten::item", 100, 8_020).op("aten::_local_scalar_dense", 110, 8_005)
    built.copy("Memcpy DtoH (Device -> Pageable)", 8_100, 2, launch=(112, 8_000), bytes=4)
    answer = syncs.answer(built.op("aten::mm", 8_200, 50).kernel("k", 8_300, 5, launch=(8_210, 5)).run())
    assert answer is not None
    assert answer.sentence.startswith(
        "The CPU waits 8.00 ms a step: aten::item: blocking cudaMemcpyAsync 8.00 ms (the whole op 8.02 ms): it waits "
        "for earlier GPU work, the copy itself takes 2.00 µs."
    )
    (row,) = answer.evidence
    assert row["gpu_busy_ns"] == 7_908_000 + 2_000


@pytest.mark.parametrize("name", ["mlp_64x128x768x3072_eager", "mlp_recompiles"])
def test_silent_where_only_the_end_or_a_compilation_waits(recorded: Callable[[str], Run], name: str) -> None:
    """The synchronize after the last launch ends the measurement; an autotuner's waits belong to compiling."""
    assert syncs.answer(recorded(name)) is None


def test_a_cpu_does_not_wait_for_a_gpu_that_is_not_there() -> None:
    """On a CPU computing is the work: neither it nor an `.item()` is held against the steps."""
    trace = TraceBuilder()
    for number in range(3):
        at = 1_000 * number
        trace.step(number, at, 900).op("aten::linear", at + 10, 800).op("aten::item", at + 820, 5)
    assert syncs.answer(trace.run()) is None


def test_unknown_without_runtime_calls() -> None:
    """Kernels in a file without any runtime call: whether the CPU waited cannot be known."""
    answer = syncs.answer(TraceBuilder().op("aten::mm", 0, 10).kernel("k", 5, 5).run())
    assert answer is not None
    assert answer.verdict == "unknown"


def test_longer_waits_are_followed() -> None:
    """Each stream synchronize takes 500 µs more, and the sentence says so."""

    def longer(event: dict[str, Any]) -> dict[str, Any]:
        stretched = ("cudaStreamSynchronize", "aten::item", "aten::_local_scalar_dense")
        return {**event, "dur": event["dur"] + 500} if event.get("name") in stretched else event

    answer = syncs.answer(mutated("mlp_sync_and_pageable_copy", longer))
    assert answer is not None
    assert "aten::item: cudaStreamSynchronize 507 to 508 µs" in answer.sentence


def test_advice_counts_the_idle_gpu() -> None:
    """Two of three waits of 1.3 ms lie between GPU events: advice saves their idle time, a third of it a step."""
    built = TraceBuilder()
    for i in range(3):
        start = 2_000 * i
        built.step(i, start, 1_900).op("aten::mm", start, 50).kernel("k", start + 60, 40, launch=(start + 10, 5))
        built.op("aten::item", start + 100, 1_500).call("cudaStreamSynchronize", start + 110, 1_300)
    answer = syncs.answer(built.run())
    assert answer is not None
    assert answer.advice is not None
    assert answer.advice.saves_ns == 866_666
    assert "aten::item" in answer.advice.text
