"""Guesses from code alone, held against recorded traces, through the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from foretrace.cli.app import main

pytest.importorskip("torch")

ROOT = Path(__file__).parents[1]
TARGETS = ROOT / "unit" / "guess" / "targets.py"
H200 = ROOT / "data" / "h200"
ONE_ROW = ("--batch", "1", "--seq", "1")


def _guess(capsys: pytest.CaptureFixture[str], target: str, *arguments: str, variant: str = "eager") -> dict[str, Any]:
    line = ["guess", f"{TARGETS}:{target}", "--on", "h200", "--variant", variant, "--format", "json", "--", *arguments]
    assert main(line) == 0
    record: dict[str, Any] = json.loads(capsys.readouterr().out)
    return record


def _check(
    capsys: pytest.CaptureFixture[str], trace: str, target: str, *arguments: str, options: tuple[str, ...] = ()
) -> tuple[int, dict[str, Any]]:
    line = ["check", str(H200 / f"{trace}.json.gz"), "--target", f"{TARGETS}:{target}", "--format", "json", *options]
    code = main([*line, "--", *arguments])
    return code, json.loads(capsys.readouterr().out)


def _rows(record: dict[str, Any]) -> list[tuple[str, str | None]]:
    return [(row["verdict"], row["op_class"]) for row in record["rows"]]


CONFIRMED_MLP = [
    ("confirmed", "gemm"),
    ("confirmed", "pointwise"),
    ("confirmed", "gemm"),
    ("confirmed", "pointwise"),
    ("confirmed", "gemm"),
]


def test_the_articles_linear_layer(capsys: pytest.CaptureFixture[str]) -> None:
    """One addmm with its bias in the epilogue: 2·8192·4096·4096 FLOPs, eager and compiled; a memset surprises."""
    guess = _guess(capsys, "linear")
    (kernel,) = guess["kernels"]
    assert (kernel["op"], kernel["epilogue"], kernel["from"]) == ("aten::addmm", "bias", "Linear")
    assert kernel["flops"] == 274_877_906_944
    assert "aten::t" in guess["launches_nothing"]
    for trace in ("linear_8192x4096x4096_eager", "linear_8192x4096x4096_compiled"):
        code, record = _check(capsys, trace, "linear")
        assert code == 0
        assert record["held"]
        assert ("confirmed", "gemm") in _rows(record)
        assert _rows(record)[-1] == ("surprise", "fill")
        assert "cuBLAS" in record["rows"][-1]["why"]


def test_the_articles_mlp_at_8192_rows(capsys: pytest.CaptureFixture[str]) -> None:
    """Five kernels, every row confirmed, the two memsets named; 38.65 GFLOP a GEMM at 989.4 TFLOP/s are 39.07 µs."""
    guess = _guess(capsys, "geglu")
    assert [k["from"] for k in guess["kernels"]] == ["gate_proj", "GeGLU", "up_proj", "GeGLU", "down_proj"]
    assert guess["kernels"][0]["flops"] == 38_654_705_664
    assert guess["kernels"][0]["bytes"] == 67_633_152
    assert guess["kernels"][0]["floor_ns"] == 39_069
    assert guess["regime"] == "compute-bound"
    code, record = _check(capsys, "mlp_64x128x768x3072_eager", "geglu")
    assert code == 0
    assert _rows(record) == [*CONFIRMED_MLP, ("surprise", "fill")]
    assert record["sentence"] == "Held, with one surprise: 5 kernels as guessed."


def test_the_compiled_mlp_at_8192_rows(capsys: pytest.CaptureFixture[str]) -> None:
    """Three GEMMs and the one fused kernel of the trace, by its own name, in one graph."""
    guess = _guess(capsys, "geglu", variant="compile")
    assert guess["graphs"] == 1
    fused = [k for k in guess["kernels"] if k["fused_ops"]]
    assert [k["op"] for k in fused] == ["triton_poi_fused__unsafe_view_gelu_mul"]
    assert fused[0]["bytes"] == 150_994_944  # two tensors of 8192 × 3072 in bf16 read, one written
    code, record = _check(capsys, "mlp_64x128x768x3072_compiled", "geglu")
    assert code == 0
    assert [row["verdict"] for row in record["rows"]] == ["confirmed"] * 5 + ["surprise"]


def test_one_row_splits_k(capsys: pytest.CaptureFixture[str]) -> None:
    """Six kernels eager and five compiled, the split-K reduction among them."""
    guess = _guess(capsys, "geglu", *ONE_ROW)
    assert [k["op_class"] for k in guess["kernels"]][-2:] == ["gemm", "gemm-helper"]
    assert "K = 3072" in guess["kernels"][-1]["why"]
    assert guess["regime"] == "overhead-bound"
    code, record = _check(capsys, "mlp_1x1x768x3072_eager", "geglu", *ONE_ROW)
    assert (code, record["ran"]) == (0, 6)
    assert _rows(record) == [*CONFIRMED_MLP, ("confirmed", "gemm-helper")]
    code, record = _check(capsys, "mlp_1x1x768x3072_compiled", "geglu", *ONE_ROW)
    assert (code, record["ran"]) == (0, 5)
    assert {row["verdict"] for row in record["rows"]} == {"confirmed"}


def test_a_whole_training_step(capsys: pytest.CaptureFixture[str]) -> None:
    """Forward, backward and the foreach optimizer: 23 kernels in the trace's own order."""
    code, record = _check(capsys, "train_mlp_eager", "training")
    assert (code, record["guessed"], record["ran"]) == (0, 23, 23)
    assert record["sentence"].startswith("Held")
    assert sum(row["verdict"] == "confirmed" for row in record["rows"]) == 23


