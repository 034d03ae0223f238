from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from build import TraceBuilder
from mutate import RECORDED, mutated

from foretrace.readings import gaps, idle

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from foretrace.readings import Answer
    from foretrace.run import Run


def _causes(answer: Answer | None, column: str = "span_ns") -> Mapping[str, int]:
    assert answer is not None
    return {row["cause"]: row[column] for row in answer.evidence}


def test_eager_mlp_to_the_nanosecond(recorded: Callable[[str], Run]) -> None:
    """700.474 of 1283.343 µs busy; 508.758 µs in 9 gaps with a late call, 74.111 in 11 with an early one."""
    answer = idle.answer(recorded("mlp_64x128x768x3072_eager"))
    assert _causes(answer) == {
        "busy": 700_474,
        "launch-bound: call not begun": 508_758,
        "launch-bound: call running": 69_119,
        "launch-bound: on its way": 74_111 - 69_119,
        "synchronize": 0,
        "after the last launch": 0,
        "not attributed": 0,
    }
    assert answer is not None
    assert answer.verdict == "launch-bound"
    assert answer.sentence == (
        "The GPU is busy 54.6 % of 1.28 ms (3 steps) and idle 583 µs: 509 µs in the 9 of 20 gaps whose next launch had "
        "not begun, 74.1 µs in the other 11 (69.1 µs in 6 still inside the call). Counted from the first GPU "
        "event to the last."
    )


@pytest.mark.parametrize("name", RECORDED)
def test_breakdown_is_exact(recorded: Callable[[str], Run], name: str) -> None:
    """On every recorded trace the causes add up to the GPU span and to the window of the steps, in nanoseconds."""
    run = recorded(name)
    answer = idle.answer(run)
    low, high = idle.span(run)
    assert sum(_causes(answer).values()) == high - low
    low, high = idle.window(run)
    assert sum(_causes(answer, "window_ns").values()) == high - low
    assert min(_causes(answer).values()) >= 0
    assert min(_causes(answer, "window_ns").values()) >= 0
    assert "not attributed" in _causes(answer)


@pytest.mark.parametrize(
    ("name", "share"),
    [
        ("mlp_1x1x768x3072_eager", 93.2),
        ("linear_1024x32x64_eager", 95.5),
        ("llama4_decode1", 96.8),
        ("llama4_prefill", 89.8),
        ("linear_8192x4096x4096_eager", 2.4),
    ],
)
def test_idle_shares(recorded: Callable[[str], Run], name: str, share: float) -> None:
    """Idle shares of the span, as counted independently."""
    answer = idle.answer(recorded(name))
    assert answer is not None
    assert round(100 * (1 - answer.evidence[0]["share"]), 1) == share


@pytest.mark.parametrize(
    ("name", "verdict", "cause", "least_ns"),
    [
        ("mlp_recompiles", "compile", "compile", 1_860_000_000),
        ("mlp_sync_and_pageable_copy", "computing-on-the-cpu", "computing on the CPU", 12_000_000),
        ("mlp_sync_and_pageable_copy", "computing-on-the-cpu", "copies", 300_000),
        ("ddp_straggler_rank1", "launch-bound", "not attributed", 8_000_000),
    ],
)
def test_who_is_to_blame(recorded: Callable[[str], Run], name: str, verdict: str, cause: str, least_ns: int) -> None:
    """Compilation, work on the CPU, pageable copies and a sleep that nobody recorded each have their own row."""
    answer = idle.answer(recorded(name))
    assert answer is not None
    assert answer.verdict == verdict
    assert _causes(answer)[cause] >= least_ns


def _two_kernels(between: Callable[[TraceBuilder], object]) -> Mapping[str, int]:
    """Causes of the idle time between two kernels 3 ms apart, with something on the host between them."""
    built = TraceBuilder().step(1, 0, 4_000).op("aten::a", 0, 100).kernel("a", 60, 40, launch=(50, 5))
    between(built)
    built.op("aten::b", 3_100, 200).kernel("b", 3_210, 50, launch=(3_200, 5))
    return _causes(idle.answer(built.run()))


