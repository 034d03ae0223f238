"""One value of a table as text."""

from __future__ import annotations

from typing import Any

import pytest

from foretrace.render.cells import cell


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (55_744, "ns", "55.7"),
        (0.698, "share", "69.8 %"),
        (6.93e14, "flop_rate", "693 TFLOP/s"),
        (38_654_705_664, "flops", "38.7 GFLOP"),
        (3.11e12, "byte_rate", "3.11 TB/s"),
        (50_331_648, "bytes", "50.3 MB"),
        (1_234, "count", "1,234"),
        (2.0, "count", "2"),
        (2.5, "count", "2.5"),
        (571.5, "ratio", "572"),
        (True, "text", "yes"),
        (None, "ns", "–"),
        (0, "ns", "0"),
        ([[8192, 768], [], [768, 3072]], "text", "[8192,768] [768,3072]"),
        (["a", "b"], "text", "[a,b]"),
        ("n/a", "ns", "n/a"),
    ],
)
def test_a_value_is_shown_in_its_unit(value: Any, unit: Any, shown: str) -> None:
    """Three significant digits with the unit that the header does not name; unknown is a dash and zero is 0."""
    assert cell(value, unit) == shown
