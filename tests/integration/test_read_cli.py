"""``foretrace read`` on recorded traces and on what is none, through the command line."""

from __future__ import annotations

import gzip
import json
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from foretrace import readings
from foretrace.cli.app import main

if TYPE_CHECKING:
    from collections.abc import Callable

DATA = Path(__file__).parents[1] / "data"

# an independent count, in integer nanoseconds:
# kernels, copies, sets, kernel_ns, busy_ns, span_ns, linked, streams, kernels of each step
FIGURES = {
    "h200/attention_naive": (21, 3, 3, 1444565, 1638355, 2635972, 27, 1, [7, 7, 7]),
    "h200/linear_1024x32x64_compiled": (3, 0, 0, 8096, 8096, 596892, 3, 1, [1, 1, 1]),
    "h200/linear_1024x32x64_eager": (3, 0, 0, 8095, 8095, 180350, 3, 1, [1, 1, 1]),
    "h200/linear_8192x4096x4096_compiled": (3, 0, 3, 1030418, 1032818, 1119858, 6, 1, [1, 1, 1]),
    "h200/linear_8192x4096x4096_eager": (3, 0, 3, 1028950, 1031382, 1056372, 6, 1, [1, 1, 1]),
    "h200/llama4_decode1": (558, 0, 0, 1240824, 1240824, 38507605, 558, 1, [186, 186, 186]),
    "h200/llama4_prefill": (546, 0, 15, 3669718, 3681271, 36124094, 561, 1, [182, 182, 182]),
    "h200/mlp_1x1x768x3072_compiled": (15, 0, 0, 38880, 38880, 1019896, 15, 1, [5, 5, 5]),
    "h200/mlp_1x1x768x3072_cudagraph": (18, 0, 0, 43519, 43519, 568634, 18, 1, [6, 6, 6]),
    "h200/mlp_1x1x768x3072_eager": (18, 0, 0, 41698, 41698, 616472, 18, 1, [6, 6, 6]),
    "h200/mlp_1x1x768x3072_liger": (15, 0, 0, 42301, 42301, 1241746, 15, 1, [5, 5, 5]),
    "h200/mlp_4x2048x2048x16384_compiled": (15, 0, 11, 8363235, 8371716, 8413507, 21, 1, [4, 4, 4]),
    "h200/mlp_4x2048x2048x16384_cudagraph": (20, 0, 12, 9188671, 9198175, 9246428, 24, 1, [5, 5, 5]),
    "h200/mlp_4x2048x2048x16384_eager": (20, 0, 12, 9645721, 9655930, 9707862, 24, 1, [5, 5, 5]),
    "h200/mlp_4x2048x2048x16384_liger": (15, 0, 11, 8780693, 8790006, 8830579, 21, 1, [4, 4, 4]),
    "h200/mlp_4x2048x2048x16384_maxautotune": (15, 0, 11, 8366531, 8375618, 8415745, 21, 1, [4, 4, 4]),
    "h200/mlp_64x128x768x3072_compiled": (12, 0, 6, 613626, 618362, 1013686, 18, 1, [4, 4, 4]),
    "h200/mlp_64x128x768x3072_cudagraph": (15, 0, 6, 656914, 661394, 809106, 21, 1, [5, 5, 5]),
    "h200/mlp_64x128x768x3072_eager": (15, 0, 6, 695867, 700474, 1283343, 21, 1, [5, 5, 5]),
    "h200/mlp_64x128x768x3072_liger": (12, 0, 6, 630901, 635508, 1140751, 18, 1, [4, 4, 4]),
    "h200/mlp_64x128x768x3072_maxautotune": (12, 0, 0, 711544, 711544, 2174789, 12, 1, [4, 4, 4]),
    "h200/mlp_float16": (15, 0, 6, 705307, 709691, 778648, 21, 1, [5, 5, 5]),
    "h200/mlp_recompiles": (1879, 632, 0, 19885047, 21630727, 1916040381, 2511, 1, [621, 629, 629]),
    "h200/mlp_sync_and_pageable_copy": (21, 6, 3, 139165, 891670, 15309727, 30, 1, [7, 7, 7]),
    "h200/mlp_two_streams": (21, 0, 0, 168352, 168352, 1315248, 21, 3, [7, 7, 7]),
    "h200/sdpa": (3, 0, 3, 98912, 101281, 528027, 6, 1, [1, 1, 1]),
    "h200/train_mlp_compiled": (60, 0, 9, 2177453, 2184173, 5753283, 69, 1, [20, 20, 20]),
    "h200/train_mlp_eager": (69, 0, 9, 2409159, 2415848, 9107963, 78, 1, [23, 23, 23]),
    "two_ranks/ddp_rank0": (341, 50, 39, 33495800, 27485862, 33231135, 393, 2, [105, 105, 105]),
    "two_ranks/ddp_rank1": (315, 39, 39, 10382435, 10607936, 29689762, 393, 2, [105, 105, 105]),
    "two_ranks/ddp_straggler_rank0": (342, 51, 39, 49223985, 43371680, 43803807, 393, 2, [105, 105, 105]),
    "two_ranks/ddp_straggler_rank1": (315, 39, 39, 10383273, 10609832, 36227358, 393, 2, [105, 105, 105]),
    "two_ranks/tp_rank0": (18, 3, 6, 1181535, 1209408, 6645131, 27, 2, [6, 6, 6]),
    "two_ranks/tp_rank1": (18, 3, 6, 9095683, 8151462, 8827940, 27, 2, [6, 6, 6]),
}
ACTIVITY_KEYS = {
    *("kind", "name", "stream", "start_ns", "dur_ns", "launch", "graph", "op", "chain", "region", "shapes", "dtypes"),
    *("identity", "flops", "bytes", "bound", "module"),
}
BOUNDS = {"overhead", "memory", "compute", "latency", "unknown"}


