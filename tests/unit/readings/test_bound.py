from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from build import TraceBuilder
from mutate import mutated

from foretrace.readings import ask, bound
from foretrace.run.environment import Environment, Unprofiled

if TYPE_CHECKING:
    from collections.abc import Callable

    from foretrace.readings import Answer
    from foretrace.run import Run

NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def _answer(run: Run) -> Answer:
    answer = bound.answer(run)
    assert answer is not None
    return answer


@pytest.mark.parametrize(
    ("name", "idle", "verdict"),
    [
        ("mlp_1x1x768x3072_eager", 93.2, "overhead-bound"),
        ("linear_1024x32x64_eager", 95.5, "overhead-bound"),
        ("llama4_decode1", 96.8, "overhead-bound"),
        ("llama4_prefill", 89.8, "overhead-bound"),
        ("linear_8192x4096x4096_eager", 2.4, "compute-bound"),
        ("mlp_64x128x768x3072_eager", 45.4, "overhead-bound"),
        ("mlp_64x128x768x3072_cudagraph", 18.3, "compute-bound"),
        ("mlp_float16", 8.9, "compute-bound"),
        ("attention_naive", 37.8, "memory-bound"),
        ("ddp_straggler_rank0", None, "communication-bound"),
        ("tp_rank1", None, "communication-bound"),
    ],
)
def test_idle_and_regime(recorded: Callable[[str], Run], name: str, idle: float | None, verdict: str) -> None:
    """Idle shares from the first to the last GPU activity, and the regime that follows."""
    answer = _answer(recorded(name))
    assert answer.verdict == verdict
    if idle is not None:
        assert round(100 * answer.evidence[0]["idle"], 1) == idle


def test_says_while_profiled_and_gives_the_kernels_own_bounds(recorded: Callable[[str], Run]) -> None:
    """Eager MLP: 233 of 428 µs; its kernels alone are mostly compute-bound; the profiler may be the cause."""
    answer = _answer(recorded("mlp_64x128x768x3072_eager"))
    assert answer.sentence == (
        "Overhead-bound while profiled: the GPU works 233 µs of 428 µs a step and waits for the host in between (idle "
        "45.4 %). The GPU's work alone is 69.8 % compute-bound, 29.6 % memory-bound, 0.658 % latency-bound. "
        "Without the profiler it may not be overhead-bound: 233 µs of GPU work is close to what the host may "
        "need then. Time it bare to know (foretrace profile does)."
    )
    assert answer.advice is None


def test_the_time_without_the_profiler_decides(recorded: Callable[[str], Run]) -> None:
    """249 µs a call measured bare and 233 µs of GPU work: compute-bound, and both are told."""
    bare = Environment(unprofiled=Unprofiled(host_ns=249_000))
    answer = _answer(replace(recorded("mlp_64x128x768x3072_eager"), environment=bare))
    assert answer.verdict == "compute-bound"
    assert answer.sentence.startswith(
        "Compute-bound without the profiler: 249 µs a call measured bare, 233 µs of it GPU work. While "
        "profiled it is overhead-bound: the GPU works 233 µs of 428 µs a step "
    )
    assert answer.evidence[0]["step"] == "bare"


def test_a_slow_host_is_told_without_the_profiler_too(recorded: Callable[[str], Run]) -> None:
    """1 ms a call bare for 233 µs of work: overhead-bound, and launching less saves the difference."""
    bare = Environment(unprofiled=Unprofiled(host_ns=1_000_000))
    answer = _answer(replace(recorded("mlp_64x128x768x3072_eager"), environment=bare))
    assert answer.verdict == "overhead-bound"
    assert answer.advice is not None
    assert answer.advice.saves_ns == pytest.approx(766_600, abs=100)


def test_advice_fits_the_cause(recorded: Callable[[str], Run]) -> None:
    """CUDA graphs where launches are late, fuller ones where graphs launch already; none for a compiler or a CPU op."""
    small = _answer(recorded("mlp_1x1x768x3072_eager")).advice
    assert small is not None
    assert "CUDA graphs" in small.text
    assert "Counted in half of the recorded time" in small.text
    graph = _answer(recorded("mlp_1x1x768x3072_cudagraph")).advice
    assert graph is not None
    assert graph.text.startswith("Give each graph launch more to do")
    for name in ("mlp_recompiles", "mlp_sync_and_pageable_copy"):
        assert _answer(recorded(name)).advice is None


def test_stacks_slow_the_host_more(recorded: Callable[[str], Run]) -> None:
    """3.04 ms a step with Python stacks may be 0.76 ms without, less than 805 µs of work; without stacks 1.52 ms."""
    stacked = _answer(recorded("train_mlp_eager"))
    assert "Python stacks were recorded, which slow the host the most." in stacked.sentence
    assert stacked.advice is None

    def plain(event: dict[str, Any]) -> dict[str, Any] | None:
        return None if event.get("cat") == "python_function" else event

    bare = _answer(mutated("train_mlp_eager", plain, with_stack=0))
    assert "Python stacks" not in bare.sentence
    assert bare.advice is not None
    assert bare.advice.saves_ns == pytest.approx(711_000, abs=3_000)


