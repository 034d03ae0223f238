from __future__ import annotations

from typing import TYPE_CHECKING, Any

from build import TraceBuilder
from mutate import mutated

from foretrace.readings import metadata

if TYPE_CHECKING:
    from collections.abc import Callable

    from foretrace.run import Run


def test_views_and_bookkeeping_of_the_mlp(recorded: Callable[[str], Run]) -> None:
    """Three linears make 18 calls a step that launch nothing: t, transpose, as_strided, reshape, view, _unsafe_view."""
    answer = metadata.answer(recorded("mlp_64x128x768x3072_eager"))
    assert answer is not None
    assert answer.sentence == "18 ops a step launch nothing (aten::t, aten::transpose, …): 41.3 µs of CPU."
    assert {row["op"]: row["count"] for row in answer.evidence} == {
        "aten::t": 3,
        "aten::transpose": 3,
        "aten::as_strided": 3,
        "aten::reshape": 3,
        "aten::view": 3,
        "aten::_unsafe_view": 3,
    }


def test_ops_that_compute_on_the_cpu_stand_apart(recorded: Callable[[str], Run]) -> None:
    """``aten::randn`` on a CPU tensor launches nothing and is no bookkeeping."""
    answer = metadata.answer(recorded("mlp_sync_and_pageable_copy"))
    assert answer is not None
    assert (
        "2 ops a step compute on the CPU and launch nothing (aten::normal_ and aten::randn): 4.01 ms" in answer.sentence
    )


def test_an_op_that_launches_through_another_is_not_counted() -> None:
    """Only ops with no launch anywhere inside count, each with its own time."""
    built = TraceBuilder().op("aten::linear", 0, 100).op("aten::t", 5, 20).op("aten::transpose", 10, 8)
    built.op("aten::mm", 40, 50).kernel("k", 80, 5, launch=(50, 4))
    answer = metadata.answer(built.run())
    assert answer is not None
    assert answer.sentence == "2 ops in this trace launch nothing (aten::t and aten::transpose): 20.0 µs of CPU."
    assert [(row["op"], row["self_ns"]) for row in answer.evidence] == [("aten::t", 12_000), ("aten::transpose", 8_000)]


def test_removed_and_renamed_views_are_followed() -> None:
    """Without one kind of view the count falls by its three calls; a renamed one is told by its new name."""

    def changed(event: dict[str, Any]) -> dict[str, Any] | None:
        if event.get("name") == "aten::_unsafe_view":
            return None
        return {**event, "name": "my::view"} if event.get("name") == "aten::t" else event

    answer = metadata.answer(mutated("mlp_64x128x768x3072_eager", changed))
    assert answer is not None
    assert answer.sentence.startswith("15 ops a step launch nothing (my::view, aten::transpose, …): 36.6 µs")


def test_silent_without_gpu_work_or_without_quiet_ops() -> None:
    """On the CPU every op launches nothing, and that is no news; neither is a trace whose every op launches."""
    assert metadata.answer(TraceBuilder(device=None).op("aten::t", 0, 10).run()) is None
    assert metadata.answer(TraceBuilder().op("aten::mm", 0, 50).kernel("k", 60, 5, launch=(10, 4)).run()) is None
