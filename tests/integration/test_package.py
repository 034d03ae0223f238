"""The wheel that people install: what it carries, and that it reads a trace without torch."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from this tree as pip builds it."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(command, check=True)
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_carries_its_data(wheel: Path) -> None:
    """Types, the device catalogue, the terms and the recorded traces come along; tests do not."""
    names = zipfile.ZipFile(wheel).namelist()
    for needed in (
        "foretrace/py.typed",
        "foretrace/devices/catalogue.toml",
        "foretrace/report/terms.toml",
        "foretrace/ladder/recorded/mlp_64x128x768x3072_eager.json.gz",
    ):
        assert needed in names
    assert not any(name.startswith("tests") for name in names)


def test_the_wheel_walks_the_recorded_road(wheel: Path, tmp_path: Path) -> None:
    """Installed beside its dependencies and away from the source, it works, and imports no torch."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); sys.modules['torch'] = None; import foretrace; "
        f"assert foretrace.__file__.startswith({str(tmp_path)!r}); "
        "from foretrace.cli.app import main; sys.exit(main(['ladder', 'linear', '--recorded']))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "recorded on NVIDIA H200" in done.stdout