@pytest.mark.parametrize(
    ("between", "cause", "ns"),
    [
        (lambda b: b.call("cudaStreamSynchronize", 100, 3_000), "synchronize", 3_000_000),
        (lambda b: b.call("cudaMemcpyAsync", 100, 3_000), "copies", 3_000_000),
        (lambda b: b.call("cudaMalloc", 100, 3_000), "allocator", 3_000_000),
        (
            lambda b: b.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 100, 3_000),
            "data loading",
            3_000_000,
        ),
        (lambda b: b.annotation("dynamo", 100, 3_000), "compile", 3_000_000),
        (lambda b: b.event("overhead", "Activity Buffer Request", 100, 3_000, 9), "profiler overhead", 3_000_000),
        (lambda b: b.event("overhead", "Lazy Function Loading", 100, 3_000, 9), "first use of a kernel", 3_000_000),
        (lambda b: b.op("mylib::tokenize", 100, 3_000), "computing on the CPU", 3_000_000),
        (lambda b: b, "not attributed", 3_000_000),
    ],
)
def test_each_cause_by_itself(between: Callable[[TraceBuilder], object], cause: str, ns: int) -> None:
    """A gap of 3.11 ms: what the host did for 3 ms of it is the cause, the rest is launching."""
    causes = _two_kernels(between)
    assert causes[cause] == ns
    assert causes["launch-bound: call not begun"] == 110_000
    assert sum(causes.values()) == 3_200_000


def test_a_stretch_after_a_steps_mark_is_not_attributed(recorded: Callable[[str], Run]) -> None:
    """Three steps of 4.28 ms and more in which rank 1 records nothing, the first one before any op of the trace."""
    causes = _causes(idle.answer(recorded("ddp_straggler_rank1")), "window_ns")
    assert 12_500_000 < causes["not attributed"] < 12_900_000
    assert causes["launch-bound: call not begun"] < 16_100_000


def test_silence_at_either_end_of_the_steps() -> None:
    """2 ms before the first op of the only step and 3 ms after its last call: nobody knows; 10 µs are launching."""
    built = TraceBuilder().step(1, 0, 5_100).op("aten::a", 2_000, 100).kernel("a", 2_060, 40, launch=(2_010, 5))
    answer = idle.answer(built.run())
    causes = _causes(answer, "window_ns")
    assert causes["busy"] == 40_000
    assert causes["not attributed"] == 2_000_000 + 3_000_000
    assert causes["launch-bound: call not begun"] == 60_000
    assert answer is not None
    assert answer.advice is not None
    assert answer.advice.text.startswith(
        "The host records nothing for 2.00 ms before `aten::a`, the first op of its step"
    )


def test_silence_between_the_ops_of_a_step() -> None:
    """Each of two steps sleeps 3 ms before its second op, and nobody looks at what comes before the first step."""
    built = TraceBuilder().op("aten::early", -9_000, 10)
    for i in range(2):
        at = 4_000 * i
        built.step(i, at, 4_000).op("aten::a", at, 100).kernel("a", at + 60, 40, launch=(at + 10, 5))
        built.op("aten::b", at + 3_100, 900).kernel("b", at + 3_160, 40, launch=(at + 3_110, 5))
    answer = idle.answer(built.run())
    assert answer is not None
    assert answer.advice is not None
    assert answer.advice.text.startswith("The host records nothing for 3.00 ms a step before `aten::b`: ")
    assert answer.advice.saves_ns == 3_000_000


def test_silence_after_the_last_op_is_told() -> None:
    """One launch, then 4 ms without an op: that comes after the last op, and stacks are the advice."""
    built = TraceBuilder().step(1, 0, 4_100).op("aten::a", 0, 100).kernel("a", 60, 40, launch=(10, 5))
    answer = idle.answer(built.run())
    assert answer is not None
    assert answer.advice is not None
    assert answer.advice.text.startswith("The host records nothing for 4.00 ms after its last op: ")
    assert answer.advice.saves_ns == 4_000_000


def test_short_python_between_ops_is_launch_bound() -> None:
    """Half a millisecond in which nothing was recorded is Python on its way to the next launch."""
    built = TraceBuilder().step(1, 0, 900).op("aten::a", 0, 100).kernel("a", 60, 40, launch=(50, 5))
    built.op("aten::b", 600, 200).kernel("b", 710, 50, launch=(700, 5))
    causes = _causes(idle.answer(built.run()))
    assert causes["launch-bound: call not begun"] == 610_000
    assert causes["not attributed"] == 0