def _trace(name: str) -> str:
    return str(DATA / f"{name}.json.gz")


def _read_json(capsys: pytest.CaptureFixture[str], *argv: str) -> dict[str, Any]:
    assert main(["read", *argv, "--format", "json"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    document: dict[str, Any] = json.loads(printed.out)
    return document


@pytest.mark.parametrize("name", FIGURES)
def test_every_recorded_trace_has_its_figures(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Totals and kernels a step equal the independent count, and the totals agree with each other and the rows."""
    document = _read_json(capsys, _trace(name))
    totals, steps = document["totals"], document["steps"]
    keys = ("kernels", "copies", "sets", "kernel_ns", "busy_ns", "span_ns", "linked", "streams")
    assert (*(totals[key] for key in keys), [step["kernels"] for step in steps]) == FIGURES[name]
    activities = [activity for step in steps for activity in step["activities"]] + document["outside_steps"]
    counted = {kind: sum(1 for a in activities if a["kind"] == kind) for kind in ("kernel", "copy", "set")}
    assert counted == {"kernel": totals["kernels"], "copy": totals["copies"], "set": totals["sets"]}
    assert totals["linked"] + totals["orphans"] == len(activities)
    assert totals["gap_ns"] == totals["span_ns"] - totals["busy_ns"]
    assert totals["overlap_ns"] == sum(a["dur_ns"] for a in activities) - totals["busy_ns"]
    assert all(a["why"] for a in document["outside_steps"])
    assert all(set(a) >= ACTIVITY_KEYS and a["bound"] in {*BOUNDS, None} for a in activities)


def test_every_promised_key_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    """The keys of schema 1, on the eager MLP: trace, totals, steps, activities and answers."""
    document = _read_json(capsys, _trace("h200/mlp_64x128x768x3072_eager"))
    assert document["schema"] == "foretrace.read/1"
    assert {"schema", "trace", "totals", "steps", "outside_steps", "answers"} <= set(document)
    assert {"path", "device", "torch", "rank", "world_size", "base_ns", "notes"} <= set(document["trace"])
    assert document["trace"]["device"] == "NVIDIA H200"
    assert document["trace"]["base_ns"].isdecimal()
    assert (document["totals"]["gaps"], document["totals"]["gap_ns"]) == (20, 582_869)
    assert document["totals"]["max_gap_ns"] == 166_206
    step = document["steps"][0]
    assert (step["name"], step["index"], step["gpu_busy_ns"]) == ("ProfilerStep#2", 2, 232_574)
    gemm = next(a for a in step["activities"] if a["kind"] == "kernel")
    assert set(gemm) >= ACTIVITY_KEYS
    assert gemm["chain"] == ["mlp_fwd", "aten::linear", "aten::matmul", "aten::mm"]
    assert (gemm["op"], gemm["launch"], gemm["region"]) == ("aten::mm", "cuLaunchKernelEx", "mlp_fwd")
    assert gemm["shapes"] == [[8192, 768], [768, 3072]]
    assert (gemm["flops"], gemm["bytes"], gemm["bound"]) == (38_654_705_664, 67_633_152, "compute")
    assert gemm["identity"]["tile"] == [256, 128, 64]
    assert (gemm["stream"], gemm["dur_ns"], gemm["graph"], gemm["module"]) == (7, 55_744, False, None)
    for answer in document["answers"]:
        assert {"question", "ask", "sentence", "verdict", "evidence", "advice"} <= set(answer)


def test_what_runs_outside_the_steps_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    """Events launched before the window have no launch in the file, and say so."""
    outside = _read_json(capsys, _trace("h200/mlp_4x2048x2048x16384_eager"))["outside_steps"]
    assert {row["why"] for row in outside} == {"orphan: its launch is not in this file"}
    assert len(outside) == 8


def test_one_step(capsys: pytest.CaptureFixture[str]) -> None:
    """`--step` leaves the one step, its kernels and totals; event times stay those of the file."""
    document = _read_json(capsys, _trace("h200/mlp_64x128x768x3072_eager"), "--step", "2")
    assert [step["index"] for step in document["steps"]] == [2]
    assert (document["totals"]["kernels"], document["totals"]["busy_ns"]) == (5, 232_574)
    assert document["selection"] == {"step": 2, "region": None}
    assert document["outside_steps"] == []


def test_one_region(capsys: pytest.CaptureFixture[str]) -> None:
    """`--region` keeps what the region launched; all of it, where everything runs inside."""
    document = _read_json(capsys, _trace("h200/sdpa"), "--region", "attn")
    assert (document["totals"]["kernels"], document["totals"]["sets"]) == (3, 3)


@pytest.mark.parametrize("form", ["terminal", "markdown", "json"])
@pytest.mark.parametrize("name", ["h200/llama4_decode1", "h200/mlp_recompiles", "two_ranks/ddp_rank0"])
def test_every_format_reads_every_kind(name: str, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Inference, recompiles and a distributed run come out in every format, with nothing on stderr."""
    assert main(["read", _trace(name), "--format", form]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert "NVIDIA H200" in printed.out


def test_the_order_of_ask_and_trace_does_not_matter(capsys: pytest.CaptureFixture[str]) -> None:
    """Questions may stand before or behind the trace, one or several to a flag."""
    trace = _trace("h200/mlp_64x128x768x3072_eager")
    pages = []
    for argv in (
        [trace, "--ask", "window", "metadata"],
        [trace, "--ask", "window", "--ask", "metadata"],
        ["--ask", "window", "metadata", trace],
        ["--ask", "window,metadata", trace],
        [trace, "--ask", "window, metadata"],
    ):
        assert main(["read", *argv]) == 0
        pages.append(capsys.readouterr().out)
    assert len(set(pages)) == 1
    assert pages[0].startswith("What does this trace hold?\n\nNVIDIA H200")


@pytest.mark.skipif(not Path("/dev/stdin").exists(), reason="needs /dev/stdin")
@pytest.mark.parametrize("argv", [["read", "-"], ["check", "-", "--expect", "1 attention"]], ids=" ".join)
def test_a_trace_may_come_from_a_pipe(argv: list[str]) -> None:
    """`ssh host cat trace.json.gz | foretrace read -`, packed or not."""
    packed = Path(_trace("h200/sdpa")).read_bytes()
    for data in (packed, gzip.decompress(packed)):
        done = subprocess.run(
            [sys.executable, "-m", "foretrace", *argv], input=data, capture_output=True, check=False, timeout=60
        )
        assert (done.returncode, done.stderr) == (0, b"")
        assert done.stdout.startswith(b"NVIDIA H200")


@pytest.mark.skipif(not Path("/dev/stdin").exists(), reason="needs /dev/stdout")
def test_a_copy_may_go_into_a_pipe() -> None:
    """`redact - -o -` stands between two pipes; a `-` that is no trace stays one."""
    data = gzip.decompress(Path(_trace("h200/sdpa")).read_bytes())
    command = [sys.executable, "-m", "foretrace"]
    done = subprocess.run([*command, "redact", "-", "-o", "-"], input=data, capture_output=True, check=True, timeout=60)
    assert json.loads(done.stdout)["traceEvents"]
    assert done.stderr.endswith(b"`/dev/stdout` written: removed nothing.\n")
    done = subprocess.run([*command, "explain", "-"], capture_output=True, check=False, timeout=60)
    assert done.stderr.startswith(b"error: unknown option: -.")


def test_an_unknown_question_lists_the_questions(capsys: pytest.CaptureFixture[str]) -> None:
    """A question that does not exist is an error of the command line."""
    assert main(["read", _trace("h200/sdpa"), "--ask", "meaning"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: no question `meaning`\n\nhint: ask one of: window, ")


def test_a_question_is_known_by_its_name_with_hyphens_and_all_are_asked_at_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`round-trips` is `round_trips`; `all` answers every question that the trace raises and names the others."""
    trace = _trace("h200/mlp_64x128x768x3072_eager")
    assert main(["read", trace, "--ask", "round-trips"]) == 0
    assert capsys.readouterr().out.startswith("Which tensors go to HBM and come back?")
    assert main(["read", trace, "--ask", "all"]) == 0
    page = capsys.readouterr().out
    assert page.startswith("What does this trace hold?")
    assert "What should I do first?" in page
    assert "This trace raises no question of variance, compiled, modules" in " ".join(page.split())


def test_a_near_question_is_suggested_before_the_trace_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    """A typo is told at once, even where there is no such file."""
    assert main(["read", "missing.json", "--ask", "roundtrips"]) == 2
    assert capsys.readouterr().err == "error: no question `roundtrips`\n\nhint: did you mean `round_trips`?\n"


def test_the_help_lists_every_question(capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody has to make a mistake to learn what can be asked."""
    assert main(["read", "--help"]) == 0
    page = re.sub(r"[^\w,.]+", " ", capsys.readouterr().out)
    assert ", ".join(known.question for known in readings.READINGS) in page


def test_an_unknown_device_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """`--device-spec` takes a name in the catalogue or a file that is there."""
    assert main(["read", _trace("h200/sdpa"), "--device-spec", "Abacus 9000"]) == 2
    assert capsys.readouterr().err.startswith("error: no ceilings are known for the device `Abacus 9000`\n\nhint: ")
    assert main(["read", _trace("h200/sdpa"), "--device-spec", "missing.toml"]) == 2
    assert "missing.toml" in capsys.readouterr().err


def _cut(path: Path) -> Path:
    text = gzip.decompress(Path(_trace("h200/sdpa")).read_bytes())
    path.write_bytes(text[: len(text) * 2 // 3])
    return path


def test_strict_refuses_a_cut_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Cut short, a trace is read as far as it goes and says so; `--strict` makes that exit code 3 and no report."""
    cut = str(_cut(tmp_path / "cut.json"))
    assert main(["read", cut]) == 0
    assert "truncated" in capsys.readouterr().out.lower()
    assert main(["read", cut, "--strict"]) == 3
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"error: `{cut}` was ")
    assert main(["read", _trace("h200/sdpa"), "--strict", "--no-cache"]) == 0


_INPUTS: dict[str, tuple[bytes | None, str]] = {
    "missing.json": (None, "no file"),
    "empty.json": (b"", "is empty"),
    "notes.pkl": (pickle.dumps({"traceEvents": []}), "is a Python pickle"),
    "graph.json": (b'{"schema": "1.0.1", "pid": 7, "nodes": []}', "execution trace"),
    "other.json": (b'{"name": "x", "values": [1, 2]}', "without `traceEvents`"),
    "words.txt": (b"hello\n", "no profiler trace"),
}


@pytest.mark.parametrize("name", _INPUTS)
def test_what_is_no_trace_is_named(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One error line that says what the input is, a blank line, a hint; exit code 2, nothing on stdout."""
    content, says = _INPUTS[name]
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    assert main(["read", str(path)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    error, blank, hint = printed.err.splitlines()
    assert error.startswith("error: ")
    assert says in error
    assert blank == ""
    assert hint.startswith("hint: ")


def test_an_empty_folder_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder without a trace is refused in the same shape."""
    assert main(["read", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith(f"error: no trace in `{tmp_path}`\n\nhint: ")


def _cpu_step(number: int, at: int) -> list[tuple[str, str, int, int]]:
    return [
        ("user_annotation", f"ProfilerStep#{number}", at, 900),
        ("user_annotation", "forward", at + 10, 880),
        ("cpu_op", "aten::linear", at + 20, 500),
        ("cpu_op", "aten::t", at + 25, 12),
        ("cpu_op", "aten::addmm", at + 40, 470),
        ("cpu_op", "aten::gelu", at + 530, 300),
    ]


@pytest.mark.parametrize(
    ("slices", "page"), [([], "read_empty.txt"), ([*_cpu_step(1, 0), *_cpu_step(2, 1_000)], "read_cpu.txt")]
)
def test_traces_without_a_gpu_read_well(
    slices: list[tuple[str, str, int, int]],
    page: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    snapshot: Callable[[str, str], None],
) -> None:
    """An empty trace says that it is empty; one of the CPU alone shows its operators instead of kernels."""
    path = tmp_path / "cpu.json"
    events = [
        {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": start, "dur": dur}
        for cat, name, start, dur in slices
    ]
    path.write_text(json.dumps({"traceEvents": events}))
    assert main(["read", str(path)]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    snapshot(printed.out, page)


_PAGES = {
    "read_eager_100.txt": (100, "h200/mlp_64x128x768x3072_eager"),
    "read_eager_80.txt": (80, "h200/mlp_64x128x768x3072_eager"),
    "read_decode_100.txt": (100, "h200/llama4_decode1"),
    "read_recompiles_100.txt": (100, "h200/mlp_recompiles"),
    "read_train_100.txt": (100, "h200/train_mlp_eager"),
    "read_straggler_100.txt": (100, "two_ranks/ddp_straggler_rank0"),
    "read_eager_step_100.txt": (100, "h200/mlp_64x128x768x3072_eager", "--step", "3"),
    "read_eager_asked_100.txt": (100, "h200/mlp_64x128x768x3072_eager", "--ask", "chain", "metadata", "graphs"),
    "read_eager.md": (100, "h200/mlp_64x128x768x3072_eager", "--format", "markdown"),
}


@pytest.mark.parametrize("page", _PAGES)
def test_the_page_as_accepted(
    page: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, snapshot: Callable[[str, str], None]
) -> None:
    """Whole pages at a pinned width, accepted after reading them as a user would."""
    width, name, *options = _PAGES[page]
    monkeypatch.setenv("COLUMNS", str(width))
    assert main(["read", _trace(str(name)), *map(str, options)]) == 0
    snapshot(capsys.readouterr().out, page)
