"""The pytest plugin, as a user's test suite meets it."""

from __future__ import annotations

from typing import TYPE_CHECKING

# pytester forgets what is first imported inside it, and torch allows its operators to be registered once
import torch._inductor.compile_fx  # noqa: F401

import foretrace.guess.plan
import foretrace.verdict.observed  # noqa: F401

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

pytest_plugins = ["pytester"]

HEAD = """
import pytest, torch
from torch import nn

class Mlp(nn.Module):
    def __init__(self, act=nn.ReLU):
        super().__init__()
        self.up, self.act, self.down = nn.Linear(4, 8), act(), nn.Linear(8, 4, bias=False)

    def forward(self, x):
        return self.down(self.act(self.up(x)))

x = torch.ones(2, 4)
"""


def _run(pytester: pytest.Pytester, body: str, *options: str) -> pytest.RunResult:
    pytester.makepyfile(HEAD + body)
    return pytester.runpytest("-p", "no:cacheprovider", *options)


def test_expectations_hold(pytester: pytest.Pytester) -> None:
    """By keyword, in words, with a limit, and by marker."""
    result = _run(
        pytester,
        """
def test_keywords(kernels):
    with kernels.expect(gemm=2, pointwise=1, at_most=3):
        Mlp()(x)

def test_words(kernels):
    model = Mlp()
    with kernels.expect("2 gemm, 1 pointwise", exact=True):
        model(x)
    assert [k.source for k in kernels.ran] == ["up", "act", "down"]

@pytest.mark.kernels("1 gemm")
def test_marked():
    torch.mm(x, x.t())
""",
    )
    # building the module inside the block fills its weights: five kernels more than the call alone
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["expected at most 3 kernel, * ran"])


def test_a_broken_expectation_shows_what_ran(pytester: pytest.Pytester) -> None:
    """The message counts, names the modules, and lists every kernel."""
    result = _run(
        pytester,
        """
def test_more(kernels):
    model = Mlp()
    with kernels.expect(gemm=3):
        model(x)

def test_others(kernels):
    model = Mlp()
    with kernels.expect(gemm=2, exact=True):
        model(x)
""",
    )
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        [
            "expected 3 gemm, 2 gemm ran: up addmm, down mm",
            "what ran:",
            "  gemm          up addmm",
            "expected nothing else, 1 pointwise ran: act relu",
        ]
    )


def test_accepted_kernels(pytester: pytest.Pytester) -> None:
    """Nothing is accepted at first; an update accepts; another activation shows as a difference."""
    body = """
def test_call(kernels):
    model = Mlp({act})
    with kernels.accepted():
        model(x)
"""
    first = _run(pytester, body.format(act=""))
    first.assert_outcomes(failed=1)
    first.stdout.fnmatch_lines(["*nothing is accepted yet: `pytest --foretrace-update`*"])
    _run(pytester, body.format(act=""), "--foretrace-update").assert_outcomes(passed=1)
    _run(pytester, body.format(act="")).assert_outcomes(passed=1)
    changed = _run(pytester, body.format(act="nn.SiLU"))
    changed.assert_outcomes(failed=1)
    changed.stdout.fnmatch_lines(["- pointwise     act relu", "+ pointwise     act silu"])


def test_a_summary_for_ci(pytester: pytest.Pytester, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GitHub's step summary gets a table, and pytest's own JUnit file the counts."""
    summary, junit = tmp_path / "summary.md", tmp_path / "junit.xml"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    body = """
def test_call(kernels):
    model = Mlp()
    with kernels.expect(gemm=1):
        model(x)
"""
    _run(pytester, body, f"--junitxml={junit}").assert_outcomes(failed=1)
    assert (
        "| **broken** | `test_a_summary_for_ci.py::test_call` | 1 gemm | 2 gemm, 1 pointwise |" in summary.read_text()
    )
    assert '<property name="kernels" value="2 gemm, 1 pointwise"' in junit.read_text()