def test_gap_before_an_orphan_is_not_attributed() -> None:
    """Nobody knows when an orphan was launched, so the gap before it has no cause."""
    built = TraceBuilder().op("aten::a", 0, 100).kernel("a", 60, 40, launch=(50, 5)).kernel("orphan", 300, 50)
    assert _causes(idle.answer(built.run()))["not attributed"] == 200_000


def test_many_small_kernels_without_a_queue_are_launch_bound() -> None:
    """1000 kernels of 2 µs, launched 6 µs apart: a third busy, and fewer launches are the advice."""
    built = TraceBuilder()
    for i in range(1_000):
        built.kernel("k", 6 * i + 4, 2, launch=(6 * i, 3))
    answer = idle.answer(built.run())
    assert answer is not None
    assert answer.verdict == "launch-bound"
    assert answer.sentence.startswith("The GPU is busy 33.4 % of 6.00 ms and idle 4.00 ms")
    assert answer.advice is not None
    assert "CUDA graphs" in answer.advice.text


def test_never_idle() -> None:
    """A GPU that works from its first event to its last is not asked about further."""
    answer = idle.answer(TraceBuilder().kernel("a", 5, 10, launch=(0, 2)).kernel("b", 15, 10, launch=(6, 2)).run())
    assert answer is not None
    assert answer.sentence == "The GPU is busy all of the 20.0 µs from its first event to its last."


def test_silent_unknown_and_advice() -> None:
    """No GPU events: silent. No launches in the file: idle is known, the blame is not, and nothing is advised."""
    assert idle.answer(TraceBuilder(device=None).op("aten::mm", 0, 10).run()) is None
    orphans = idle.answer(TraceBuilder().kernel("a", 0, 10).kernel("b", 90, 10).run())
    assert orphans is not None
    assert orphans.verdict == "unknown"
    assert "busy 20.0 % of 100 µs" in orphans.sentence
    assert orphans.advice is None


def test_advice_fits_a_graph_trace(recorded: Callable[[str], Run]) -> None:
    """A trace that already launches by CUDA graphs is not told to use them; a busy one is told nothing."""
    graph, busy = (
        idle.answer(recorded("mlp_64x128x768x3072_cudagraph")),
        idle.answer(recorded("mlp_4x2048x2048x16384_eager")),
    )
    assert graph is not None
    assert graph.advice is not None
    assert "reduce-overhead" not in graph.advice.text
    assert busy is not None
    assert busy.verdict == "busy"
    assert busy.advice is None


def test_busy_time_follows_the_kernels() -> None:
    """Kernels of half the length leave more idle time, and the breakdown still adds up."""

    def halved(event: dict[str, Any]) -> dict[str, Any]:
        return {**event, "dur": event["dur"] / 2} if event.get("cat") == "kernel" else event

    run = mutated("mlp_64x128x768x3072_eager", halved)
    causes = _causes(idle.answer(run))
    assert abs(causes[gaps.BUSY] - (695_867 // 2 + 4_607)) < 20  # each of 15 halves is rounded to a nanosecond
    low, high = idle.span(run)
    assert sum(causes.values()) == high - low


def test_what_the_host_did_meanwhile_and_what_lies_outside_the_steps(recorded: Callable[[str], Run]) -> None:
    """Of 948 µs behind late launches the naive mask's copies are 81.9; eight events ran before the first step."""
    naive = idle.answer(recorded("attention_naive"))
    graph = idle.answer(recorded("mlp_4x2048x2048x16384_cudagraph"))
    assert naive is not None
    assert graph is not None
    assert "948 µs in the 13 of 26 gaps whose next launch had not begun (of which copies 81.9 µs)" in naive.sentence
    assert "of 9.25 ms (3 steps and 8 events launched outside them)" in graph.sentence
    assert "10.8 µs in 7 before events whose launch is not in the file" in graph.sentence


def test_gaps_inside_the_call_are_said_once(recorded: Callable[[str], Run]) -> None:
    """Both gaps whose launch had begun ended while the call still ran."""
    answer = idle.answer(recorded("llama4_prefill"))
    assert answer is not None
    assert "28.7 µs in the other 2, still inside the call." in answer.sentence


def test_the_other_gaps_come_second(recorded: Callable[[str], Run]) -> None:
    """Here the gaps whose launch had begun hold more time; they are still the others."""
    answer = idle.answer(recorded("mlp_float16"))
    assert answer is not None
    assert answer.sentence.index("whose next launch had not begun") < answer.sentence.index("45.8 µs in the other 18")
