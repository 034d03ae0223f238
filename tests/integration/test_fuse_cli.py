"""``foretrace fuse`` and ``foretrace tune`` on the CPU, where the fused layers run plain PyTorch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch")

from foretrace import fused
from foretrace.cli import tune
from foretrace.cli.app import main
from foretrace.fused import layers
from foretrace.fused.identify import OTHER
from foretrace.fused.tuning import table
from foretrace.fused.tuning import tune as tuning

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import torch
    from pytest import CaptureFixture, MonkeyPatch  # noqa: PT013 - names for annotations

TARGETS = Path(__file__).parent / "fuse_targets.py"
MULTIPLIER = f"{OTHER}: it calls mul 2 times"
COULD_NOT = "the check could not run:"
FUNCTION = "the target's factory returns a function, in which no module can be found"


def _fuse(capsys: CaptureFixture[str], factory: str, *flags: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, record, and what was said on stderr beside the progress."""
    before, _, after = " ".join(flags).partition("-- ")
    argv = [
        "fuse",
        f"{TARGETS}:{factory}",
        *before.split(),
        "--format",
        "json",
        *(["--", *after.split()] * bool(after)),
    ]
    code = main(argv)
    out, err = capsys.readouterr()
    said = "\n".join(line for line in err.splitlines() if not line.endswith(" …"))
    return code, json.loads(out) if out else {}, said


def test_a_model_that_is_a_gated_mlp(capsys: CaptureFixture[str]) -> None:
    """Other names, exact GELU and biases: found, with its sizes, the rows of the arguments and the plain path."""
    code, record, _ = _fuse(capsys, "plain")
    assert (code, record["schema"], record["device"], record["check"]) == (0, "foretrace.fuse/1", None, None)
    assert record["sentence"] == (
        "1 of 1 gated MLP can be replaced; here they run plain PyTorch: the kernels need a CUDA GPU."
    )
    call = {"rows": 6, "path": "plain", "why": "no kernel runs on cpu"}
    found = {"name": "", "was": "Plain", "activation": "gelu", "dim": 16, "hidden": 24, "refused": None}
    assert record["modules"] == [{**found, "calls": [call]}]


def test_a_multiplier_is_refused_in_words_and_the_other_layers_are_not(capsys: CaptureFixture[str]) -> None:
    """Two of three layers of a Llama are served with 2 × 5 rows; the scaled one is left alone and says why."""
    code, record, _ = _fuse(capsys, "llama", "-- --layers 3 --multiplier 0.5")
    assert code == 0
    assert record["sentence"].startswith("2 of 3 gated MLPs can be replaced; ")
    rows = [(m["name"], m["activation"], m["refused"], [c["rows"] for c in m["calls"]]) for m in record["modules"]]
    assert rows == [
        ("0.mlp", "silu", None, [10]),
        ("1.mlp", "silu", None, [10]),
        ("2.mlp", None, MULTIPLIER, []),
    ]


def test_a_method_brings_several_numbers_of_rows(capsys: CaptureFixture[str]) -> None:
    """Six rows at once and then one by one are two choices of a path; the swapped method gives the same."""
    code, record, _ = _fuse(capsys, "method", "--check")
    assert [call["rows"] for call in record["modules"][0]["calls"]] == [6, 1]
    assert (code, record["check"]["held"]) == (0, True)


def test_the_path_is_the_one_that_a_layer_would_take(capsys: CaptureFixture[str], monkeypatch: MonkeyPatch) -> None:
    """Where Triton's interpreter stands in for a GPU, the path is no longer the plain one."""
    pytest.importorskip("triton")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    _, record, _ = _fuse(capsys, "plain", "--grad")
    assert record["modules"][0]["calls"] == [{"rows": 6, "path": "pointwise", "why": "Triton's interpreter"}]


