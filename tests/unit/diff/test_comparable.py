"""When times of two runs say nothing about the change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from foretrace.diff import diff

if TYPE_CHECKING:
    from collections.abc import Callable

    from foretrace.run import Run

    Build = Callable[..., Run]

GEMM = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT"
SLOW, FAST = 50.0, 20.0


def _gemm(rows: int, micros: float, columns: int = 128) -> list[list[tuple[str, str, Any, float]]]:
    return [[("aten::mm", GEMM, [[rows, 64], [64, columns]], micros)]] * 5


def test_alike_runs_are_comparable(built: Build) -> None:
    """The same work on the same device: a verdict."""
    found = diff(built(_gemm(256, SLOW)), built(_gemm(256, FAST)))
    assert found.comparable
    assert found.why_not == ()
    assert found.steps.verdict == "faster"


def test_another_device_withholds_the_verdict_unless_anyway(built: Build) -> None:
    """An A100 against a V100: listed first, figures given, no verdict; with ``anyway`` the verdict, still listed."""
    before, after = built(_gemm(256, FAST), device="NVIDIA A100"), built(_gemm(256, SLOW), device="Tesla V100")
    found = diff(before, after)
    assert not found.comparable
    assert found.why_not == ("other device: NVIDIA A100 before, Tesla V100 after",)
    assert not found.steps.significant
    assert found.sentence.startswith("Not comparable: other device")
    assert "Slower" not in found.sentence
    assert found.steps.ratio == 2.5
    anyway = diff(before, after, anyway=True)
    assert (anyway.comparable, anyway.steps.verdict) == (False, "slower")
    assert anyway.sentence.startswith("Compared anyway: other device")


def test_another_world_size(built: Build) -> None:
    """Eight ranks against two."""
    found = diff(
        built(_gemm(256, FAST), distributedInfo={"rank": 3, "world_size": 8}),
        built(_gemm(256, FAST), distributedInfo={"rank": 1, "world_size": 2}),
    )
    assert found.why_not == ("other world size: 8 before, 2 after",)


def test_one_process_against_many(built: Build) -> None:
    """A trace that knows of no group is not known to be one of two ranks."""
    found = diff(built(_gemm(256, FAST)), built(_gemm(256, FAST), distributedInfo={"rank": 0, "world_size": 2}))
    assert found.why_not == ("other world size: unknown before, 2 after",)


def test_another_torch(built: Build) -> None:
    """Versions come from the file that capture writes beside the trace."""
    envs = [{"versions": {"torch": version}} for version in ("2.11.0", "2.12.1")]
    found = diff(built(_gemm(256, FAST), env=envs[0]), built(_gemm(256, FAST), env=envs[1]))
    assert found.why_not == ("other torch version: 2.11.0 before, 2.12.1 after",)


def test_another_batch_is_other_shapes(built: Build) -> None:
    """No product of one side has the size of one of the other."""
    found = diff(built(_gemm(256, SLOW)), built(_gemm(32, FAST)))
    assert found.why_not == ("other shapes: 0.00419 GFLOP a step in matrix products before, 0.000524 GFLOP after",)


def test_two_projections_in_one_product_stay_comparable(built: Build) -> None:
    """Gate and up as one GEMM of twice the width: other shapes, the same products of that depth in all."""
    before = [[*_gemm(256, FAST)[0], *_gemm(256, FAST)[0]]] * 5
    found = diff(built(before), built(_gemm(256, FAST, columns=256)))
    assert found.why_not == ()


@pytest.mark.parametrize(("rows", "reasons"), [(256, 0), (128, 1)])
def test_a_kernel_that_holds_a_whole_mlp_has_no_size_of_its_own(built: Build, rows: int, reasons: int) -> None:
    """Three products became one kernel: the same FLOPs in all are the same shapes, and half of them are not."""
    up, down = ("aten::mm", "up", [[256, 64], [64, 128]], FAST), ("aten::mm", "down", [[256, 128], [128, 64]], FAST)
    shapes = [[rows, 64], [128, 64], [128, 64], [64, 128]]
    whole = ("foretrace::gated_mlp", "foretrace_gated_forward", shapes, FAST)
    for pair in (([[up, up, down]] * 5, [[whole]] * 5), ([[whole]] * 5, [[up, up, down]] * 5)):
        assert len(diff(*(built(steps) for steps in pair)).why_not) == reasons
    # of a gated one nobody may have recorded shapes, and then nothing is known against it
    gated = ("quack::gated", "kernel_cutlass_kernel_quackgemm_actGemmGatedSm90_object_at__TiledMMA_0", None, FAST)
    assert diff(built([[gated, down]] * 5), built([[whole]] * 5)).why_not == ()


def test_another_size_of_pointwise_work(built: Build) -> None:
    """Without matrix products the largest tensor decides."""
    steps = [[[("aten::relu", "relu", [[size, 8]], FAST)]] * 5 for size in (4, 16)]
    found = diff(built(steps[0]), built(steps[1]))
    assert found.why_not == ("other shapes: the largest tensor has 32 elements before, 128 after",)


def test_runs_without_anything_in_common(recorded: Callable[[str], Run]) -> None:
    """An MLP against attention: no softmax is in it, so attention is not what became of it; no verdict, both ways."""
    mlp, attention = recorded("mlp_64x128x768x3072_eager"), recorded("sdpa")
    for before, after in ((mlp, attention), (attention, mlp)):
        found = diff(before, after)
        assert found.why_not == ("other work: no kernel of either run does what one of the other does",)
        assert {change.status for change in found.changes} == {"added", "removed"}


def test_a_graph_of_another_size(recorded: Callable[[str], Run]) -> None:
    """What a graph replays has no shapes, but its FLOPs can be inferred: another size is other work."""
    graph = recorded("mlp_4x2048x2048x16384_cudagraph")
    for other in (recorded("mlp_64x128x768x3072_eager"), recorded("linear_8192x4096x4096_eager")):
        for pair in ((graph, other), (other, graph)):
            (reason,) = diff(*pair).why_not
            assert reason.startswith("other shapes: ")
            assert "1,650 GFLOP" in reason
    assert diff(graph, recorded("mlp_4x2048x2048x16384_eager")).why_not == ()


def test_a_gpu_run_against_a_cpu_run(built: Build) -> None:
    """One side has no GPU activity at all."""
    found = diff(built([[]]), built(_gemm(256, FAST)))
    assert found.why_not == ("the after-run works on a GPU, the before-run has no GPU activity",)


def test_steps_against_a_whole_trace(built: Build) -> None:
    """A time a step and a time in all are not compared."""
    whole = built([_gemm(256, FAST)[0]], marks=False)
    found = diff(built(_gemm(256, FAST)), whole)
    assert found.why_not == ("the before-run is divided into steps, the after-run is not",)
    assert (found.before.steps, found.after.steps) == (5, 0)


def test_two_whole_traces_are_compared_without_a_verdict(built: Build) -> None:
    """Without steps there is no spread: the figures stand, and the sentence says why there is no more."""
    found = diff(built([_gemm(256, FAST)[0]], marks=False), built([_gemm(256, SLOW)[0]], marks=False))
    assert found.comparable
    assert found.sentence.startswith(
        "Inconclusive on the GPU: 20.0 → 50.0 µs in all (+150 %), and a trace without steps has no spread to judge by."
    )


def test_where_both_gpus_idle_the_host_decides(built: Build) -> None:
    """A faster kernel in a step that waits for the host: the sentence says so, with bare times where both are known."""
    envs = [{"unprofiled": {"host_ns": ns}} for ns in (80_000, 160_000)]
    runs = [_gemm(256, micros) for micros in (9.0, 3.0)]
    profiled = diff(built(runs[0]), built(runs[1])).sentence
    assert profiled.endswith("so the host decides how long they take: 34.0 → 28.0 µs while profiled.")
    bare = diff(built(runs[0], env=envs[0]), built(runs[1], env=envs[1])).sentence
    assert bare.endswith(
        "The GPU idles for most of both steps, so the host decides how long they take: 80.0 → 160 µs without the "
        "profiler."
    )
    busy = diff(built(_gemm(256, SLOW)), built(_gemm(256, FAST))).sentence
    assert "idles" not in busy


def test_two_cpu_runs_are_told_without_the_profiler(built: Build) -> None:
    """Where both environment files hold the bare time it is the one that is told."""
    runs = [built([[]] * 3, env={"unprofiled": {"host_ns": ns}}) for ns in (2_000_000, 1_500_000)]
    assert diff(*runs).sentence == (
        "Neither run has GPU work to compare; on the host it is 2.00 → 1.50 ms a step without the profiler, without a "
        "verdict."
    )


def test_two_cpu_runs_have_nothing_to_judge(built: Build) -> None:
    """No GPU work on either side: wall times are told, without a verdict."""
    found = diff(built([[]] * 3), built([[]] * 3))
    assert found.sentence == (
        "Neither run has GPU work to compare; on the host it is 5.00 → 5.00 µs a step, without a verdict."
    )
