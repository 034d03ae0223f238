"""When a page is styled, and which files a report is written to."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from foretrace.cli.app import main
from foretrace.cli.output import styled

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("terminal", "environment", "expected"),
    [
        (True, {}, True),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"NO_COLOR": ""}, True),
        (True, {"TERM": "dumb"}, False),
        (False, {}, False),
    ],
)
def test_styles_only_where_they_are_wanted(
    terminal: bool,  # noqa: FBT001 - a table of cases
    environment: dict[str, str],
    expected: bool,  # noqa: FBT001 - as above
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A terminal gets bold headings unless NO_COLOR is set and not empty, or it is dumb."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    assert styled() is expected


def test_a_folder_is_no_file_to_write(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`-o` with a folder says that it is one, with `--force` too."""
    for more in ([], ["--force"]):
        assert main(["explain", "wave", "-o", str(tmp_path), *more]) == 2
        assert capsys.readouterr().err == f"error: `{tmp_path}` is a folder\n\nhint: name a file in it\n"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("more", [[], ["--force"]], ids=" ".join)
@pytest.mark.parametrize("command", ["read", "redact"])
def test_a_pipe_is_written_to_and_not_replaced(command: str, more: list[str], tmp_path: Path) -> None:
    """`-o` with a pipe or a device, such as /dev/stdout, overwrites nothing: no `--force` is asked for, it stays."""
    trace, pipe = tmp_path / "t.json", tmp_path / "pipe"
    trace.write_text('{"schemaVersion": 1, "traceEvents": []}')
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert main([command, str(trace), "-o", str(pipe), *more]) == 0
        assert os.read(reader, 1 << 16)
        assert pipe.is_fifo()
    finally:
        os.close(reader)