@pytest.mark.parametrize(("device", "path"), [("h200", "fused"), ("NVIDIA A100 SXM4 80GB", "pointwise")])
def test_a_device_that_is_not_here(device: str, path: str, capsys: CaptureFixture[str]) -> None:
    """Its measured times decide, whatever Triton is here; everything is built and called on fake tensors."""
    code = main(["fuse", f"{TARGETS}:large", "--on", device, "--format", "json"])
    record = json.loads(capsys.readouterr().out)
    assert (code, record["is_here"]) == (0, False)
    assert record["sentence"].endswith(f"they take the `{path}` path on {record['device']}.")
    [call] = record["modules"][0]["calls"]
    assert (call["rows"], call["path"]) == (8192, path)
    assert ("measured at 8192 × 768 × 3072 (forward)" in call["why"]) == (path == "fused")
    assert main(["fuse", f"{TARGETS}:large", "--on", device]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"on {record['device']} ·")
    assert f"ask again where {record['device']} is" in shown


def test_a_device_of_ones_own(tmp_path: Path, capsys: CaptureFixture[str]) -> None:
    """A file without a maker is taken at its word."""
    spec = tmp_path / "mine.toml"
    spec.write_text('name = "NVIDIA H200"\ncompute_capability = "9.0"\n', encoding="utf-8")
    _, record, _ = _fuse(capsys, "large", "--on", str(spec))
    assert record["modules"][0]["calls"][0]["path"] == "fused"


@pytest.mark.parametrize(("device", "factory", "path"), [("Gaudi 3", "large", "plain"), ("h200", "mixed", "plain")])
def test_what_no_kernel_serves_there(device: str, factory: str, path: str, capsys: CaptureFixture[str]) -> None:
    """Another maker's device, or weights of two types."""
    main(["fuse", f"{TARGETS}:{factory}", "--on", device, "--format", "json"])
    assert json.loads(capsys.readouterr().out)["modules"][0]["calls"][0]["path"] == path


@pytest.mark.parametrize("flag", ["--check", "--measure"])
def test_only_what_is_here_can_be_checked_or_measured(flag: str, capsys: CaptureFixture[str]) -> None:
    """An error, and what to leave out."""
    code, _, said = _fuse(capsys, "plain", flag, "--on", "h200")
    assert (code, said.count("leave out `--on`")) == (2, 1)


def test_a_swap_that_agrees_holds(capsys: CaptureFixture[str]) -> None:
    """On the CPU a bf16 Llama gives the same bits; eager's own error stands beside, and decides the tolerance."""
    code, record, said = _fuse(capsys, "llama", "--check")
    check = record["check"]
    assert (code, said, check["held"], check["reference"]) == (0, "", True, "fp32")
    assert [layer["name"] for layer in check["layers"]] == ["0.mlp", "1.mlp"]
    for one in (check["whole"], *check["layers"]):
        assert one["swapped"] == {"max_abs": 0.0, "relative": 0.0}
        assert 1e-4 < one["original_own"]["relative"] < 2**-7
        assert one["swapped_own"] == one["original_own"]
        # twice the original's own error, one rounding of bf16 at least
        assert one["tolerance"]["relative"] == 2 * max(one["original_own"]["relative"], 2**-8)


def test_a_model_in_fp32_is_held_against_fp64(capsys: CaptureFixture[str]) -> None:
    """Against fp32 its own error would be nothing, and any other order of sums would break the check."""
    code, record, _ = _fuse(capsys, "plain", "--check")
    assert (code, record["check"]["reference"]) == (0, "fp64")
    assert 0 < record["check"]["whole"]["original_own"]["relative"] < 1e-6


def test_a_layer_without_rows_is_judged_only_with_the_model(capsys: CaptureFixture[str]) -> None:
    """An expert that gets no tokens has no results to compare, and does not break the check."""
    code, record, _ = _fuse(capsys, "idle", "--check")
    assert [call["rows"] for call in record["modules"][0]["calls"]] == [0]
    assert (code, record["check"]["held"], record["check"]["layers"]) == (0, True, [])


def _scaled(y: torch.Tensor) -> torch.Tensor:
    return y * 1.05


def _one_element(y: torch.Tensor) -> torch.Tensor:
    y = y.clone()
    y[0, 0, 0] += 0.25
    return y


def _not_a_number(y: torch.Tensor) -> torch.Tensor:
    return y * float("nan")


