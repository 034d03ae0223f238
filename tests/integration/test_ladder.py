"""The road, over the recorded H200 traces and live on this machine."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from foretrace.cli.app import main

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def recorded() -> dict[str, dict[str, Any]]:
    """The recorded road as JSON: rung → record."""
    command = [sys.executable, "-m", "foretrace", "ladder", "--recorded", "--format", "json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return {rung["name"]: rung for rung in json.loads(done.stdout)["rungs"]}


def guesses(rung: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Claim → verdict and what is there."""
    return {guess["claim"]: (guess["verdict"], guess["why"]) for guess in rung["guesses"]}


def test_eager_and_compiled_linear_run_one_kernel_of_the_same_name(recorded: dict[str, dict[str, Any]]) -> None:
    """One kernel each, the same name byte for byte, and ``aten::t`` gone from the CPU."""
    assert recorded["linear_eager"]["kernels_per_step"] == 1
    assert recorded["linear_compiled"]["kernels_per_step"] == 1
    seen = guesses(recorded["linear_compiled"])
    assert seen["the GEMM kernels are those of eager, byte for byte"] == (
        "confirmed",
        "`nvjet_sm90_tst_64x8_64x16_1x2_h_bz_bias_TNT`",
    )
    assert seen["`aten::t` is gone from the CPU"] == ("confirmed", "1 before, 0 now")


def test_the_mlp_runs_five_four_four_kernels_and_one(recorded: dict[str, dict[str, Any]]) -> None:
    """Eager, compiled, hand-tuned and fused; compile fuses gelu and mul and leaves the GEMMs alone."""
    rungs = ("mlp_eager", "mlp_compiled", "mlp_liger", "mlp_fused")
    assert [recorded[rung]["kernels_per_step"] for rung in rungs] == [5, 4, 4, 1]
    compiled = guesses(recorded["mlp_compiled"])
    assert compiled["gelu and mul are one generated kernel"] == (
        "confirmed",
        "`triton_poi_fused__unsafe_view_gelu_mul_0`, with _unsafe_view, gelu, mul inside",
    )
    for rung in ("mlp_compiled", "mlp_liger"):
        verdict, names = guesses(recorded[rung])["the GEMM kernels are those of eager, byte for byte"]
        assert verdict == "confirmed"
        assert names == (
            "`nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT`, `nvjet_sm90_tst_192x128_64x5_1x2_h_bz_coopB_TNT`"
        )


def test_hopper_breaks_the_guess_about_launches_and_surprises(recorded: dict[str, dict[str, Any]]) -> None:
    """No occupancy query and ``cuLaunchKernelEx`` where an A100 has a query and ``cudaLaunchKernel``; and memsets."""
    verdict, why = next(v for claim, v in guesses(recorded["mlp_eager"]).items() if "occupancy" in claim)
    assert verdict == "broken"
    assert why.startswith("3 × `cuLaunchKernelEx`; 0 occupancy queries")
    assert any("2 memsets a step" in text for text in recorded["mlp_eager"]["surprises"])
    assert any("`cuLaunchKernelEx`" in text for text in recorded["mlp_eager"]["surprises"])


def test_the_figures_are_those_of_the_traces(recorded: dict[str, dict[str, Any]]) -> None:
    """GPU busy time of a step, median of three, nanoseconds."""
    assert {name: rung["gpu_ns"] for name, rung in recorded.items() if name.startswith("mlp")} == {
        "mlp_eager": 233438,
        "mlp_compiled": 206047,
        "mlp_liger": 211132,
        "mlp_fused": 174496,
    }


def test_the_recorded_road_says_that_it_is_recorded(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first lines name the GPU and say that nothing ran here, and no file is written."""
    monkeypatch.chdir(tmp_path)
    assert main(["ladder", "--recorded"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("The road from nn.Linear to a fused MLP, recorded on NVIDIA H200\n")
    assert "nothing ran on this machine" in shown
    assert list(tmp_path.iterdir()) == []


def test_the_recorded_road_needs_no_torch() -> None:
    """A machine without torch can walk the recorded traces."""
    code = (
        "import sys; sys.modules['torch'] = None; from foretrace.cli.app import main; "
        "sys.exit(main(['ladder', 'mlp', '--recorded']))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_live_road_on_a_cpu_profiles_for_real(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Traces and a Markdown report are written; what a CPU can show is held, what it cannot is unknown."""
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    command = ["ladder", "linear", "--device", "cpu", "--batch", "32", "--format", "json", "--out", "road"]
    assert main(command) == 0
    road = json.loads(capsys.readouterr().out)
    assert road["recorded"] is False
    eager, compiled = road["rungs"]
    events = json.loads(gzip.decompress((tmp_path / eager["trace"]).read_bytes()))["traceEvents"]
    assert sum(event["name"] == "aten::addmm" for event in events) == 3
    assert guesses(eager)["1 kernel a step: 1 gemm"][0] == "unknown"
    assert guesses(compiled)["`aten::t` is gone from the CPU"][0] == "confirmed"
    assert compiled["first_call_ns"] > eager["first_call_ns"] > 0
    assert "nn.Linear with a bias, torch.compile" in (tmp_path / "road" / "ladder.md").read_text(encoding="utf-8")
    assert main(command) == 2, "a second walk does not overwrite the first"
    assert "--force" in capsys.readouterr().err
