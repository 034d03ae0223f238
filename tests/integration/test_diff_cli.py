"""``foretrace diff`` as a command, and as the gate that a pull request must pass."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from foretrace.cli.app import main

DATA = Path(__file__).parents[1] / "data"
H200 = DATA / "h200"
EAGER, COMPILED = "mlp_64x128x768x3072_eager", "mlp_64x128x768x3072_compiled"
TUNED = "mlp_64x128x768x3072_maxautotune"


def _diff(before: str, after: str, *options: str) -> subprocess.CompletedProcess[str]:
    paths = [str(H200 / f"{name}.json.gz") for name in (before, after)]
    command = [sys.executable, "-m", "foretrace", "diff", *paths, *options]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)


@pytest.mark.parametrize("gate", ["3%", "3", "0"])
def test_the_gate_lets_the_compiled_mlp_pass(gate: str) -> None:
    """A run that got faster passes any gate: exit 0, the report on stdout, nothing on stderr."""
    done = _diff(EAGER, COMPILED, "--gate", gate)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Faster on the GPU: 233 → 206 µs a step (−12 %).")


def test_the_gate_stops_the_autotuned_mlp() -> None:
    """15 % slower breaks a gate of 3 %: exit 1, with the report; a gate of 20 % holds."""
    done = _diff(COMPILED, TUNED, "--gate", "3%")
    assert done.returncode == 1
    assert done.stdout.startswith("Slower on the GPU: 206 → 237 µs a step (+15 %).")
    assert done.stderr == "the gate of 3.00 % is broken: 15.2 % slower\n"
    assert _diff(COMPILED, TUNED, "--gate", "20%").returncode == 0
    assert _diff(COMPILED, TUNED).returncode == 0


def test_a_gate_that_cannot_tell_exits_2_and_says_what_it_needs() -> None:
    """Three steps a side that overlap: the report is shown, the error names the steps that are needed."""
    done = _diff("linear_1024x32x64_eager", "linear_1024x32x64_compiled", "--gate", "3%")
    assert done.returncode == 2
    assert done.stdout.startswith("Inconclusive")
    assert done.stderr == (
        "error: the gate could not run: 3 counted steps a side cannot tell\n\n"
        "hint: record at least 5 steps a side: `foretrace profile … --active 5`\n"
    )


def test_a_gate_on_incomparable_traces_exits_2() -> None:
    """bf16 against fp16 is no regression; ``--anyway`` judges them all the same, and cannot tell either."""
    done = _diff(EAGER, "mlp_float16", "--gate", "3%")
    assert done.returncode == 2
    assert "the traces are not comparable (other dtype: bf16 before, f16 after)" in done.stderr
    assert "hint: record both the same way" in done.stderr
    assert "3 counted steps" in _diff(EAGER, "mlp_float16", "--gate", "3%", "--anyway").stderr


def test_a_gate_on_traces_of_a_cpu_exits_2(tmp_path: Path) -> None:
    """The report is shown; the error says that there is no GPU time, the hint to record where there is a GPU."""
    step = {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 1, "tid": 1, "ts": 0, "dur": 9}
    trace = tmp_path / "cpu.json"
    trace.write_text(json.dumps({"traceEvents": [step, step | {"cat": "cpu_op", "name": "aten::mm", "dur": 5}]}))
    command = [sys.executable, "-m", "foretrace", "diff", str(trace), str(trace), "--gate", "3%"]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == 2
    assert done.stderr == (
        "error: the gate could not run: it compares GPU time, which one of the traces lacks\n\n"
        "hint: record both on a GPU, with ProfilerActivity.CUDA\n"
    )


def test_a_gate_must_be_a_percentage() -> None:
    """Anything else is refused before a trace is read."""
    done = _diff(EAGER, COMPILED, "--gate", "fast")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: `fast` is no percentage")


def test_json_has_the_promised_keys() -> None:
    """Schema version 1: the keys of a program that reads it, with integers, lists and null as they are."""
    found = json.loads(_diff(EAGER, COMPILED, "--format", "json").stdout)
    assert found["schema"] == "foretrace.diff/1"
    assert (found["comparable"], found["why_not"]) == (True, [])
    promised = ("before_ns", "after_ns", "significant", "before_wall_ns", "after_wall_ns")
    assert [found["steps"][key] for key in promised] == [233_438, 206_047, True, 490_335, 408_005]
    assert found["steps"]["interval"][0] < found["steps"]["ratio"] < found["steps"]["interval"][1]
    fused = found["changes"][2]
    assert fused["status"] == "fused"
    assert len(fused["before"]) == 2
    assert fused["fields"] == {"origins": ["_unsafe_view"]}
    assert found["changes"][0]["op"] == "aten::mm"
    assert "aten::t" in found["cpu_ops"]["removed"]
    assert "TorchDynamo Cache Lookup" in found["cpu_ops"]["added"]
    assert found["sentence"].startswith("Faster")


def test_markdown_is_a_table_for_a_pull_request(tmp_path: Path) -> None:
    """``-o`` writes the comment; every kernel is a row, with the labels of both sides as headers."""
    comment = tmp_path / "comment.md"
    assert _diff(EAGER, COMPILED, "--format", "markdown", "-o", str(comment)).returncode == 0
    text = comment.read_text(encoding="utf-8")
    assert "| eager | compiled |" in text
    assert "| gelu + mul |" in text
    assert "| --- | --- | ---: | ---: | --- |" in text  # figures to the right
    assert "−31.7" in text


@pytest.mark.parametrize(
    ("before", "after", "copy"),
    [
        ("attention_naive", "sdpa", "Memcpy DtoD (Device -> Device) takes 63.9 µs less."),
        ("sdpa", "attention_naive", "Memcpy DtoD (Device -> Device) takes 63.9 µs more."),
        ("mlp_two_streams", "mlp_sync_and_pageable_copy", "Memcpy HtoD (Pageable -> Device) takes 248 µs more."),
        (EAGER, TUNED, None),
    ],
)
def test_the_table_adds_up_to_the_step(before: str, after: str, copy: str | None) -> None:
    """Copies and sets that explain the step's difference have rows, and the sentence names the one that matters."""
    done = _diff(before, after).stdout
    assert copy is None or copy in " ".join(done.split())
    assert copy or "Memcpy" not in done.split("On the GPU")[0]
    rows = re.findall(r"→ +[\d,.–]+ +([+−]?[\d.,]+)", done.split("GPU busy")[0])
    totals = re.findall(r"(?:all kernels|Mem(?:cpy|set) .*?\)) .*→ +[\d,.–]+ +([+−]?[\d.,]+)", done)
    busy = re.findall(r"GPU busy .*→ +[\d,.]+ +([+−]?[\d.,]+)", done)
    assert len(rows) > len(totals) > 1
    changes = [float(change.replace("−", "-")) for change in totals]
    assert sum(changes) == pytest.approx(float(busy[0].replace("−", "-")), abs=0.5)


