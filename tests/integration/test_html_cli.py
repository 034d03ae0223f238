"""``--format html`` through the command line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from foretrace.cli.app import main

if TYPE_CHECKING:
    from collections.abc import Sequence

DATA = Path(__file__).parents[1] / "data" / "h200"
EAGER = str(DATA / "mlp_64x128x768x3072_eager.json.gz")
COMPILED = str(DATA / "mlp_64x128x768x3072_compiled.json.gz")


def written(path: Path, *argv: str) -> str:
    """The page that a command wrote to ``path``, and nothing on its way."""
    assert main([*argv, "--format", "html", "-o", str(path)]) == 0
    return path.read_text(encoding="utf-8")


def test_read_writes_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Timeline, roofline, kernels and answers stand in one file; of the trace's path only its name."""
    html = written(tmp_path / "report.html", "read", EAGER)
    assert capsys.readouterr() == ("", "")
    assert html.startswith("<!DOCTYPE html>\n")
    for anchor in ("timeline", "kernels", "roofline", "idle", "chains", "answers", "ask-bound"):
        assert html.count(f' id="{anchor}"') == 1
    assert "mlp_64x128x768x3072_eager.json.gz</footer>" in html
    assert str(DATA) not in html


def test_read_writes_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    """Without -o the page is printed."""
    assert main(["read", EAGER, "--format", "html"]) == 0
    assert capsys.readouterr().out.endswith("</html>\n")


def test_asked_questions_are_told_once(tmp_path: Path) -> None:
    """With --ask the page answers those questions, with the timeline that their evidence leads to."""
    html = written(tmp_path / "report.html", "read", EAGER, "--ask", "roofline", "idle")
    assert html.count("How far from the hardware limit?") == 1
    assert ' id="answers"' not in html
    assert ' id="timeline"' in html
    assert '<a href="#event-101">elementwise gelu (tanh)</a>' in html


def test_a_selected_step_is_the_timeline(tmp_path: Path) -> None:
    """With --step the timeline holds that step: 5 kernels."""
    html = written(tmp_path / "report.html", "read", EAGER, "--step", "4")
    assert "1 step · 5 kernels in " in html


def test_diff_writes_both_timelines(tmp_path: Path) -> None:
    """A comparison shows a step of each side, named as the document names them."""
    html = written(tmp_path / "diff.html", "diff", EAGER, COMPILED)
    assert "<h1>eager → compiled</h1>" in html
    assert html.count('<figure class="timeline">') == 2
    assert html.index("eager: ProfilerStep#3") < html.index("compiled: ProfilerStep#4")


@pytest.mark.parametrize("argv", [["kernel", "nvjet_tst_64x8"], ["explain", "tile"], ["devices"], ["explain"]])
def test_every_report_has_a_page(argv: Sequence[str], tmp_path: Path) -> None:
    """What has no run to draw is a page of its document, without timeline."""
    html = written(tmp_path / "page.html", *argv)
    assert html.count("<h1>") == 1
    assert ' id="timeline"' not in html
