"""``foretrace profile TARGET --variants …`` ends with the variants side by side."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

TARGET = Path(__file__).parent / "capture" / "targets" / "mlp.py"


@pytest.mark.slow
def test_two_variants_are_compared_at_the_end(tmp_path: Path) -> None:
    """Both are in the record with errors against fp32 and two new shapes; eager recompiles nothing and never pays."""
    command = [sys.executable, "-m", "foretrace", "profile", f"{TARGET}:geglu", "--variants", "eager,compile"]
    done = subprocess.run(
        [*command, "--out", str(tmp_path), "--format", "json"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    eager, compiled = json.loads(done.stdout)["comparison"]
    assert (eager["variant"], compiled["variant"]) == ("eager", "compile")
    assert eager["max_abs_error"] == 0
    assert eager["break_even_calls"] is None
    assert compiled["relative_error"] < 1e-5
    assert [shape["what"] for shape in compiled["new_shapes"]] == ["batch 4 → 2", "batch 4 → 3"]
    assert [shape["recompiles"] for shape in eager["new_shapes"]] == [0, 0]
    assert compiled["new_shapes"][0]["recompiles"] == 1
    assert compiled["first_call_ns"] > 10 * compiled["wall_ns"]


def test_one_variant_is_not_compared(tmp_path: Path) -> None:
    """Nothing extra is measured, and the record says so by an empty comparison."""
    command = [sys.executable, "-m", "foretrace", "profile", f"{TARGET}:geglu", "--out", str(tmp_path)]
    done = subprocess.run([*command, "--format", "json"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["comparison"] == []
    assert json.loads((tmp_path / "geglu_eager.env.json").read_text())["new_shapes"] == []