@pytest.mark.parametrize("fault", [_scaled, _one_element, _not_a_number])
def test_a_swap_that_is_wrong_breaks_the_check(
    fault: Callable[[torch.Tensor], torch.Tensor], capsys: CaptureFixture[str], monkeypatch: MonkeyPatch
) -> None:
    """5 % off everywhere, one element off, not a number: exit code 1, and the report says by how much.

    The residual stream hides the first two in the rounding of the whole model.
    """

    def wrong(*args: Any, **kwargs: Any) -> torch.Tensor:
        return fault(fused.gated_mlp(*args, **kwargs))

    monkeypatch.setattr(layers, "gated_mlp", wrong)
    code, record, _ = _fuse(capsys, "llama", "--check", "-- --layers 1")
    assert (code, record["check"]["held"]) == (1, False)
    assert "beyond its own" in record["check"]["sentence"]


def test_a_check_without_a_swap_could_not_run(capsys: CaptureFixture[str]) -> None:
    """The report is printed with its reasons, and the gate does not pass for want of anything to judge."""
    code, record, said = _fuse(capsys, "llama", "--check", "-- --layers 1 --multiplier 2")
    assert (code, record["check"]) == (2, None)
    assert record["sentence"] == "0 of 1 gated MLP can be replaced; the table says what stands in the way."
    assert said == "error: nothing was swapped, so nothing could be checked\n\nhint: the report says why"
    assert _fuse(capsys, "linear")[:1] == (0,)
    assert _fuse(capsys, "linear", "--measure")[2].endswith("hint: give a target with a gated MLP")


@pytest.mark.parametrize(
    ("factory", "flags", "text"),
    [
        (
            "llama",
            ("--check", "-- --dropout 0.5"),
            f"error: {COULD_NOT} the original gives other results in each call\n\nhint: call `model.eval()`",
        ),
        ("infinite", ("--check",), f"error: {COULD_NOT} the original's own results are not all finite"),
        (
            "lost_method",
            ("--check",),
            "error: `twice` is lost: its module is a gated MLP that is replaced as a whole",
        ),
        (
            "function",
            (),
            f"error: {FUNCTION}\n\nhint: return the model and its arguments: `return model, (x,)`",
        ),
    ],
)
def test_what_cannot_be_judged_is_an_error(
    factory: str, flags: tuple[str, ...], text: str, capsys: CaptureFixture[str]
) -> None:
    """Dropout, infinities, a lost method and a function: exit code 2, one line that says why, and no report."""
    assert _fuse(capsys, factory, *flags) == (2, {}, text)


def test_what_is_fused_already_is_said(tmp_path: Path, capsys: CaptureFixture[str]) -> None:
    """A model whose gated MLPs are fused layers has nothing left to replace, and that is no failure to find any."""
    path = tmp_path / "fused_already.py"
    path.write_text(
        "import torch\nfrom foretrace.fused import SwiGLUMLP\n\n"
        "def net():\n    return torch.nn.Sequential(SwiGLUMLP(16, 32), SwiGLUMLP(16, 32)), (torch.randn(2, 16),)\n"
    )
    assert main(["fuse", f"{path}:net"]) == 0
    assert f"Fused already: 2 gated MLPs of `{path}:net`; no other was found." in " ".join(
        capsys.readouterr().out.split()
    )


def test_a_script_has_no_factory(capsys: CaptureFixture[str]) -> None:
    """A file alone is refused before anything runs."""
    assert main(["fuse", str(TARGETS)]) == 2
    assert capsys.readouterr().err.startswith(f"error: `{TARGETS}` names no factory\n\nhint: ")


def test_measuring_keeps_two_traces(tmp_path: Path, capsys: CaptureFixture[str], monkeypatch: MonkeyPatch) -> None:
    """Both sides are captured, timed bare and compared; the interpreter's kernels are no GPU work."""
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    argv = ["fuse", f"{TARGETS}:llama", "--measure", "--out", str(tmp_path)]
    assert main([*argv, "--format", "json"]) == 0
    measured = json.loads(capsys.readouterr().out)["measured"]
    assert sorted(path.name for path in tmp_path.glob("*.json.gz")) == ["llama_eager.json.gz", "llama_fused.json.gz"]
    assert (measured["before"]["variant"], measured["after"]["variant"]) == ("eager", "fused")
    assert measured["before"]["wall_ns"] > 0
    assert measured["diff"]["schema"] == "foretrace.diff/1"
    assert measured["diff"]["steps"]["verdict"] == "inconclusive"
    assert main(argv) == 2
    assert "exists and is not overwritten" in capsys.readouterr().err


