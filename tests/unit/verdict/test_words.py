"""Words count classes."""

from __future__ import annotations

from pathlib import Path

import pytest

from foretrace.errors import InputError
from foretrace.run import read
from foretrace.verdict import Expected, check_words, parse_words

DATA = Path(__file__).parents[2] / "data" / "h200"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3 gemm, 2 pointwise", (Expected("gemm", 3), Expected("pointwise", 2))),
        ("3 GEMMs and 2 elementwise kernels", (Expected("gemm", 3), Expected("pointwise", 2))),
        ("1 attention; at most 6 kernels", (Expected("attention", 1), Expected("kernel", 6, at_most=True))),
        ("2 graphs + 4x copies", (Expected("graph", 2), Expected("copy", 4))),
        ("1 gemm, 1 copy, 2 matmuls", (Expected("gemm", 3), Expected("copy", 1))),
        ("at most 2 copies, at most 3 copies", (Expected("copy", 2, at_most=True), Expected("copy", 3, at_most=True))),
        ("0 gather scatter", (Expected("gather-scatter", 0),)),
    ],
)
def test_words_are_understood(text: str, expected: tuple[Expected, ...]) -> None:
    """Numbers, classes, their synonyms and plurals; counts of one class add up, bounds stand side by side."""
    assert parse_words(text) == expected


@pytest.mark.parametrize(("text", "hint"), [("3 gemn", "did you mean `gemm`?"), ("gemm", "3 gemm"), ("", "--expect")])
def test_what_is_no_count_is_refused(text: str, hint: str) -> None:
    """The hint says how it is written."""
    with pytest.raises(InputError) as caught:
        parse_words(text)
    assert hint in (caught.value.hint or "")


def test_counts_hold_and_break() -> None:
    """The recorded one-row MLP runs 3 GEMMs (one of them split), 2 pointwise kernels and a helper."""
    run = read(DATA / "mlp_1x1x768x3072_eager.json.gz")
    held = check_words(parse_words("3 gemm, 2 pointwise"), run)
    assert held.held
    assert held.sentence == "Held, with one surprise: you guessed 5 kernels, 6 ran."
    assert "K = 3072" in held.rows[-1].why
    broken = check_words(parse_words("3 gemm, 3 pointwise"), run)
    assert not broken.held
    assert broken.sentence == "Broken. 3 pointwise: 2 ran."


def test_counts_of_a_class_add_up() -> None:
    """The recorded MLP runs 3 GEMMs: one and two of them are right, three and three are not."""
    run = read(DATA / "mlp_1x1x768x3072_eager.json.gz")
    assert check_words(parse_words("1 gemm, 2 gemm"), run).held
    assert check_words(parse_words("3 gemm, 3 gemm"), run).sentence == "Broken. 6 gemm: 3 ran."


def test_exact_counts_every_class() -> None:
    """A class that was not counted is a surprise, and breaks an exact guess; a GEMM's helper never does."""
    run = read(DATA / "mlp_1x1x768x3072_eager.json.gz")
    assert check_words(parse_words("3 gemm"), run).held
    assert not check_words(parse_words("3 gemm"), run, exact=True).held
    assert check_words(parse_words("3 gemm, 2 pointwise"), run, exact=True).held


def test_what_nobody_counted_is_named_by_its_class() -> None:
    """The sentence of a broken exact guess says how many of which class ran, not a symbol of ten lines."""
    run = read(DATA / "mlp_64x128x768x3072_eager.json.gz")
    broken = check_words(parse_words("3 gemm"), run, exact=True)
    assert broken.sentence == "Broken (you guessed 3 kernels, 5 ran). 2 pointwise not counted on."
    one = check_words(parse_words("3 gemm"), read(DATA / "mlp_64x128x768x3072_compiled.json.gz"), exact=True)
    assert one.sentence == (
        "Broken (you guessed 3 kernels, 4 ran). triton_poi_fused__unsafe_view_gelu_mul: 1 pointwise not counted on."
    )


def test_graphs_are_counted() -> None:
    """The compiled MLP is one graph."""
    run = read(DATA / "mlp_64x128x768x3072_compiled.json.gz")
    assert check_words(parse_words("1 graph, 3 gemm, 1 pointwise"), run).held
    assert not check_words(parse_words("2 graphs"), run).held
