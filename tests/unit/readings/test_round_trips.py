from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from build import TraceBuilder
from mutate import mutated

from foretrace.readings import round_trips
from foretrace.readings.flow import flow

if TYPE_CHECKING:
    from collections.abc import Callable

    from foretrace.readings import Answer
    from foretrace.run import Run


BF16 = "c10::BFloat16"
GEMM = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT"
MUL = (
    "void at::native::vectorized_elementwise_kernel<8, at::native::BUnaryFunctor<c10::BFloat16, c10::BFloat16, "
    "c10::BFloat16, at::native::binary_internal::MulFunctor<float> >, std::array<char*, 2ul> >(int)"
)
SOFTMAX = "void (anonymous namespace)::softmax_warp_forward<c10::BFloat16, float, float, 10, false, false>(float*)"
COPY = (
    "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::"
    "{lambda()#3}::operator()() const::{lambda()#12}::operator()() const::{lambda(c10::BFloat16)#1}>(int)"
)


def _answer(run: Run) -> Answer:
    answer = round_trips.answer(run)
    assert answer is not None
    return answer


def test_gelu_and_mul_of_the_eager_mlp(recorded: Callable[[str], Run]) -> None:
    """100.663 MB a step, 21.0 µs at 4.8 TB/s; mul runs at 86 % of that, so that L2 held neither of its inputs."""
    answer = _answer(recorded("mlp_64x128x768x3072_eager"))
    row, up = answer.evidence
    assert (up["producer"], up["consumer"], up["kind"], up["l2_bytes"]) == ("mm", "mul", "epilogue", 0)
    assert (row["producer"], row["consumer"], row["bytes"]) == ("gelu", "mul", 50_331_648)
    assert (row["l2_bytes"], row["saved_bytes"], row["saves_ns"]) == (0, 100_663_296, 20_972)
    assert row["inferred"]
    assert answer.sentence == (
        "`gelu` writes 50.3 MB to HBM and `mul` reads them back (inferred from shapes, types and order): fusing them "
        "saves 101 MB a step, 21.0 µs at peak bandwidth. `mm` writes 50.3 MB to HBM and `mul` reads them back: an "
        "epilogue in the GEMM saves 101 MB a step, 21.0 µs at peak bandwidth."
    )
    assert answer.advice is not None
    assert answer.advice.saves_ns == 20_972
    assert "torch.compile" in answer.advice.text


def test_score_matrix_of_naive_attention(recorded: Callable[[str], Run]) -> None:
    """Five trips of 134 MB between the two products; SDPA is the means, and the kernels between go away."""
    answer = _answer(recorded("attention_naive"))
    attention = [row for row in answer.evidence if row["kind"] == "attention"]
    assert {(row["producer"], row["consumer"]) for row in attention} == {
        ("bmm", "div"),
        ("div", "copy_"),
        ("copy_", "masked_fill_"),
        ("masked_fill_", "_softmax"),
        ("_softmax", "bmm"),
    }
    assert [row["bytes"] for row in attention] == [134_217_728] * 5
    assert answer.advice is not None
    assert "scaled_dot_product_attention" in answer.advice.text
    assert answer.advice.saves_ns == pytest.approx(455_000, abs=5_000)
    assert "spares the 3 kernels and 1 copy between, 455 µs and 965 MB beyond L2 a step" in answer.sentence


def test_attention_in_mixed_precision() -> None:
    """Scores scaled in bf16, softmax to fp32 and back to bf16: four trips of one matrix, of two sizes in bytes."""
    scores, probabilities = [64, 1024, 1024], [64, 1024, 64]
    steps = (
        ("aten::bmm", [[64, 1024, 64], [64, 64, 1024]], [BF16, BF16], GEMM, None),
        ("aten::mul", [scores, []], [BF16, "double"], MUL, None),
        ("aten::_softmax", [scores, [], []], [BF16, "Scalar", "Scalar"], SOFTMAX, ["", "-1", "True"]),
        ("aten::copy_", [scores, scores, []], [BF16, "float", "Scalar"], COPY, ["", "", "False"]),
        ("aten::bmm", [scores, probabilities], [BF16, BF16], GEMM, None),
    )
    builder = TraceBuilder()
    for i, (op, dims, types, kernel, concrete) in enumerate(steps):
        values = {"Concrete Inputs": concrete} if concrete else {}
        builder.op(op, 100 * i, 90, dims=dims, types=types, **values)
        builder.kernel(kernel, 100 * i + 20, 70, launch=(100 * i + 5, 5), grid=[4096, 1, 1])
    rows = _answer(builder.run()).evidence
    assert {row["kind"] for row in rows} == {"attention"}
    assert sorted(row["bytes"] for row in rows) == [134_217_728] * 3 + [268_435_456]


@pytest.mark.parametrize(
    ("name", "verdict", "says"),
    [
        ("sdpa", "nothing", "Nothing to fuse"),
        ("linear_8192x4096x4096_eager", "nothing", "Nothing to fuse"),
        ("mlp_1x1x768x3072_eager", "in-cache", "3 tensors a step could stay inside one kernel (mm into gelu, "),
        ("mlp_two_streams", "in-cache", "3 tensors a step could stay inside one kernel (mm into gelu, "),
        ("mlp_4x2048x2048x16384_cudagraph", "unknown", "kernels in a CUDA graph record no shapes"),
    ],
)
def test_nothing_to_fuse_is_an_answer(recorded: Callable[[str], Run], name: str, verdict: str, says: str) -> None:
    """No later reader, tensors that L2 holds, or kernels without shapes: each is said, and nothing is advised."""
    answer = _answer(recorded(name))
    assert (answer.verdict, answer.advice, answer.evidence) == (verdict, None, ())
    assert says in answer.sentence


