from __future__ import annotations

from typing import TYPE_CHECKING, Any

from build import TraceBuilder
from mutate import mutated

from foretrace.readings import kernels

if TYPE_CHECKING:
    from collections.abc import Callable

    from foretrace.readings import Answer
    from foretrace.run import Run


def _answer(run: Run) -> Answer:
    answer = kernels.answer(run)
    assert answer is not None
    return answer


def test_eager_mlp(recorded: Callable[[str], Run]) -> None:
    """Five kernels a step in order of launch, medians and shares of kernel time; memsets stand beside."""
    answer = _answer(recorded("mlp_64x128x768x3072_eager"))
    assert answer.sentence == (
        "5 kernels a step take 232 µs of GPU time: 3 GEMMs 70.2 %, 2 pointwise kernels 29.8 %. Beside them 2 memsets a "
        "step."
    )
    assert [row["op"] for row in answer.evidence] == ["aten::mm", "aten::gelu", "aten::mm", "aten::mul", "aten::mm"]
    assert [row["median_ns"] for row in answer.evidence] == [55_744, 32_352, 55_807, 36_416, 50_880]
    assert round(sum(row["share"] for row in answer.evidence), 9) == 1.0


def test_helper_stands_under_its_gemm(recorded: Callable[[str], Run]) -> None:
    """The split-K reduction follows the down projection and says whom it helps."""
    down, helper = _answer(recorded("mlp_1x1x768x3072_eager")).evidence[-2:]
    assert (down["op_class"], helper["helper_of"]) == ("gemm", "gemm")
    assert helper["kernel"].startswith("└ ")
    assert helper["shapes"] == down["shapes"]


def test_many_kernels_are_put_together(recorded: Callable[[str], Run]) -> None:
    """182 kernels a step are a dozen lines and a rest; together they are all of the time."""
    answer = _answer(recorded("llama4_prefill"))
    assert answer.sentence.startswith("182 kernels a step take 1.22 ms of GPU time: 30 GEMMs ")
    assert len(answer.evidence) == 13
    assert answer.evidence[-1]["kernel"].endswith("more kinds")
    assert round(sum(row["share"] for row in answer.evidence), 9) == 1.0
    assert round(sum(row["count"] for row in answer.evidence)) == 182


def test_autotuners_trials_are_set_apart(recorded: Callable[[str], Run]) -> None:
    """616 / 624 / 624 of the 621 / 629 / 629 kernels a step are trials; five are the model's own."""
    answer = _answer(recorded("mlp_recompiles"))
    assert answer.sentence.startswith(
        "621 / 629 / 629 kernels a step, of which 616 / 624 / 624 are an autotuner's trial runs; the model's own are 5 "
        "kernels and "
    )
    assert answer.evidence[-1]["kernel"].startswith("autotuner's trials")


def test_figures_follow_the_trace() -> None:
    """Twice the kernel time, no memset: twice the time in the sentence and nothing beside it."""

    def slower(event: dict[str, Any]) -> dict[str, Any] | None:
        if event.get("cat") == "gpu_memset":
            return None
        return {**event, "dur": event["dur"] * 2} if event.get("cat") == "kernel" else event

    sentence = _answer(mutated("mlp_64x128x768x3072_eager", slower)).sentence
    assert sentence == "5 kernels a step take 464 µs of GPU time: 3 GEMMs 70.2 %, 2 pointwise kernels 29.8 %."


def test_unknown_names_are_counted_as_such() -> None:
    """A kernel that no grammar knows keeps its name; without steps figures are of the whole trace."""
    answer = _answer(TraceBuilder().kernel("my_kernel", 0, 10).kernel("my_kernel", 20, 30).run())
    assert answer.sentence == ("2 kernels in this trace take 40.0 µs of GPU time: 2 kernels of unknown kind 100 %.")
    assert [row["kernel"] for row in answer.evidence] == ["my_kernel", "my_kernel"]


def test_silent_without_kernels() -> None:
    """A trace of the CPU alone raises no such question."""
    assert kernels.answer(TraceBuilder().op("aten::mm", 0, 10).run()) is None
