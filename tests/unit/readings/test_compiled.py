from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from build import TraceBuilder
from mutate import mutated

from foretrace.readings import compiled
from foretrace.readings.compiling import compiling

if TYPE_CHECKING:
    from collections.abc import Callable

    from foretrace.readings import Answer
    from foretrace.run import Run


def _answer(run: Run) -> Answer:
    answer = compiled.answer(run)
    assert answer is not None
    return answer


def test_what_compiled_calls_add_and_fuse(recorded: Callable[[str], Run]) -> None:
    """Dynamo's lookup, bytecode and prologue on the host; GELU and mul in one kernel; the GEMMs left alone."""
    answer = _answer(recorded("mlp_64x128x768x3072_compiled"))
    assert answer.verdict == "compiled"
    assert answer.sentence == (
        "Fused kernels and the ops inside: triton_poi_fused__unsafe_view_gelu_mul_0 (gelu, mul). 3 GEMMs a step left "
        "to the library as before. Compiled calls add on the host, a step: Dynamo cache lookup (checks the guards) "
        "12.1 µs, pregraph bytecode (Python before the graph) 5.08 µs, AOTDispatcher prologue (prepares inputs) "
        "6.34 µs."
    )


def test_the_launch_that_the_autotuner_chose(recorded: Callable[[str], Run]) -> None:
    """8192×3072 elements by 1,024 a block: 24,576 blocks; four warps are 128 threads."""
    rows = _answer(recorded("mlp_64x128x768x3072_compiled")).evidence
    (fused,) = (row for row in rows if row["what"] == "fused kernel")
    assert (fused["grid"], fused["block"]) == ([24_576, 1, 1], [128, 1, 1])
    assert fused["detail"].endswith("gelu, mul; 24,576 blocks of 128 threads")


def test_nothing_fused(recorded: Callable[[str], Run]) -> None:
    """A compiled linear layer runs the same GEMM and only adds work on the host."""
    answer = _answer(recorded("linear_1024x32x64_compiled"))
    assert answer.sentence.startswith("Nothing was fused, 1 GEMM a step left to the library as before.")


def test_recompiles_of_the_trace(recorded: Callable[[str], Run]) -> None:
    """3 recompiles are 87 % of the steps, autotuning beside them 11 %, and most kernels are the autotuner's."""
    answer = _answer(recorded("mlp_recompiles"))
    assert answer.verdict == "recompiling"
    assert answer.sentence.startswith(
        "3 recompiles of 612.1 / 555.1 / 502.5 ms take 87.0 % of the steps, autotuning beside them another 11.3 %. "
        "616 / 624 / 624 of the 621 / 629 / 629 kernels a step are the autotuner's"
    )
    assert answer.advice is not None
    assert "dynamic" in answer.advice.text
    assert answer.advice.saves_ns == pytest.approx(629e6, rel=0.001)


def test_what_ran_in_one_step_of_three_is_counted_so(recorded: Callable[[str], Run]) -> None:
    """Each recompilation generates a kernel of its own, which then runs in a third of the steps."""
    rows = [row for row in _answer(recorded("mlp_recompiles")).evidence if row["what"] == "fused kernel"]
    assert [round(row["count"], 3) for row in rows] == [0.333] * 3


def test_static_input_copy_of_a_graph(recorded: Callable[[str], Run]) -> None:
    """16.3 µs a step, 7.4 % of GPU busy, go into the graph's input."""
    answer = _answer(recorded("mlp_64x128x768x3072_cudagraph"))
    assert "copies its inputs to the graph's fixed addresses: 16.3 µs a step, 7.41 % of GPU busy" in answer.sentence
    assert answer.advice is not None
    assert answer.advice.saves_ns == 16_330


def test_a_templates_origins_may_have_run_elsewhere(recorded: Callable[[str], Run]) -> None:
    """The name of the last template lists gelu and mul, which another kernel did."""
    answer = _answer(recorded("mlp_64x128x768x3072_maxautotune"))
    assert "a template's name lists origins that may have run elsewhere" in answer.sentence
    certain = {row["kernel"]: row["ops_certain"] for row in answer.evidence if "ops_certain" in row}
    assert certain == {
        "triton_tem_fused_mm_t_view_0": False,
        "triton_poi_fused__unsafe_view_gelu_mul_1": True,
        "triton_tem_fused__unsafe_view_gelu_mm_mul_t_view_2": False,
    }


@pytest.mark.parametrize("name", ["mlp_64x128x768x3072_eager", "sdpa", "train_mlp_eager", "ddp_rank0"])
def test_silent_on_eager_traces(recorded: Callable[[str], Run], name: str) -> None:
    """Nothing compiled, nothing to say."""
    assert compiled.answer(recorded(name)) is None


def test_several_regions_a_step_are_graph_breaks() -> None:
    """Two compiled code objects in each step: one break, or two functions."""
    builder = TraceBuilder()
    for i in range(2):
        at = 1_000 * i
        builder.step(i, at, 900).op("Torch-Compiled Region: 0/0", at + 1, 100)
        builder.op("Torch-Compiled Region: 1/0", at + 200, 100)
    assert "2 compiled regions a step: 1 graph break, or functions compiled apart" in _answer(builder.run()).sentence


def test_first_compilation_is_no_recompile() -> None:
    """Version 0 of a code object was never compiled before; half of the step goes to it."""
    builder = TraceBuilder().step(0, 0, 1_000).op("dynamo", 10, 600).op("entire_frame_compile", 20, 500)
    answer = _answer(builder.op("Torch-Compiled Region: 0/0", 700, 100).run())
    assert answer.sentence.startswith("1 compilation of 0.6 ms take 60.0 % of the steps")
    assert answer.advice is not None
    assert "Warm up" in answer.advice.text


def test_nested_compile_events_count_once() -> None:
    """Dynamo's phases lie inside each other; the outermost is the compilation."""
    builder = TraceBuilder().step(0, 0, 1_000).op("dynamo", 10, 600).op("entire_frame_compile", 20, 500)
    seen = compiling(builder.op("_compile.compile_inner (dynamo_timed)", 30, 400).run())
    assert (seen.compile_ns, seen.dominates) == ((600_000,), True)


def test_recompiles_follow_the_trace() -> None:
    """Without the compilations' events the trace is an ordinary compiled one."""

    def warmed(event: dict[str, Any]) -> dict[str, Any] | None:
        compiles = ("dynamo", "entire_frame", "_compile", "CachingAutotuner")
        return None if event["name"].startswith(compiles) else event

    answer = _answer(mutated("mlp_recompiles", warmed))
    assert answer.verdict == "compiled"
    assert "recompile" not in answer.sentence
