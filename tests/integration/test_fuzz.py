"""A small, seeded part of the fuzz run in `bench/fuzz_reader.py`."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from types import ModuleType

BENCH = Path(__file__).resolve().parents[2] / "bench" / "fuzz_reader.py"

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the time limit is an alarm signal")


@pytest.fixture(scope="module")
def fuzz_reader() -> ModuleType:
    """The benchmark as a module."""
    spec = importlib.util.spec_from_file_location("fuzz_reader", BENCH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["fuzz_reader"] = module
    spec.loader.exec_module(module)
    return module


def test_mutated_traces_end_in_a_run_or_in_a_one_line_error(fuzz_reader: ModuleType, tmp_path: Path) -> None:
    """300 cut, flipped, spliced and spoilt traces: no traceback, no hang, and both endings do occur."""
    outcomes = [fuzz_reader.outcome(seed, str(tmp_path)) for seed in range(7_000_000, 7_000_300)]
    assert [one for one in outcomes if one.ending == "fault"] == []
    assert {"run", "error"} <= {one.ending for one in outcomes}
