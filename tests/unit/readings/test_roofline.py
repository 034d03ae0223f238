from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from build import TraceBuilder
from mutate import mutated

from foretrace.readings import roofline

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from foretrace.readings import Answer
    from foretrace.run import Run


def _answer(run: Run) -> Answer:
    answer = roofline.answer(run)
    assert answer is not None
    return answer


def _gemm_rates(answer: Answer) -> list[float]:
    """TFLOP/s of the products: rows of hundreds of FLOPs a byte."""
    return [row["flops_per_s"] / 1e12 for row in answer.evidence if (row["intensity"] or 0) > 100]


@pytest.mark.parametrize(
    ("variant", "expected", "digits"),
    [
        ("eager", [691.7, 690.1, 758.3], 1),
        ("compiled", [691.6, 640.4, 753.4], 1),
        ("cudagraph", [701.9, 655.4, 754.8], 1),
        ("maxautotune", [585, 575, 584], 0),
    ],
)
def test_tflops_of_the_mlps_products(
    recorded: Callable[[str], Run], variant: str, expected: Sequence[float], digits: int
) -> None:
    """Means over the three steps, the kernels alone."""
    rates = _gemm_rates(_answer(recorded(f"mlp_64x128x768x3072_{variant}")))
    assert [round(rate, digits) for rate in rates] == expected


def test_share_of_peak_and_intensity(recorded: Callable[[str], Run]) -> None:
    """69.9 / 69.8 / 76.7 % of bf16's peak at 572 FLOP a byte; GELU and mul at 3.12 and 4.10 TB/s."""
    gate, gelu, up, mul, down = _answer(recorded("mlp_64x128x768x3072_eager")).evidence
    assert [100 * row["of_limit"] for row in (gate, up, down)] == pytest.approx([69.9, 69.8, 76.7], abs=0.06)
    assert [round(row["intensity"]) for row in (gate, up, down)] == [572] * 3
    assert [round(row["bytes_per_s"] / 1e12, 2) for row in (gelu, mul)] == [3.12, 4.10]
    assert [row["bound"] for row in (gate, gelu, mul)] == ["compute", "memory", "memory"]


def test_sentence_has_the_ceilings_and_the_ridge(recorded: Callable[[str], Run]) -> None:
    """Rates, shares and the device's limits in one sentence."""
    sentence = _answer(recorded("mlp_64x128x768x3072_eager")).sentence
    assert "GEMMs reach 690 to 758 TFLOP/s" in sentence
    assert "bf16's 989 TFLOP/s, beyond the ridge at 206 FLOP/B" in sentence
    assert "memory-bound kernels move 3.12 to 4.10 TB/s" in sentence


def test_sizes_concluded_in_graphs_are_labelled(recorded: Callable[[str], Run]) -> None:
    """A graph's products are inferred, in the sentence and in each row."""
    answer = _answer(recorded("mlp_64x128x768x3072_cudagraph"))
    assert "(sizes inferred)" in answer.sentence
    assert [row["work"] for row in answer.evidence] == ["recorded", *["inferred"] * 4]


def test_small_kernels_are_told_as_such(recorded: Callable[[str], Run]) -> None:
    """At one row nothing comes near a limit."""
    assert "89.5 % of kernel time is in kernels too small" in _answer(recorded("mlp_1x1x768x3072_eager")).sentence


def test_rates_follow_the_times() -> None:
    """Products that take twice as long reach half the rate."""

    def slower(event: dict[str, Any]) -> dict[str, Any]:
        return {**event, "dur": event["dur"] * 2} if event.get("cat") == "kernel" else event

    rates = _gemm_rates(_answer(mutated("mlp_64x128x768x3072_eager", slower)))
    assert [round(rate, 1) for rate in rates] == [345.9, 345.1, 379.1]


def test_unknown_device_has_rates_and_no_shares(recorded: Callable[[str], Run]) -> None:
    """Without ceilings the rates stand alone and the answer says what is missing."""
    answer = _answer(replace(recorded("mlp_64x128x768x3072_eager"), device=None))
    assert answer.verdict == "unknown"
    assert "--device-spec" in answer.sentence
    assert [row["of_limit"] for row in answer.evidence] == [None] * 5
    assert round(answer.evidence[0]["flops_per_s"] / 1e12, 1) == 691.7


def test_unknown_without_shapes() -> None:
    """Kernels without recorded shapes have no rates, and the way to get them is named."""
    answer = _answer(TraceBuilder().kernel("my_kernel", 0, 10).run())
    assert (answer.verdict, answer.evidence) == ("unknown", ())
    assert "record_shapes=True" in answer.sentence


def test_silent_without_kernels() -> None:
    """A trace of the CPU alone raises no such question."""
    assert roofline.answer(TraceBuilder().op("aten::mm", 0, 10).run()) is None
