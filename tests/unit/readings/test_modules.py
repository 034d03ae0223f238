from __future__ import annotations

from typing import TYPE_CHECKING, Any

from build import BACKWARD, MAIN, TraceBuilder
from mutate import mutated

from foretrace.readings import modules

if TYPE_CHECKING:
    from collections.abc import Callable

    from foretrace.run import Run


def _training(*, flow: bool, sequence: bool) -> TraceBuilder:
    """A linear in a block, forward on one thread and backward on another; an optimizer's kernel outside."""
    number = {"Sequence number": 5} if sequence else {}
    built = TraceBuilder().step(1, 0, 1_000)
    built.annotation("nn.Module: block", 10, 200).annotation("nn.Module: gate_proj", 20, 100)
    built.op("aten::mm", 30, 50, **number).kernel("fwd", 60, 30, launch=(40, 5))
    built.op("aten::gelu", 130, 50).kernel("gelu", 170, 10, launch=(140, 5))
    built.op("autograd::engine::evaluate_function: MmBackward0", 300, 100, thread=BACKWARD, **number)
    built.kernel("bwd", 350, 40, launch=(320, 5), thread=BACKWARD)
    built.op("aten::_foreach_add_", 500, 50).kernel("adam", 560, 20, launch=(510, 5))
    return built.flow("fwdbwd", 1, 30, 300, (MAIN, BACKWARD)) if flow else built


def test_training_by_module(recorded: Callable[[str], Run]) -> None:
    """Python stacks name the modules; backward work returns to the module of its forward op."""
    answer = modules.answer(recorded("train_mlp_eager"))
    assert answer is not None
    assert answer.sentence == (
        "By module, GPU time a step: GeGLU_0 itself 181 µs (68.7 µs forward, 112 µs backward), Linear_2 164 µs (51.3 "
        "µs forward, 112 µs backward), Linear_1 163 µs (56.5 µs forward, 107 µs backward); 17.0 % of GPU time lies "
        "outside any module. Backward work is put to its forward op's module."
    )
    assert [row["module"] for row in answer.evidence] == [
        "GeGLU_0",
        "GeGLU_0 › Linear_0",
        "GeGLU_0 › Linear_1",
        "GeGLU_0 › Linear_2",
    ]


def test_flow_and_sequence_number_lead_to_the_same_module() -> None:
    """The ``fwdbwd`` arrow, or the sequence number where there is none, puts backward work to its module."""
    for built in (_training(flow=True, sequence=False), _training(flow=False, sequence=True)):
        answer = modules.answer(built.run())
        assert answer is not None
        block, gate = answer.evidence
        assert (gate["module"], gate["forward_ns"], gate["backward_ns"]) == ("block › gate_proj", 30_000, 40_000)
        assert (block["own_ns"], block["total_ns"]) == (10_000, 80_000)
        assert "20.0 % of GPU time lies outside any module" in answer.sentence


def test_forward_only_says_so() -> None:
    """Without arrow and number, backward work is outside the modules and the answer is about forward."""
    answer = modules.answer(_training(flow=False, sequence=False).run())
    assert answer is not None
    assert "Forward work only." in answer.sentence
    assert "60.0 % of GPU time lies outside any module" in answer.sentence


def test_silent_without_names_and_unknown_without_work(recorded: Callable[[str], Run]) -> None:
    """No module scope raises no question; scopes in which nothing was launched cannot be told apart."""
    assert modules.answer(recorded("mlp_64x128x768x3072_eager")) is None
    built = TraceBuilder().annotation("nn.Module: gate_proj", 0, 50).kernel("k", 110, 5, launch=(100, 5))
    answer = modules.answer(built.run())
    assert answer is not None
    assert answer.verdict == "unknown"


def test_renamed_modules_and_longer_kernels_are_followed() -> None:
    """The names are the file's, and the order is by time."""

    def changed(event: dict[str, Any]) -> dict[str, Any]:
        if event.get("name") == "nn.Module: Linear_0":
            return {**event, "name": "nn.Module: Gate"}
        return event

    answer = modules.answer(mutated("train_mlp_eager", changed))
    assert answer is not None
    assert answer.evidence[1]["module"] == "GeGLU_0 › Gate"
