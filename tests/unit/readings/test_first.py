from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from build import TraceBuilder

from foretrace.readings import first
from foretrace.run import read
from foretrace.run.environment import Environment, Unprofiled

if TYPE_CHECKING:
    from collections.abc import Callable

    from foretrace.readings import Answer
    from foretrace.run import Run


def _answer(run: Run) -> Answer:
    answer = first.answer(run)
    assert answer is not None
    return answer


def test_eager_mlp_fuses_gelu_and_mul(recorded: Callable[[str], Run]) -> None:
    """The one thing worth more than 2 %: 21.0 µs, 9 % of GPU time; and the model's FLOPs utilisation."""
    answer = _answer(recorded("mlp_64x128x768x3072_eager"))
    (row,) = answer.evidence
    assert (row["question"], row["saves_ns"]) == ("round_trips", 20_972)
    assert row["share"] == pytest.approx(0.0898, abs=0.0001)
    assert "Model FLOPs utilisation is 27.4 % while profiled: 116 GFLOP in 428 µs a step" in answer.sentence


def test_utilisation_without_the_profiler(recorded: Callable[[str], Run]) -> None:
    """116 GFLOP in 249 µs are 466 TFLOP/s, 47.1 % of the peak."""
    bare = Environment(unprofiled=Unprofiled(host_ns=249_000))
    sentence = _answer(replace(recorded("mlp_64x128x768x3072_eager"), environment=bare)).sentence
    assert "Model FLOPs utilisation is 47.1 % without the profiler: 116 GFLOP in 249 µs a step" in sentence


@pytest.mark.parametrize(
    ("name", "questions"),
    [
        ("attention_naive", ["round_trips"]),
        ("mlp_recompiles", ["compiled"]),
        ("mlp_64x128x768x3072_cudagraph", ["compiled"]),
        ("mlp_sync_and_pageable_copy", ["idle", "copies"]),
        ("train_mlp_eager", ["kernels", "round_trips"]),
        ("ddp_straggler_rank1", ["idle", "bound", "kernels", "round_trips"]),
        ("llama4_decode1", ["bound"]),
    ],
)
def test_advice_in_order_of_what_it_saves(recorded: Callable[[str], Run], name: str, questions: list[str]) -> None:
    """The readings whose advice fits the trace's cause, the largest saving first, each cause once."""
    answer = _answer(recorded(name))
    assert [row["question"] for row in answer.evidence] == questions
    saved = [row["saves_ns"] for row in answer.evidence]
    assert saved == sorted(saved, reverse=True)


def test_optimizer_in_one_kernel(recorded: Callable[[str], Run]) -> None:
    """AdamW's eight passes take 128.6 µs; seven times 14.2 MB at 4.8 TB/s would take 20.6."""
    rows = _answer(recorded("train_mlp_eager")).evidence
    fused = next(row for row in rows if "AdamW" in row["advice"])
    assert "one kernel instead of 8" in fused["advice"]
    assert fused["saves_ns"] == pytest.approx(107_900, abs=500)


def test_an_optimizers_lists_are_counted_in_all_their_kernels() -> None:
    """Two ranks run the same 24 kernels, in steps that align or not: one advice, worth the same on both."""
    folder = Path(__file__).parents[2] / "data" / "two_ranks"
    every = [_answer(read(folder / f"ddp_rank{rank}.json.gz")).evidence for rank in (0, 1)]
    one, other = (next(row for row in rows if "AdamW" in row["advice"]) for rows in every)
    assert one["advice"] == other["advice"]
    assert "one kernel instead of 24" in one["advice"]
    assert one["saves_ns"] == pytest.approx(other["saves_ns"], rel=0.01)


def test_nothing_where_nothing_is_to_gain(recorded: Callable[[str], Run]) -> None:
    """A large linear layer at 81 % of its peak and 2 % idle."""
    answer = _answer(recorded("linear_8192x4096x4096_eager"))
    assert (answer.verdict, answer.evidence) == ("nothing", ())
    assert answer.sentence.startswith("Nothing to do first: nothing found here would save 2.00 % of the GPU's time.")


def test_advice_below_a_microsecond_is_none(recorded: Callable[[str], Run]) -> None:
    """A 0.99 µs copy into a graph's input is 7 % of a tiny step and still not worth a word."""
    (row,) = _answer(recorded("mlp_1x1x768x3072_cudagraph")).evidence
    assert (row["question"], row["saves_ns"]) == ("bound", None)


@pytest.mark.parametrize("name", ["sdpa", "llama4_prefill", "ddp_straggler_rank0", "tp_rank1", "train_mlp_compiled"])
def test_never_more_than_five(recorded: Callable[[str], Run], name: str) -> None:
    """Five lines at most, none below 2 % of a step's GPU time."""
    rows = _answer(recorded(name)).evidence
    assert 1 <= len(rows) <= 5
    assert all(row["share"] is None or row["share"] >= 0.02 for row in rows)


def test_waiting_is_a_part_of_the_step_and_work_of_the_gpus_time(recorded: Callable[[str], Run]) -> None:
    """4,215 of 12,082 µs that a step takes, 693 of 3,535 µs that the GPU works in it."""
    asleep, _, optimizer, _ = _answer(recorded("ddp_straggler_rank1")).evidence
    assert (asleep["share_of"], round(100 * asleep["share"], 1)) == ("the step", 34.9)
    assert (optimizer["share_of"], round(100 * optimizer["share"], 1)) == ("GPU time", 19.6)


def test_where_the_host_records_nothing_comes_first(recorded: Callable[[str], Run]) -> None:
    """Rank 1 sleeps at the start of each step: where is said, and what CUDA graphs could save leaves it out."""
    asleep, graphs, *_ = _answer(recorded("ddp_straggler_rank1")).evidence
    assert asleep["advice"] == (
        "The host records nothing for 4.47 ms a step before `aten::linear`, the first op of its step: launching less "
        "does not shorten that. Look at what Python does there, with stacks (foretrace profile --stacks)."
    )
    assert asleep["saves_ns"] == pytest.approx(4_215_000, abs=1_000)
    assert "left without the 2.79 ms a step in which it records nothing" in graphs["advice"]
    assert graphs["saves_ns"] == pytest.approx(1_110_000, abs=5_000)


def test_bytes_without_a_price_are_not_nothing(recorded: Callable[[str], Run]) -> None:
    """On a device without known limits fusing is advised and its price left open."""
    (row,) = _answer(replace(recorded("mlp_64x128x768x3072_eager"), device=None)).evidence
    assert (row["question"], row["saves_ns"], row["share"]) == ("round_trips", None, None)
    assert "101 MB a step" in row["advice"]
    assert "--device-spec" in row["advice"]


def test_no_utilisation_where_flops_are_not_known(recorded: Callable[[str], Run]) -> None:
    """Unknown work gives no utilisation, and no zero."""
    assert "utilisation" not in _answer(recorded("mlp_1x1x768x3072_cudagraph")).sentence


def test_silent_without_gpu_activity() -> None:
    """A trace of the CPU alone raises no such question."""
    assert first.answer(TraceBuilder().op("aten::mm", 0, 10).run()) is None