@pytest.mark.parametrize("columns", ["60", "100"])
def test_figures_are_never_cut(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a narrow console names give way: times, changes and the word for them stay whole."""
    monkeypatch.setenv("COLUMNS", columns)
    there = _diff("attention_naive", "sdpa").stdout
    assert re.search(r" 482 → 32\.7  −448\.9  fused, by order\n", there)
    assert re.search(r" 63\.9 → +–   −63\.9\n", there)


def test_a_kernel_that_some_steps_do_not_run_says_so() -> None:
    """Its figure is a mean under a title that says medians; launches a step are told to three digits."""
    there = _diff(COMPILED, "mlp_recompiles").stdout
    assert re.search(r"random normal +– → +1\.62 +\+1\.6  added, not always\n", there)
    assert "1 → 0.333 times" in there


def test_a_trace_that_is_cut_short_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A comparison and a check that rest on part of a file carry the note that `read` shows."""
    cut = tmp_path / "cut.json"
    text = gzip.decompress((H200 / "sdpa.json.gz").read_bytes())
    cut.write_bytes(text[: len(text) * 2 // 3])
    assert main(["diff", str(H200 / "sdpa.json.gz"), str(cut)]) == 0
    assert "note: cut: truncated after 68 complete events\n" in capsys.readouterr().out
    assert main(["check", str(cut), "--expect", "1 attention"]) == 0
    assert "note: truncated after 68 complete events\n" in capsys.readouterr().out


@pytest.mark.parametrize(("before", "after"), [("ddp_rank0", "ddp_rank1"), ("tp_rank0", "tp_rank1")])
def test_waiting_for_other_ranks_is_no_gain(before: str, after: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Two ranks differ by who waits: collectives are told as what they are, by both names and both ways."""
    ranks = [str(H200.parent / "two_ranks" / f"{name}.json.gz") for name in (before, after)]
    for pair in (ranks, ranks[::-1]):
        assert main(["diff", *pair]) == 0
        page = capsys.readouterr().out
        assert "Most of that is time in collectives, which includes waiting for other ranks" in " ".join(page.split())
        (collective, *_) = [line for line in page.splitlines() if line.lstrip().startswith("NCCL all-reduce")]
        assert collective.endswith("  incl. waiting")
        assert "One aten::mm" in " ".join(page.split())
        overlap = "Kernels overlap: GPU busy counts what runs at the same time once"
        assert (overlap in " ".join(page.split())) == ("ddp" in before)


def test_rows_that_are_not_shown_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    """What is left of a long table is one line; of new kernels it does not say that none is the same."""
    small = DATA / "cases" / "c37_bigint.json"
    assert main(["diff", str(small), str(H200 / "train_mlp_eager.json.gz")]) == 0
    assert "and 10 more kernels: 2.00 µs → 137 µs" in capsys.readouterr().out


def test_both_directions_are_told_to_the_same_digits() -> None:
    """A change is written alike, whichever run comes first."""
    there, back = (_diff(*pair).stdout for pair in (("attention_naive", "sdpa"), ("sdpa", "attention_naive")))
    assert "−448.9" in there
    assert "+448.9 " in back


def test_the_table_for_people() -> None:
    """One line a kernel: what it was, what it is, both times, the change and a word."""
    lines = _diff(EAGER, COMPILED).stdout.splitlines()
    (fused,) = [line for line in lines if line.lstrip().startswith("gelu + mul")]
    assert fused.split()[-5:] == ["68.8", "→", "37.1", "−31.7", "fused"]
    (up,) = [line for line in lines if line.endswith("  slower")]
    assert "55.8 → 60.2" in up
    assert "+4.4" in up
