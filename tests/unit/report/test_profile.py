"""What ``foretrace profile`` says of one variant."""

from __future__ import annotations

import pytest

from foretrace.report.document import Listing
from foretrace.report.profile import Profile, VariantRow, document

SCATTERED = (
    "A step takes 58.0 ms without the profiler; its timings scatter by 27.5 %, so time it again while nothing else "
    "runs."
)


@pytest.mark.parametrize(
    ("spread", "sentence"),
    [
        (None, "A step takes 58.0 ms without the profiler."),
        (0.05, "A step takes 58.0 ms without the profiler."),
        (
            0.275,
            SCATTERED,
        ),
    ],
)
def test_a_time_that_scatters_is_told_with_its_scatter(spread: float | None, sentence: str) -> None:
    """A median of timings that differ by a fifth or more is no figure to build on."""
    row = VariantRow("eager", "traces/geglu_eager.json.gz", host_ns=58_003_864, spread=spread)
    assert Profile(None, (row,)).sentence == sentence


def test_next_is_to_read_each_and_to_compare_them() -> None:
    """Commands run as printed, also in folders with spaces; what has no trace is in none of them."""
    rows = [VariantRow(name, f"my traces/{name}.json.gz") for name in ("eager", "compile")]
    listing = document(Profile(None, (*rows, VariantRow("boom", "my traces/boom.json.gz", failed="kaput")))).blocks[-1]
    assert isinstance(listing, Listing)
    assert [item.hint for item in listing.items] == [
        "foretrace read 'my traces/eager.json.gz'",
        "foretrace read 'my traces/compile.json.gz'",
        "foretrace diff 'my traces/eager.json.gz' 'my traces/compile.json.gz'",
    ]