def test_compiled_mlp_has_only_the_gemms_result_left(recorded: Callable[[str], Run]) -> None:
    """GELU and mul are one kernel: what is left needs an epilogue, and torch.compile is not the advice."""
    answer = _answer(recorded("mlp_64x128x768x3072_compiled"))
    assert {row["kind"] for row in answer.evidence} == {"epilogue"}
    assert answer.advice is not None
    assert "torch.compile" not in answer.advice.text


def test_a_chain_that_l2_holds_is_named_beside_the_epilogue() -> None:
    """Gate, up, GELU, mul, with mul faster than HBM: L2 held what GELU hands on; a compiler fuses the two still."""

    def faster(event: dict[str, Any]) -> dict[str, Any]:
        return {**event, "dur": 25.0} if event.get("cat") == "kernel" and "MulFunctor" in event["name"] else event

    advice = _answer(mutated("geglu_eager", faster)).advice
    assert advice is not None
    assert advice.text == (
        "Let the GEMM finish the work of mul before it stores, as a fused layer does; torch.compile at least fuses "
        "gelu into mul."
    )


def test_a_reader_at_the_speed_of_memory_had_nothing_from_l2(recorded: Callable[[str], Run]) -> None:
    """Gate, up, GELU, mul: mul follows GELU at once, yet takes 37.0 µs where HBM needs 31.5: it read GELU's result."""
    answer = _answer(recorded("geglu_eager"))
    chain = answer.evidence[0]
    assert (chain["producer"], chain["consumer"], chain["l2_bytes"], chain["saves_ns"]) == ("gelu", "mul", 0, 20_972)
    assert answer.advice is not None
    assert answer.advice.text.startswith("Fuse gelu into mul (torch.compile or a fused layer)")


def test_a_slow_reader_says_nothing_of_l2() -> None:
    """Mul at a third of its rate is held up by something else: what L2 held is told from the order alone."""

    def slower(event: dict[str, Any]) -> dict[str, Any]:
        return {**event, "dur": 110.0} if event.get("cat") == "kernel" and "MulFunctor" in event["name"] else event

    assert [row["producer"] for row in _answer(mutated("geglu_eager", slower)).evidence] == ["mm"]


def test_products_are_never_fused_into_products(recorded: Callable[[str], Run]) -> None:
    """Mul's result feeds the down projection and is no round trip to spare."""
    run = recorded("mlp_64x128x768x3072_eager")
    pairs = {(run.activity(t.producer).op, run.activity(t.consumer).op) for t in flow(run).trips}
    assert ("aten::mul", "aten::mm") in pairs
    assert all(row["consumer"] != "mm" for row in _answer(run).evidence)


def test_flow_follows_views_and_takes_the_latest(recorded: Callable[[str], Run]) -> None:
    """Gate's [8192, 3072] is GELU's [64, 128, 3072]; mul takes GELU's result and up's, not gate's."""
    run = recorded("mlp_64x128x768x3072_eager")
    order = {kernel: position for position, kernel in enumerate(flow(run).order)}
    trips = {(order[t.producer], order[t.consumer]) for t in flow(run).trips}
    assert trips == {(0, 1), (1, 3), (2, 3), (3, 4)}


def test_figures_follow_the_shapes() -> None:
    """Half of the hidden width: half of the tensor; up's smaller GEMM leaves part of it in L2."""

    def half(event: dict[str, Any]) -> dict[str, Any]:
        args = event.get("args", {})
        if "Input Dims" not in args:
            return event
        dims = [[1536 if size == 3072 else size for size in shape] for shape in args["Input Dims"]]
        return {**event, "args": {**args, "Input Dims": dims, "Input Strides": None}}

    (row,) = _answer(mutated("mlp_64x128x768x3072_eager", half)).evidence
    # up's product moves 2·(8192·768 + 768·1536 + 8192·1536) = 40,108,032 bytes of L2's 62,914,560
    assert (row["bytes"], row["l2_bytes"], row["saved_bytes"]) == (25_165_824, 22_806_528, 4_718_592)


def test_unknown_bandwidth(recorded: Callable[[str], Run]) -> None:
    """Bytes are known, their time is not: fusing is advised without a price, and how to get one is said."""
    answer = _answer(replace(recorded("mlp_64x128x768x3072_eager"), device=None))
    assert answer.verdict == "unknown"
    assert "no bandwidth is known" in answer.sentence
    assert answer.advice is not None
    assert answer.advice.saves_ns is None
    assert answer.advice.text == (
        "Fuse gelu into mul: 101 MB a step need not go to memory and back. What that saves is unknown without the "
        "device's limits (--device-spec)."
    )


def test_silent_without_kernels() -> None:
    """A trace of the CPU alone raises no such question."""
    assert round_trips.answer(TraceBuilder().op("aten::mm", 0, 10).run()) is None
