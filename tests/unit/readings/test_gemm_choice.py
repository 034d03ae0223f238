from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from build import TraceBuilder
from mutate import mutated

from foretrace.readings import gemm_choice

if TYPE_CHECKING:
    from collections.abc import Callable

    from foretrace.readings import Answer
    from foretrace.run import Run

BF16 = "c10::BFloat16"
GEMM = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT"


def _answer(run: Run) -> Answer:
    answer = gemm_choice.answer(run)
    assert answer is not None
    return answer


def test_the_table_of_the_eager_mlp(recorded: Callable[[str], Run]) -> None:
    """Shapes, FLOPs, tile, stages and waves on 132 SMs, worked out by hand: 64·12, 64·12 and 64·4 tiles."""
    rows = _answer(recorded("mlp_64x128x768x3072_eager")).evidence
    assert [row["product"] for row in rows] == [
        "[8192, 768]×[768, 3072]",
        "[8192, 768]×[768, 3072]",
        "[8192, 3072]×[3072, 768]",
    ]
    assert [row["flops"] for row in rows] == [38_654_705_664] * 3
    assert [(row["tile"], row["stages"]) for row in rows] == [("256×128", 4), ("256×128", 4), ("192×128", 5)]
    assert [round(row["waves"], 2) for row in rows] == [5.82, 5.82, 1.94]
    assert [row["mean_ns"] for row in rows] == [55_882, 56_010, 50_976]
    assert [round(100 * row["of_limit"]) for row in rows] == [70, 70, 77]


def test_why_there_are_two_kinds(recorded: Callable[[str], Run]) -> None:
    """Same FLOPs; the narrower tile fills the last wave of the narrow output, and K is four times as long."""
    assert _answer(recorded("mlp_64x128x768x3072_eager")).sentence == (
        "Same FLOPs, two kernels: [8192, 768]×[768, 3072] gets a 256×128 tile, [8192, 3072]×[3072, 768] gets a "
        "192×128 tile, at a rate 9.88 % higher. On 8192×768 outputs 192×128 tiles fill 1.94 waves of 132 SMs where "
        "256×128 tiles would fill 1.45: less of the last wave idles. Each of the faster one's tiles runs 48 K steps "
        "against 12, so that filling and draining the pipeline weighs less."
    )


def test_split_k_is_explained(recorded: Callable[[str], Run]) -> None:
    """One row and 768 columns are 12 tiles for 132 SMs, and K is long."""
    sentence = _answer(recorded("mlp_1x1x768x3072_eager")).sentence
    assert "1×768 outputs are only 12 tiles for 132 SMs while K = 3072 is long, so the library splits K" in sentence


def test_a_helpers_time_counts_with_its_product(recorded: Callable[[str], Run]) -> None:
    """Four split-K products take 18.8 µs a step and their reductions 6.62: 23.1 MFLOP each, 3.63 TFLOP/s together."""
    answer = _answer(recorded("llama4_decode1"))
    row = next(row for row in answer.evidence if row["product"] == "[4, 2816]×[2816, 1024]")
    assert (row["count"], row["flops"], row["helper_ns"]) == (4, 23_068_672, 6_624)
    assert row["mean_ns"] == pytest.approx(25_440, abs=50)
    assert row["flops_per_s"] == pytest.approx(4 * 23_068_672 / 25_440e-9, rel=0.01)
    assert row["kernel"].endswith("+ cuBLASLt split-K reduction")
    assert "in a kernel of its own, whose 6.62 µs a step count here" in answer.sentence
    others = [other for other in answer.evidence if other is not row]
    assert {other["helper_ns"] for other in others} == {0}


def test_helpers_in_a_graph_count_too(recorded: Callable[[str], Run]) -> None:
    """The split-K product of a replayed MLP takes 6.02 µs with its reduction; the other two have none."""
    rows = _answer(recorded("mlp_1x1x768x3072_cudagraph")).evidence
    assert [row["helper_ns"] > 0 for row in rows] == [False, False, True]
    assert [round(row["mean_ns"] / 1_000, 2) for row in rows] == [3.18, 3.22, 6.02]


def test_the_table_counts_kernels_beside_their_flops() -> None:
    """FLOPs are one kernel's and time is the step's, so how many there are stands between them."""
    headers = [column.header for column in _answer(_two_products()).columns]
    assert headers[2:5] == ["FLOPs each", "a step", "µs a step"]


def test_one_product_by_two_kernels_says_what_differs(recorded: Callable[[str], Run]) -> None:
    """The same sizes twice: the operands' layouts differ, or the trace does not say what does."""
    sentence = _answer(recorded("ddp_straggler_rank0")).sentence
    assert "Their operands lie differently in memory (layouts TNT and NTN)." in sentence
    alike = _answer(_two_products()).sentence
    assert alike.startswith("Same product, two kernels: ")
    assert alike.endswith("Why the library chose so is not in the trace.")


