"""Guesses and outcomes as a person reads them."""

from __future__ import annotations

from foretrace.render.to_terminal import to_terminal
from foretrace.report.check import check_document, to_junit
from foretrace.report.guess import guess_document
from foretrace.verdict import Checked, Guess, GuessedKernel, Row


def test_equal_kernels_of_a_large_model_share_a_row() -> None:
    """Sixty equal GEMMs of sixty layers are one row with their floors added up."""
    kernels = [
        GuessedKernel(op_class="gemm", op="aten::mm", floor_ns=2_000, source=f"layers.{i}.q_proj") for i in range(60)
    ]
    text = to_terminal(guess_document(Guess(kernels=tuple(kernels), device="NVIDIA H200")), width=100, styled=False)
    assert "60 kernels, equal ones together" in text
    (row,) = [line.split() for line in text.splitlines() if "layers" in line]
    assert row[:5] == ["layers.*.q_proj", "mm", "gemm", "60", "120"]


def test_what_matters_stays_on_the_screen() -> None:
    """Of many confirmed rows only the number is shown; the broken one and its reason are."""
    rows = [Row(verdict="confirmed", guess=f"kernel {i}") for i in range(50)]
    broken = Row(verdict="broken", guess="head mm", why="no such kernel ran")
    text = to_terminal(check_document(Checked((*rows, broken), 51, 50), "trace"), width=100, styled=False)
    assert "Broken (you guessed 51 kernels, 50 ran). head mm: no such kernel ran." in text
    assert "50 guesses confirmed and not shown" in text
    assert "kernel 7" not in text


def test_sentences_name_copies_and_doubt() -> None:
    """Copies are said to be counted, and what cannot be told is not called confirmed."""
    rows = (Row(verdict="confirmed", guess="a"), Row(verdict="unknown", guess="b", observed=("k",)))
    assert Checked(rows, 2, 2, copies=1).sentence == "Held: 2 kernels and copies as guessed, 1 cannot be told."


def test_junit_escapes_names() -> None:
    """Kernel names hold angle brackets, quotes and worse."""
    row = Row(verdict="broken", guess='a<b>&"c"\x01', why="1 < 2")
    text = to_junit(Checked((row,), 1, 0), "t.json")
    assert 'name="a&lt;b&gt;&amp;&quot;c&quot; "' in text
    assert '<failure message="1 &lt; 2"/>' in text
