"""The bar for large files."""

from __future__ import annotations

import io
import sys

import pytest

from foretrace.cli.progress import reading


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("total", "drawn"), [(200_000_000, True), (20_000_000, False)])
def test_only_large_files_get_a_bar(total: int, drawn: bool, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: FBT001
    """Above 20 MB the bar says how far reading is; below, nothing flickers."""
    terminal = _Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal)
    with reading() as progress:
        assert progress is not None
        progress(total // 2, total)
    assert ("reading" in terminal.getvalue()) is drawn
    assert bool(terminal.getvalue()) is drawn


def test_no_bar_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where stderr is a file or a pipe, nothing is drawn and nothing is counted."""
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with reading() as progress:
        assert progress is None