@pytest.mark.parametrize(
    ("trace", "arguments", "named"),
    [
        ("mlp_64x128x768x3072_eager", ("--norm",), "norm native_layer_norm"),
        ("mlp_64x128x768x3072_eager", ("--bias",), "gate_proj addmm"),
        ("mlp_64x128x768x3072_compiled", ("--split",), "geglu as 2 graphs"),
        ("mlp_64x128x768x3072_eager", ("--hidden", "4096"), "gate_proj mm"),
    ],
    ids=["an extra norm", "a bias that is missing", "a graph break more", "another width"],
)
def test_a_broken_guess_names_the_module(
    capsys: pytest.CaptureFixture[str], trace: str, arguments: tuple[str, ...], named: str
) -> None:
    """Exit code 1, and the sentence says which module's kernel it is."""
    code, record = _check(capsys, trace, "geglu", *arguments)
    assert code == 1
    assert not record["held"]
    assert named in record["sentence"]
    assert any(row["verdict"] == "broken" and named == row["guess"] for row in record["rows"])


def test_a_bias_that_nobody_guessed_breaks(capsys: pytest.CaptureFixture[str]) -> None:
    """The recorded layer has a bias; a guess without one is told of the epilogue."""
    code, record = _check(
        capsys, "linear_1024x32x64_eager", "linear", "--rows", "1024", "--dim", "32", "--out", "64", "--no-bias"
    )
    assert code == 1
    assert "a bias is added in the epilogue that you did not guess" in record["sentence"]


def test_a_written_guess_can_be_edited(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """`--write` makes a file that holds; one number changed in it breaks, and JUnit says which case failed."""
    path, junit = tmp_path / "mlp.toml", tmp_path / "junit.xml"
    assert main(["guess", f"{TARGETS}:geglu", "--on", "h200", "--write", str(path)]) == 0
    trace = str(H200 / "mlp_64x128x768x3072_eager.json.gz")
    assert main(["check", trace, "--guess", str(path)]) == 0
    path.write_text(path.read_text("utf-8").replace('"aten::gelu"', '"aten::silu"'), "utf-8")
    assert main(["check", trace, "--guess", str(path), "--junit", str(junit)]) == 1
    assert "GeGLU silu" in capsys.readouterr().out
    suite = ET.parse(junit).getroot()
    failed = [case.get("name") for case in suite if case.find("failure") is not None]
    assert (suite.get("failures"), failed) == ("1", ["GeGLU silu"])
    assert main(["guess", f"{TARGETS}:geglu", "--write", str(path)]) == 2  # never overwritten unasked


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["guess", f"{TARGETS}:failing"], "ValueError: the tokens are missing"),
        (["guess", f"{TARGETS}:geglu", "--on", "h9000"], "no ceilings are known for the device `h9000`"),
        (["guess", str(TARGETS)], "names no factory"),
        (["check", "trace.json"], "give one of `--guess`, `--target` and `--expect`"),
        (["check", "trace.json", "--expect", "3 gemn"], "no class of kernels `gemn`"),
    ],
)
def test_mistakes_are_said_in_one_line(capsys: pytest.CaptureFixture[str], line: list[str], message: str) -> None:
    """Exit code 2, one error, a hint."""
    assert main(line) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "hint:" in error


@pytest.mark.parametrize("junit", ["missing/rows.xml", "."])
def test_a_junit_file_that_cannot_be_written_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, junit: str
) -> None:
    """A missing folder, or a folder where the file should be, is an error of its own and no traceback."""
    trace = str(H200 / "mlp_1x1x768x3072_eager.json.gz")
    assert main(["check", trace, "--expect", "3 gemm", "--junit", str(tmp_path / junit), "--force"]) == 2
    assert capsys.readouterr().err.startswith("error: cannot write `")


def test_a_guess_that_nothing_runs_breaks_on_whatever_ran(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """An empty file is no guess; one that says `kernel = []` is, and six kernels break it."""
    trace, path = str(H200 / "mlp_1x1x768x3072_eager.json.gz"), tmp_path / "nothing.toml"
    path.write_text("")
    assert main(["check", trace, "--guess", str(path)]) == 2
    assert "lists no kernel" in capsys.readouterr().err
    path.write_text("kernel = []\n")
    assert main(["check", trace, "--guess", str(path)]) == 1
    assert "Broken (you guessed 0 kernels, 6 ran)" in capsys.readouterr().out
