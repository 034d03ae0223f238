"""Small statistics over measurements: sequences in, plain floats out, unknown as ``None``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def median(values: Sequence[float]) -> float | None:
    """The middle of ``values`` (mean of the two middle ones for an even count); ``None`` for no values."""
    if not values:
        return None
    ordered = sorted(values)
    half = len(ordered) // 2
    return float(ordered[half]) if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def mean(values: Sequence[float]) -> float | None:
    """The arithmetic mean; ``None`` for no values."""
    return math.fsum(values) / len(values) if values else None


def spread(values: Sequence[float]) -> float | None:
    """(max − min) ÷ median, the relative spread of a few measurements; ``None`` below two or at median 0."""
    middle = median(values)
    if middle is None or len(values) < 2 or middle == 0:  # noqa: PLR2004 - one value has no spread
        return None
    return (max(values) - min(values)) / middle
