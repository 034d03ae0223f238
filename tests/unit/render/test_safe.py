"""Text from a file cannot act on a terminal."""

from __future__ import annotations

import pytest

from foretrace.render.safe import visible


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("gemm\x1b[31m", "gemm\\u001b[31m"),
        ("a\rb\nc\td", "a\\u000db\\u000ac\\u0009d"),
        ("\x9b2J", "\\u009b2J"),
        ("evil\u202egnp", "evil\\u202egnp"),
        ("half\ud800", "half\\ud800"),
        ("\x7f\u2028\ufeff", "\\u007f\\u2028\\ufeff"),
    ],
)
def test_acting_characters_are_written_out(raw: str, shown: str) -> None:
    """Escapes, controls, direction marks and lone surrogates are shown as the code that they are."""
    assert visible(raw) == shown


def test_ordinary_text_is_left_alone() -> None:
    """Signs of the field, other scripts and backslashes stay as they are."""
    text = "µs · 256×128 → bf16 Ωμέγα 核 C:\\traces"
    assert visible(text) == text
