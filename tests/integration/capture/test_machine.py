"""What a capture says about its machine."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
import torch

from foretrace.capture import machine
from foretrace.capture.machine import Clocks

if TYPE_CHECKING:
    from pathlib import Path


def _answer(directory: Path, monkeypatch: pytest.MonkeyPatch, line: str, status: int = 0) -> None:
    """Put an `nvidia-smi` first on the path that says ``line`` about the GPU ``GPU-1234`` and nothing of others."""
    program = directory / "nvidia-smi"
    program.write_text(
        f'#!/bin/sh\n[ "$1" = "--id=GPU-1234" ] || exit 6\necho "{line}"\nexit {status}\n', encoding="utf-8"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(directory), prepend=":")
    properties = SimpleNamespace(uuid="1234")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _device: properties)


def test_clocks_are_read_from_nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line of plain numbers; what the tool does not know is unknown here too."""
    _answer(tmp_path, monkeypatch, "1965, 3201, 1980, 3201, 700.00, [N/A]")

    assert machine.clocks(torch.device("cuda", 0)) == Clocks(1965, 3201, 1980, 3201, 700.0, None)


@pytest.mark.parametrize(("line", "status"), [("No devices were found", 0), ("", 0), ("1, 2, 3, 4, 5, 6", 9)])
def test_clocks_are_unknown_when_nvidia_smi_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, status: int
) -> None:
    """Another text, none, or a failure is no reading."""
    _answer(tmp_path, monkeypatch, line, status)

    assert machine.clocks(torch.device("cuda", 0)) is None


def test_the_cpu_has_no_clocks_and_no_memory_of_its_own() -> None:
    """What is asked of GPUs only is unknown on the CPU, not zero."""
    about = machine.describe(torch.device("cpu"))

    assert machine.clocks(torch.device("cpu")) is None
    assert (about.type, about.index, about.memory_bytes, about.driver) == ("cpu", None, None, None)
    assert about.count == torch.get_num_threads()


def test_the_commit_is_that_of_the_targets_repository(tmp_path: Path) -> None:
    """A changed tracked file makes it dirty, a new file does not, and outside a repository nothing is known."""
    repository = tmp_path / "repository"
    repository.mkdir()

    def git(*words: str) -> str:
        identity = ("-c", "user.name=Tester", "-c", "user.email=tester@example.org")
        done = subprocess.run(("git", *identity, *words), cwd=repository, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    assert machine.git_state(tmp_path) == (None, None)
    git("init", "-q")
    (repository / "model.py").write_text("one", encoding="utf-8")
    git("add", "model.py")
    git("commit", "-qm", "One")
    commit = git("rev-parse", "HEAD")
    (repository / "new.py").touch()

    assert machine.git_state(repository) == (commit, False)
    (repository / "model.py").write_text("two", encoding="utf-8")
    assert machine.git_state(repository) == (commit, True)
