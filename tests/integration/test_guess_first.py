"""``foretrace read --guess-first`` asks, shows the trace, and marks the guess."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from foretrace.cli.app import main

TRACE = str(Path(__file__).parents[1] / "data" / "h200" / "mlp_1x1x768x3072_eager.json.gz")


def _read(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, typed: str) -> tuple[str, str]:
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    assert main(["read", TRACE, "--guess-first"]) == 0
    captured = capsys.readouterr()
    return captured.out, captured.err


def test_a_guess_is_marked_on_stderr(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """What held, what did not and what surprised; the report itself is the same as without."""
    out, err = _read(capsys, monkeypatch, "3 gemm, 3 pointwise\n")
    assert "Before you look" in err
    assert "  yes 3 gemm" in err
    assert "  no  3 pointwise: 2 ran" in err
    assert "  and split-K: 1 row and 768 columns" in err
    assert main(["read", TRACE]) == 0
    assert capsys.readouterr().out == out


@pytest.mark.parametrize("typed", ["\n", "", "no idea\nwhat\nelse\n"])
def test_the_question_can_be_skipped(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, typed: str
) -> None:
    """Enter, the end of input, or three answers that count nothing: the trace is shown all the same."""
    out, err = _read(capsys, monkeypatch, typed)
    assert "NVIDIA H200" in out
    assert "Held" not in err
    assert "Broken" not in err
