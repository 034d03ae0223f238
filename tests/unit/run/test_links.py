"""What launched what: correlations, duplicates, ranks, orphans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from foretrace.run import ROOT
from foretrace.run.ranks import activities_by_rank

if TYPE_CHECKING:
    from foretrace.run import Run

Recorder = Any


def test_correlation_zero_means_none(trace: Recorder) -> None:
    """Three kernels and a call with correlation 0 (RCCL under roctracer): three orphans, still busy."""
    trace.call(0, 0)
    for i in range(3):
        trace.kernel(0, 10 * i, 5)
    run = trace.run()
    assert run.activities.launch.tolist() == [ROOT] * 3
    assert run.busy_ns() == 15_000
    assert _counts(run)["orphans"] == 3


def test_a_duplicate_correlation_links_to_the_latest_call_before(trace: Recorder) -> None:
    """Of two calls with one id the kernel takes the later one that starts before it, and the file is noted."""
    trace.op("early", 0, 10)
    trace.call(5, 2)
    trace.op("late", 20, 10)
    trace.call(5, 22)
    trace.op("after", 40, 10)
    trace.call(5, 42)
    trace.kernel(5, 30, 5)
    run = trace.run()
    assert run.activity(0).op == "late"
    assert _counts(run)["duplicate-correlations"] == 1


def test_orphans_are_never_given_to_the_nearest_op(trace: Recorder) -> None:
    """Kernels whose launch is not in the file stay orphans, counted and busy, whatever runs around them."""
    trace.op("aten::mm", 0, 100)
    trace.call(1, 10)
    trace.kernel(1, 20, 10)
    for i in range(4):
        trace.kernel(100 + i, 40 + 10 * i, 5)
    run = trace.run()
    assert [run.activity(i).op for i in range(5)] == ["aten::mm", None, None, None, None]
    assert run.busy_ns() == 30_000
    (note,) = [note for note in run.notes if note.kind == "orphans"]
    assert note.text == "launched outside the window: 4 GPU events without an op"


def test_the_external_id_links_nothing(trace: Recorder) -> None:
    """An External id that names another op than the one around the launch is not followed."""
    trace.op("named_by_id", 0, 10, **{"External id": 42})
    trace.op("around", 20, 10, **{"External id": 43})
    trace.call(1, 22)
    trace.kernel(1, 30, 5, **{"External id": 42})
    assert trace.run().activity(0).op == "around"


def test_a_host_op_with_a_stream_is_no_kernel(trace: Recorder) -> None:
    """Compiled Triton ops carry `stream` on the host: work is told by category alone."""
    trace.op("triton_poi_fused_gelu_0", 0, 10, stream=7, grid=[1, 1, 1])
    trace.call(1, 2)
    trace.kernel(1, 20, 5, name="triton_poi_fused_gelu_0")
    run = trace.run()
    assert len(run.activities) == 1
    assert run.busy_ns() == 5_000
    assert run.activity(0).op == "triton_poi_fused_gelu_0"


def test_nested_ops_count_a_kernel_once(trace: Recorder) -> None:
    """`aten::linear` encloses `aten::addmm`: the kernel is addmm's alone."""
    trace.op("aten::linear", 0, 50)
    trace.op("aten::addmm", 5, 40)
    trace.call(1, 10)
    trace.kernel(1, 60, 100)
    run = trace.run()
    assert run.activity(0).op == "aten::addmm"
    assert run.activity(0).chain == ("aten::linear", "aten::addmm")
    assert run.busy_ns() == 100_000


def test_ids_of_merged_ranks_never_meet(trace: Recorder) -> None:
    """Two ranks with the same correlations in one file: each kernel goes to its own rank's op and step."""
    for rank, shift in ((0, 0.0), (1, 0.5)):
        trace.pid, trace.gpu = f"[TP0{rank}] 83", f"[TP0{rank}] 0"
        trace.annotation("ProfilerStep#1", shift, 100)
        trace.op(f"rank{rank}::mm", 10 + shift, 10)
        trace.call(1, 12 + shift)
        trace.kernel(1, 30 + shift, 10 + 10 * rank)
    run = trace.run()
    ops = {run.trace.tables.process[run.trace.columns.process[row]]: i for i, row in enumerate(run.activities.row)}
    assert run.activity(ops["[TP00] 0"]).op == "rank0::mm"
    assert run.activity(ops["[TP01] 0"]).op == "rank1::mm"
    assert [len(step.activities) for step in run.steps] == [1, 1]
    busy = {label: run.busy_ns(activities) for label, activities in activities_by_rank(run).items()}
    assert busy == {"TP00": 10_000, "TP01": 20_000}
    assert _counts(run)["merged-ranks"] == 2


def test_ranks_named_in_process_labels_are_kept_apart(trace: Recorder) -> None:
    """Mergers that keep numeric process ids name the rank in a metadata row."""
    for rank in (0, 1):
        trace.pid, trace.gpu = 1000 + rank, rank
        for pid in (trace.pid, trace.gpu):
            trace.add(ph="M", name="process_name", pid=pid, args={"name": f"rank {rank}"})
        trace.op(f"rank{rank}::mm", 10, 10)
        trace.call(1, 12 + rank)
        trace.kernel(1, 30 + rank, 10)
    run = trace.run()
    assert [run.activity(i).op for i in (0, 1)] == ["rank0::mm", "rank1::mm"]


def test_ambiguous_processes_without_a_rank_are_not_guessed(trace: Recorder) -> None:
    """Two host processes carry the id and nothing tells which is the kernel's: an orphan, not a coin toss."""
    for pid in (1001, 1002):
        trace.pid = pid
        trace.call(1, 10)
    trace.kernel(1, 30, 10)
    assert trace.run().activities.launch.tolist() == [ROOT]


def test_a_device_process_follows_the_host_process_of_its_other_kernels(trace: Recorder) -> None:
    """Where one host process launched a GPU's other kernels, a shared id is looked up there."""
    trace.pid = 1001
    trace.call(1, 10)
    trace.call(2, 20)
    trace.pid = 1002
    trace.call(1, 12)
    trace.kernel(2, 30, 5)
    trace.kernel(1, 40, 5)
    run = trace.run()
    processes = run.trace.columns.process[run.host.row[run.activities.launch]]
    assert [run.trace.tables.process[code] for code in processes] == [1001, 1001]


@pytest.mark.parametrize("skew_us", [0.5, 3.0])
def test_clock_skew_is_said_in_its_size(trace: Recorder, skew_us: float) -> None:
    """A kernel that starts before its call is linked; the note says by how much."""
    trace.call(1, 100)
    trace.kernel(1, 100 - skew_us, 10)
    run = trace.run()
    assert run.activities.launch.tolist() != [ROOT]
    (note,) = [note for note in run.notes if note.kind == "clock-skew"]
    assert {0.5: "500 ns", 3.0: "3.00 µs"}[skew_us] in note.text


def _counts(run: Run) -> dict[str, int]:
    return {note.kind: note.count for note in run.notes}


def test_a_single_rank_is_the_whole_files(trace: Recorder) -> None:
    """A rank that only the host's process is named after is that of the GPU's rows too: they link."""
    trace.add(ph="M", name="process_name", ts=0, args={"name": "train rank 3"})
    trace.op("aten::mm", 0, 50)
    trace.call(1, 10)
    trace.kernel(1, 30, 20)
    run = trace.run()
    assert run.activity(0).op == "aten::mm"
    assert {label: len(activities) for label, activities in activities_by_rank(run).items()} == {"rank 3": 1}