def test_the_same_operators_are_not_measured(tmp_path: Path, capsys: CaptureFixture[str]) -> None:
    """On a CPU both models run PyTorch's own operators: minutes of timing would show noise."""
    argv = ["fuse", f"{TARGETS}:llama", "--measure", "--out", str(tmp_path)]
    assert main([*argv, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["measured"] is None
    assert main(argv) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "note: not measured: both run PyTorch's own operators here" in shown
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        ((), "tuning measures kernels, and there is no CUDA GPU here"),
        (("--rows", "8"), "a shape needs `--rows`, `--dim` and `--hidden`"),
        (("--rows", "8,x", "--dim", "4", "--hidden", "8"), "`8,x` rows of 4 → 8 are no shapes"),
        (("--rows", "0", "--dim", "4", "--hidden", "8"), "`0` rows of 4 → 8 are no shapes"),
        (("--rows", ",", "--dim", "4", "--hidden", "8"), "`,` rows of 4 → 8 are no shapes"),
        (
            ("--target", "t.py:f", "--rows", "8", "--dim", "4", "--hidden", "8"),
            "a target brings shapes of its own",
        ),
        (("--", "--dim", "4"), "`--dim` is no option"),
    ],
)
def test_tuning_refuses_in_words(
    argv: tuple[str, ...], text: str, tmp_path: Path, capsys: CaptureFixture[str], monkeypatch: MonkeyPatch
) -> None:
    """No CUDA GPU, or shapes that are none: exit code 2, and nothing is written."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert main(["tune", "--out", str(tmp_path / "new"), *argv]) == 2
    assert capsys.readouterr().err.startswith(f"error: {text}\n\nhint: ")
    assert not (tmp_path / "new").exists()


def _table(path: Path, *rows: tuple[int, float]) -> Path:
    """A table of (rows, µs of pointwise) at one width; the path `rows` takes half of it."""
    measured = [
        {"mode": "forward", "rows": n, "dim": 16, "hidden": 24, "us": {"pointwise": us, "rows": us / 2}}
        for n, us in rows
    ]
    path.write_text(json.dumps({"device": "Some GPU", "rows": measured}), encoding="utf-8")
    return path


def test_tuning_a_target_adds_its_shapes_to_the_table(
    tmp_path: Path, capsys: CaptureFixture[str], monkeypatch: MonkeyPatch
) -> None:
    """Its rows are measured, each once; the table there keeps its other shapes, and the layers can read it."""

    def fake(folder: Path, shapes: Iterable[tuple[int, int, int]]) -> Path:
        return _table(folder / "some_gpu.json", *((rows, 9.0) for rows, _, _ in shapes))

    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.get_device_name", lambda: "Some GPU")
    monkeypatch.setattr(tuning, "tune", fake)
    _table(tmp_path / "some_gpu.json", (64, 7.0), (6, 1.0))
    argv = ["tune", "--out", str(tmp_path), "--target", f"{TARGETS}:method", "--format", "json"]
    assert main(argv) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["sentence"] == f"2 shapes measured; the times are in {tmp_path / 'some_gpu.json'}."
    assert [(row["rows"], row["fastest"]) for row in record["rows"]] == [(6, "rows"), (1, "rows")]
    kept = table.parse((tmp_path / "some_gpu.json").read_text(encoding="utf-8"))
    assert [(row.rows, row.us["pointwise"]) for row in kept] == [(64, 7.0), (6, 9.0), (1, 9.0)]

    monkeypatch.setattr(tuning, "tune", None)  # refused before anything is measured
    (tmp_path / "some_gpu.json").write_text("no table", encoding="utf-8")
    assert main(argv) == 2
    assert "is no table of measured times" in capsys.readouterr().err


def test_a_table_goes_into_a_new_folder(tmp_path: Path) -> None:
    """Without a table there, what was measured is the table, in a file that the layers can read."""
    measured = json.loads(_table(tmp_path / "measured.json", (8, 2.0)).read_text(encoding="utf-8"))
    path = tmp_path / "a" / "b" / "some_gpu.json"
    assert tune.prepare(path) == []
    tune.keep(measured, [], path)
    assert [(row.rows, row.us) for row in table.parse(path.read_text(encoding="utf-8"))] == [
        (8, {"pointwise": 2.0, "rows": 1.0})
    ]