def test_strides_tell_what_the_names_do_not() -> None:
    """The second product's right operand is stored transposed, and its kernel's name has the same layout."""
    sentence = _answer(_two_products([[1024, 1], [4096, 1]], [[1024, 1], [1, 1024]])).sentence
    assert sentence.endswith("(strides [1024, 1]×[4096, 1] and [1024, 1]×[1, 1024]).")


def _two_products(*strides: list[list[int]]) -> Run:
    """One product twice, by kernels that differ in their tile alone, each as fast; with the strides of each."""
    built = TraceBuilder(device="Some GPU")
    for i, name in enumerate((GEMM, GEMM.replace("256x128", "128x256"))):
        at = 100 * i
        lying = {"Input Strides": strides[i]} if strides else {}
        built.op("aten::mm", at, 50, dims=[[4096, 1024], [1024, 4096]], types=[BF16, BF16], **lying)
        built.kernel(name, at + 20, 30, launch=(at + 5, 5))
    return built.run()


def test_batched_products(recorded: Callable[[str], Run]) -> None:
    """Scores and values of 64 heads, with the batch in front."""
    rows = _answer(recorded("attention_naive")).evidence
    assert [row["product"] for row in rows] == ["64×[1024, 64]×[64, 1024]", "64×[1024, 1024]×[1024, 64]"]
    assert [row["flops"] for row in rows] == [8_589_934_592] * 2


def test_sizes_in_a_graph_are_inferred(recorded: Callable[[str], Run]) -> None:
    """The products inside a graph are labelled."""
    rows = _answer(recorded("mlp_64x128x768x3072_cudagraph")).evidence
    assert [(row["m"], row["n"], row["k"], row["work"]) for row in rows] == [
        (8192, 3072, 768, "inferred"),
        (8192, 3072, 768, "inferred"),
        (8192, 768, 3072, "inferred"),
    ]


def test_templates_have_their_sizes_from_their_pointers(recorded: Callable[[str], Run]) -> None:
    """Triton templates name no tile; their products are known."""
    rows = _answer(recorded("mlp_64x128x768x3072_maxautotune")).evidence
    assert [(row["m"], row["n"], row["k"], row["tile"]) for row in rows] == [
        (8192, 3072, 768, None),
        (8192, 3072, 768, None),
        (8192, 768, 3072, None),
    ]


def test_one_kind_of_kernel(recorded: Callable[[str], Run]) -> None:
    """Nothing to compare where one kernel does every product."""
    sentence = _answer(recorded("linear_8192x4096x4096_eager")).sentence
    assert sentence.startswith("One matrix product, one kernel: [8192, 4096]×[4096, 4096] gets a 256×128 tile.")


def test_names_and_shapes_move_the_answer() -> None:
    """Down in gate's kernel and with half of its columns: one kind, half of the FLOPs."""

    def change(event: dict[str, Any]) -> dict[str, Any]:
        if event["name"].startswith("nvjet"):
            return {**event, "name": GEMM}
        args = event.get("args", {})
        if event["name"] == "aten::mm" and args.get("Input Dims") == [[8192, 3072], [3072, 768]]:
            return {**event, "args": {**args, "Input Dims": [[8192, 3072], [3072, 384]], "Input Strides": None}}
        return event

    answer = _answer(mutated("mlp_64x128x768x3072_eager", change))
    assert answer.sentence.startswith("3 matrix products in 1 kind of kernel")
    assert answer.evidence[2]["flops"] == 19_327_352_832
    assert round(answer.evidence[2]["waves"], 2) == 0.97


def test_unknown_without_shapes() -> None:
    """A product of unknown sizes is a row without figures."""
    answer = _answer(TraceBuilder().kernel(GEMM, 0, 10).run())
    assert answer.verdict == "unknown"
    assert (answer.evidence[0]["product"], answer.evidence[0]["waves"]) == (None, None)


def test_silent_without_products() -> None:
    """No GEMM, no question."""
    assert gemm_choice.answer(TraceBuilder().kernel("my_kernel", 0, 10).run()) is None


@pytest.mark.parametrize(
    ("dims", "said"),
    [
        (None, "20 matrix products a step in 1 kind of kernel; why is unknown"),
        ([[8, 8], [8, 8]], "20 matrix products of one shape a step, one kernel: "),
    ],
)
def test_products_are_counted_by_their_launches(dims: list[list[int]] | None, said: str) -> None:
    """Twenty launches of one kernel a step are twenty products, whether or not their shapes are recorded."""
    built = TraceBuilder().step(0, 0, 900).step(1, 1000, 900)
    for i in range(40):
        start = 1000 * (i // 20) + 40 * (i % 20)
        built.op("aten::mm", start, 20, dims=dims).kernel(GEMM, start + 10, 20, launch=(start + 2, 3))
    assert _answer(built.run()).sentence.startswith(said)
