"""Every kernel compiled for real targets without a GPU: no spills as shipped, no double precision."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "compile_ahead.py"


@pytest.mark.slow
@pytest.mark.parametrize("architecture", [80, 90, 100])
def test_compiles_without_spills_or_fp64(architecture: int) -> None:
    """The assembler reports no stack and no local memory for any kernel, and no PTX holds an ``.f64``."""
    environment = {**os.environ, "TRITON_INTERPRET": "0"}
    command = [sys.executable, str(SCRIPT), str(architecture)]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert len(lines) == {80: 16, 90: 43, 100: 16}[architecture]
    assert [line for line in lines if not line.endswith("STACK:0 LOCAL:0 f64:no")] == []
