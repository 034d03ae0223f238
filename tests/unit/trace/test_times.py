"""Microseconds to nanoseconds: exact, whatever the digits."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretrace.trace.times import LOST, to_ns

micros = st.builds(
    lambda whole, decimals: f"{whole}.{decimals}" if decimals else str(whole),
    st.integers(0, 4 * 10**15),
    st.text("0123456789", max_size=3),
)


@given(st.lists(micros, max_size=30))
def test_times_agree_with_decimal_arithmetic(texts: list[str]) -> None:
    """Up to 16 digits of microseconds and three decimals: every nanosecond is kept, for any mix of widths."""
    expected = [int(Decimal(text) * 1000) for text in texts]
    assert expected == to_ns([text.encode() for text in texts]).tolist()


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        (b"1735632360000123.456", 1735632360000123456),
        (b"0", 0),
        (b"-12.5", -12_500),
        (b"1.5e3", 1_500_000),
        (b'"213757592882"', 213757592882000),
        (b"0.0004", 0),
        (b"0.0006", 1),
    ],
)
def test_unusual_ways_to_write_a_time(text: bytes, ns: int) -> None:
    """Absolute times, signs, exponents, texts, and more decimals than a nanosecond has."""
    assert to_ns([text]).tolist() == [ns]


@pytest.mark.parametrize(
    "text",
    [b"", b"null", b"NaN", b"1e999999", b"[1]", b'"soon"', b"9" * 30, b"9" * 100_000, b"1.2.3", "١".encode()],
)
def test_what_is_no_time_is_lost(text: bytes) -> None:
    """No exception and no invented time; other rows keep theirs."""
    assert to_ns([text, b"7.001"]).tolist() == [LOST, 7_001]


def test_no_texts_give_no_times() -> None:
    """An empty list is an empty array."""
    assert to_ns([]).tolist() == []
