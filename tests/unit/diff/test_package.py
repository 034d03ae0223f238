"""``foretrace.diff`` is a function, and a package, whichever is asked for first."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TRACE = Path(__file__).parents[2] / "data" / "h200" / "linear_1024x32x64_eager.json.gz"


@pytest.mark.parametrize("first", ["import foretrace", "import foretrace.diff.records, foretrace"])
def test_foretrace_diff_can_be_called(first: str) -> None:
    """Importing a part of the package before does not hide the function, and torch is never imported."""
    code = (
        f"{first}\nimport sys\nrun = foretrace.read(sys.argv[1])\n"
        "print(foretrace.diff(run, run).is_empty, foretrace.diff(run, run, anyway=True).comparable)\n"
        "assert 'torch' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(TRACE)], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("True True\n", "")
