"""Small statistics over measurements: sequences in, plain floats out, unknown as ``None``."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Ratio:
    """What one thing takes of another's time, by measurements in pairs.

    Attributes:
        median: Of the ratios.
        scatter: Their interquartile range ÷ ``median``.
    """

    median: float
    scatter: float


def ratio(after: Sequence[float], before: Sequence[float]) -> Ratio | None:
    """``after`` ÷ ``before``, pair by pair; ``None`` below two pairs or where something takes no time."""
    if len(after) < 2 or 0 in before or 0 in after:  # noqa: PLR2004 - one pair has no scatter
        return None
    ratios = [a / b for a, b in zip(after, before, strict=True)]
    lower, middle, upper = statistics.quantiles(ratios, n=4, method="inclusive")
    return Ratio(middle, (upper - lower) / middle)