def test_one_step_says_where_its_window_begins() -> None:
    """The wait before a step's first launch belongs to no window of that step alone, so the sentence names the ends."""
    one = TraceBuilder().step(3, 0, 100)
    one.op("aten::mm", 5, 10).kernel("k", 40, 10, launch=(8, 4)).op("aten::mm", 60, 10).kernel(
        "k", 80, 10, launch=(62, 4)
    )
    assert "works 20.0 µs of 50.0 µs from this step's first GPU event to its last" in _answer(one.run()).sentence


def test_recompiling_is_the_compilers_doing(recorded: Callable[[str], Run]) -> None:
    """98.9 % idle because Dynamo compiles; the batch is not to blame."""
    sentence = _answer(recorded("mlp_recompiles")).sentence
    assert "waits for the compiler, not for the size of the batch" in sentence


def test_an_op_that_computes_on_the_cpu_is_named(recorded: Callable[[str], Run]) -> None:
    """``aten::randn`` on the CPU takes 78 % of the steps."""
    assert "which spends 77.6 % of the steps in aten::randn" in _answer(recorded("mlp_sync_and_pageable_copy")).sentence


def test_parts_add_up(recorded: Callable[[str], Run]) -> None:
    """Idle, exposed collectives and the kernels' bounds are all of the window."""
    for name in ("ddp_rank0", "mlp_two_streams", "llama4_prefill"):
        for row in _answer(recorded(name)).evidence:
            parts = ("idle", "compute", "memory", "latency", "host_copies", "communication", "unknown")
            assert sum(row[part] for part in parts) == pytest.approx(1.0)


def test_only_exposed_collectives_count() -> None:
    """40 µs of an all-reduce of which a kernel hides 30: 10 µs exposed of 50."""
    builder = TraceBuilder().kernel("my_kernel", 0, 40, stream=7).kernel(NCCL, 10, 40, stream=20)
    row = _answer(builder.run()).evidence[0]
    assert row["communication"] == pytest.approx(0.2)
    assert row["unknown"] == pytest.approx(0.8)


def test_many_tiny_kernels_are_overhead() -> None:
    """Kernels of 2 µs launched 6 µs apart: busy a third of the time, never memory-bound."""
    builder = TraceBuilder()
    for i in range(100):
        builder.kernel("my_kernel", 6 * i + 3, 2, launch=(6 * i, 2))
    answer = _answer(builder.run())
    assert answer.verdict == "overhead-bound"
    assert answer.evidence[0]["idle"] == pytest.approx(2 / 3, abs=0.01)


def test_unknown_where_neither_side_decides() -> None:
    """A busy device with kernels of unknown work on an unknown GPU has no regime."""
    answer = _answer(TraceBuilder(device="Some GPU").kernel("my_kernel", 0, 90).kernel("my_kernel", 100, 90).run())
    assert answer.verdict == "unknown"
    assert "no ceilings for Some GPU" in answer.sentence


def test_verdict_follows_the_times() -> None:
    """The same kernels twenty times as long leave no idle time worth naming."""

    def longer(event: dict[str, Any]) -> dict[str, Any]:
        return {**event, "dur": event["dur"] * 4} if event.get("cat") == "kernel" else event

    assert _answer(mutated("mlp_64x128x768x3072_eager", longer)).verdict == "compute-bound"


def test_steps_that_launched_nothing_have_no_rows() -> None:
    """Kernels outside every step: the whole is told, and no step."""
    answer = _answer(TraceBuilder().step(0, 0, 10).kernel("my_kernel", 50, 10).run())
    assert [row["step"] for row in answer.evidence] == ["all"]


def test_silent_without_gpu_activity() -> None:
    """A trace of the CPU alone raises no such question."""
    assert bound.answer(TraceBuilder().op("aten::mm", 0, 10).run()) is None


def test_graphs_are_advised_where_they_can_be_captured() -> None:
    """The same late launches: CUDA graphs on an NVIDIA GPU, fusing on devices that have none."""
    fusing = "torch.compile fuses kernels"
    for category, advised in (
        ("cuda_runtime", "CUDA graphs"),
        ("xpu_runtime", fusing),
        ("privateuse1_runtime", fusing),
    ):
        builder = TraceBuilder()
        for i in range(10):
            builder.event(category, "launch", 100 * i, 5, correlation=i + 1)
            builder.kernel("my_kernel", 100 * i + 10, 5)
        advice = _answer(builder.run()).advice
        assert advice is not None
        assert advice.text.startswith(f"Launch less from Python: {advised}")
        assert ("reduce-overhead" in advice.text) is (category == "cuda_runtime")


def test_without_launches_nobody_knows_what_the_gpu_waits_for() -> None:
    """Kernels alone: busy and idle are told, no cause of the idle time and nothing to do about it."""
    builder = TraceBuilder()
    for i in range(10):
        builder.kernel("my_kernel", 100 * i, 5)
    run = builder.run()
    answer = _answer(run)
    assert answer.advice is None
    assert answer.sentence.startswith(
        "Overhead-bound while profiled: the GPU works 50.0 µs of 905 µs in this trace and waits in between (idle "
        "94.5 %); for what is unknown, as no launch is in the file."
    )
    (todo,) = ask(run, ["first"])
    assert (todo.sentence, todo.verdict) == ("What to do first is unknown: no launch is in the file.", "unknown")
