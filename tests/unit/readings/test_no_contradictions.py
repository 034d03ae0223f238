"""What one answer says, another does not deny; what cannot be is said to be wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from build import TraceBuilder
from mutate import mutated

from foretrace.devices import resolve
from foretrace.devices.spec import read_device
from foretrace.diff.sentence import signed_percent
from foretrace.readings import ask
from foretrace.readings.host import cpu_computing
from foretrace.report.selection import Selection, select
from foretrace.run import Run, build

if TYPE_CHECKING:
    from collections.abc import Callable

_BF16 = ["c10::BFloat16", "c10::BFloat16"]
_GEMM = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT"
_SHAPES = [[1024, 1024], [1024, 1024]]


def _steps(count: int, *, took: float = 50, name: str = _GEMM, working: int | None = None) -> Run:
    """Steps of 900 µs, one every 1000 µs, each with one product (of the first ``working`` only)."""
    trace = TraceBuilder()
    for number in range(count):
        at = 1000 * number
        trace.step(number, at, 900).op("aten::mm", at + 10, 20, dims=_SHAPES, types=_BF16)
        if working is None or number < working:
            trace.kernel(name, at + 100, took, launch=(at + 12, 3), grid=[132, 1, 1])
    return trace.run()


def _said(run: Run, question: str) -> str:
    (answer,) = ask(run, [question])
    return answer.sentence


def test_a_step_alone_is_its_row() -> None:
    """Step 1 read alone lasts to the next step's first kernel, as its row among all steps does."""
    run = _steps(3)
    (among,) = ask(run, ["bound"])
    (alone,) = ask(select(run, Selection(step=1)), ["bound"])
    row = next(row for row in among.evidence if row["step"] == "ProfilerStep#1")
    assert (row["window_ns"], row["idle"]) == (1_000_000, 0.95)
    assert [(r["window_ns"], r["idle"]) for r in alone.evidence] == [(1_000_000, 0.95)] * 2
    assert "50.0 µs of 1.00 ms from this step's first GPU event to the next step's" in alone.sentence


def test_no_time_at_all() -> None:
    """Kernels of no length: nothing is said of idle time, nor of what to do about it, nor of utilisation."""
    run = _steps(3, took=0)
    assert _said(run, "bound") == "Unknown: the GPU events of this file take no time."
    assert _said(run, "idle") == "Unknown: the GPU events of this file take no time."
    assert _said(run, "first") == "What to do first is unknown: the GPU events of this file take no time."


def test_kernels_between_steps() -> None:
    """Where no step launched anything, figures are those of the whole trace and not of a step."""
    trace = TraceBuilder().step(0, 0, 100).step(1, 1000, 100)
    run = trace.kernel("k", 300, 50, launch=(200, 3)).kernel("k", 600, 50, launch=(500, 3)).run()
    assert "the GPU works 100 µs of 350 µs in this trace" in _said(run, "bound")


def test_steps_without_kernels_save_nothing() -> None:
    """Two of five steps launch nothing: what the span holds is said, and no saving exceeds a step's share of it."""
    run = _steps(5, working=3)
    assert "2.05 ms (3 of 5 steps)" in _said(run, "idle")
    savings = [row["saves_ns"] or 0 for answer in ask(run, ["first"]) for row in answer.evidence]
    assert all(ns <= 683_333 for ns in savings)


def test_faster_than_the_device_can() -> None:
    """2.15 GFLOP and 6.3 MB in half a microsecond are 12.6 TB/s: the file is wrong, and two answers say so."""
    run = _steps(3, took=0.4)
    wrong = "The times or the shapes of this file cannot be right: nvjet"
    assert wrong in _said(run, "bound")
    assert wrong in _said(run, "roofline")
    assert wrong not in _said(_steps(3), "bound")


def test_limits_of_another_device(recorded: Callable[[str], Run]) -> None:
    """An H200's trace held against an A100's limits: they are what is wrong, not the file."""
    run = build(recorded("mlp_64x128x768x3072_eager").trace, resolve("NVIDIA A100 SXM4 80GB"))
    for question in ("bound", "roofline"):
        said = _said(run, question)
        assert "The limits given are another device's: nvjet 256×128×64, 4 stages, bf16→bf16 would run at 2.2" in said
        assert "times what NVIDIA A100 SXM4 80GB can do, and the trace is of NVIDIA H200." in said
        assert "cannot be right" not in said


