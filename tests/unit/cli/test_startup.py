"""Starting is quick and needs little."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_TRACE = Path(__file__).parents[2] / "data" / "h200" / "sdpa.json.gz"
_BLOCKED = "import sys; sys.modules.update(dict.fromkeys(('torch', 'triton', 'pandas', 'matplotlib')))\n"


def _run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_help_is_there_at_once() -> None:
    """`foretrace --help` takes under half a second of CPU, the best of three (0.2 s where it was measured)."""
    times = []
    for _ in range(3):
        before = os.times()
        subprocess.run([sys.executable, "-m", "foretrace", "--help"], capture_output=True, check=True)
        after = os.times()  # of children: what else the machine does meanwhile does not count
        times.append(after.children_user + after.children_system - before.children_user - before.children_system)
    assert min(times) < 0.5


def test_help_loads_no_command() -> None:
    """The tree is shown without importing what the commands need."""
    code = (
        "import sys; from foretrace.cli.app import main; main(['--help']);"
        "print([m for m in sys.modules if m == 'numpy' or m.startswith('foretrace.') and m.count('.') > 1])"
    )
    assert _run(code).stdout.splitlines()[-1] == "['foretrace.cli.app']"


def test_import_is_light() -> None:
    """`import foretrace` loads no torch, no NumPy and none of its own rooms."""
    code = (
        "import sys; before = set(sys.modules); import foretrace;"
        "print(sorted(m for m in set(sys.modules) - before if m.startswith('foretrace') or m in {'numpy', 'torch'}))"
    )
    assert _run(code).stdout.strip() == "['foretrace']"


@pytest.mark.parametrize("argv", [["read", str(_TRACE)], ["kernel", "k"], ["explain", "tile"], ["devices"], ["--help"]])
def test_no_torch_is_needed(argv: list[str]) -> None:
    """Commands of the reading side run where torch, triton, pandas and matplotlib cannot be imported."""
    done = _run(f"{_BLOCKED}from foretrace.cli.app import main; sys.exit(main({argv!r}))")
    assert (done.returncode, done.stderr) == (0, "")


def test_public_names_load_on_first_use() -> None:
    """Every name of the package is there when asked for (profile needs torch), and unknown ones are not."""
    import foretrace  # noqa: PLC0415 - what is tested

    for name in {*foretrace.__all__, "fused"} - {"profile"}:
        assert getattr(foretrace, name) is not None
    assert set(foretrace.__all__) <= set(dir(foretrace))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        foretrace.nothing  # noqa: B018 - the access is what is tested