def test_utilisation_beyond_all() -> None:
    """More FLOPs than the peak allows are no utilisation."""
    trace = TraceBuilder().step(0, 0, 100).op("aten::mm", 10, 20, dims=[[8192, 8192]] * 2, types=_BF16)
    run = trace.kernel(_GEMM, 40, 100, launch=(12, 3), grid=[2048, 1, 1]).run()
    assert "More than 100 % cannot be" in _said(run, "first")


def test_the_ceiling_that_is_missing() -> None:
    """A device of which only the name is known lacks a bandwidth; the shapes are there."""
    run = build(_steps(3, took=900).trace, read_device({"name": "Abacus"}, "abacus.toml", {}))
    assert "not known (no bandwidth is known for Abacus)" in _said(run, "bound")


@pytest.mark.parametrize("scale", [1, 1000])
def test_views_compute_nothing_without_shapes(scale: int) -> None:
    """``aten::reshape`` without recorded shapes is not known to compute, however long everything takes."""
    trace = TraceBuilder().step(0, 0, 900 * scale).op("aten::reshape", 10 * scale, 2 * scale)
    run = trace.kernel("k", 30 * scale, 10 * scale, launch=(20 * scale, 3 * scale)).run()
    assert not cpu_computing(run).any()


@pytest.mark.parametrize("scale", [1, 1000])
def test_an_unknown_op_that_takes_a_good_part_of_the_step(scale: int) -> None:
    """A custom op that takes a third of its step and launches nothing computes, in steps of any length."""
    trace = TraceBuilder().step(0, 0, 900 * scale).op("mine::tokenize", 10 * scale, 300 * scale)
    run = trace.kernel("k", 400 * scale, 10 * scale, launch=(320 * scale, 3 * scale)).run()
    assert [run.name(i) for i in cpu_computing(run).nonzero()[0].tolist()] == ["mine::tokenize"]


def test_renamed_kernels_are_known_by_their_ops() -> None:
    """Kernels whose names say nothing hand tensors on all the same, as their ops and shapes tell."""

    def anonymous(event: dict[str, object]) -> dict[str, object]:
        name = str(event["name"])
        return event | {"name": f"kern_{len(name)}"} if event.get("cat") == "kernel" else event

    recorded = mutated("mlp_4x2048x2048x16384_eager", anonymous)
    assert "`gelu` writes" in _said(recorded, "round_trips")


def test_nothing_known_of_the_kernels() -> None:
    """Neither names nor ops say what the kernels do: whether to fuse is unknown."""
    trace = TraceBuilder().step(0, 0, 900)
    for i, name in enumerate(("kern_1", "kern_2")):
        trace.op("mine::op", 10 + 50 * i, 20, dims=[[4096, 4096]], types=["float"])
        trace.kernel(name, 200 + 100 * i, 50, launch=(12 + 50 * i, 3), grid=[132, 1, 1])
    (answer,) = ask(trace.run(), ["round_trips"])
    assert answer.verdict == "unknown"


def test_types_are_a_part_of_the_product() -> None:
    """The same sizes in bf16 and in f32 are no same product that the library serves unequally."""
    trace = TraceBuilder().step(0, 0, 9000)
    kinds = ((_GEMM, "c10::BFloat16"), ("sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize128x128x8_stage3", "float"))
    for i, (name, kind) in enumerate(kinds):
        trace.op("aten::mm", 10 + 50 * i, 20, dims=[[4096, 4096]] * 2, types=[kind] * 2)
        trace.kernel(name, 200 + 1000 * i, 200 + 2800 * i, launch=(12 + 50 * i, 3), grid=[512, 1, 1])
    said = _said(trace.run(), "gemm_choice")
    assert said.startswith("Different types, different kernels: ")
    assert " in f32, " in said
    assert " in bf16" in said


def test_overlapping_steps_leave_no_empty_clause() -> None:
    """A step that does nothing more than the others says so."""
    trace = TraceBuilder()
    for number, dur in enumerate((900, 650, 650)):
        trace.event("user_annotation", f"ProfilerStep#{number}", 500 * number, dur)
    for number in range(3):
        trace.kernel("k", 500 * number + 100, 50, launch=(500 * number + 12, 3))
    assert "what it did more is not in the file (its step overlaps others)." in _said(trace.run(), "steps")


@pytest.mark.parametrize(
    ("ratio", "said"), [(0.001, "−99.9 %"), (0.0001, "−99.99 %"), (0.0051, "−99.5 %"), (0.5, "−50 %"), (0.0, "−100 %")]
)
def test_what_is_left_is_not_rounded_away(ratio: float, said: str) -> None:
    """A thousandth of the time is 99.9 % less and not 100 % less."""
    assert signed_percent(ratio) == said
