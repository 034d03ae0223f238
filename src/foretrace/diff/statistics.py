"""Is the difference between two sets of steps larger than chance and than what two runs differ by anyway?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from foretrace import stats

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

Verdict: TypeAlias = Literal["faster", "slower", "inconclusive"]

RUN_TO_RUN = 0.02
"""Steps of one recording share its clocks and its memory: medians of two recordings differ by up to 2 % for nothing."""
FEWEST_STEPS = 5
"""Below this many steps a side an interval says little, and only a complete separation counts."""
_FEWEST_TO_SEPARATE = 2
"""One step has no spread: it would lie beyond any other by chance."""
_RESAMPLES = 2_000
_COVERAGE = (2.5, 97.5)
_SEED = 20_240_229


@dataclass(frozen=True, slots=True)
class Comparison:
    """Times of the same thing on two sides; unknown is ``None``.

    Attributes:
        before_ns, after_ns: Medians over steps.
        ratio: ``after_ns`` over ``before_ns``.
        interval: 95 % bootstrap interval of the ratio over the steps.
        verdict: Whether the change is larger than the interval and the run-to-run floor together.
    """

    before_ns: float | None
    after_ns: float | None
    ratio: float | None
    interval: tuple[float, float] | None
    verdict: Verdict

    @property
    def significant(self) -> bool:
        """Whether there is a verdict."""
        return self.verdict != "inconclusive"

    @property
    def change_ns(self) -> float | None:
        """``after_ns`` less ``before_ns``."""
        if self.before_ns is None or self.after_ns is None:
            return None
        return self.after_ns - self.before_ns

    def mirrored(self) -> Comparison:
        """The same with the sides exchanged."""
        turned: dict[Verdict, Verdict] = {"faster": "slower", "slower": "faster", "inconclusive": "inconclusive"}
        return Comparison(
            self.after_ns,
            self.before_ns,
            1 / self.ratio if self.ratio else None,
            (1 / self.interval[1], 1 / self.interval[0]) if self.interval else None,
            turned[self.verdict],
        )


def compare(before: Sequence[float], after: Sequence[float], floor: float = RUN_TO_RUN) -> Comparison:
    """Compare the steps of two runs.

    Args:
        before: One time a step, nanoseconds.
        after: The same of the other run.
        floor: By how much (0.02 is 2 %) two runs of the same thing differ.
    """
    was, now = stats.median(before), stats.median(after)
    if not was or not now or min(*before, *after) <= 0:
        return Comparison(was, now, None, None, "inconclusive")
    interval = _interval(before, after)
    return Comparison(was, now, now / was, interval, _verdict(before, after, interval, floor))


def _verdict(before: Sequence[float], after: Sequence[float], interval: tuple[float, float], floor: float) -> Verdict:
    if min(len(before), len(after)) >= FEWEST_STEPS:
        least, most = interval
    elif min(len(before), len(after)) >= _FEWEST_TO_SEPARATE:
        least, most = min(after) / max(before), max(after) / min(before)
    else:
        return "inconclusive"
    if least > 1 + floor:
        return "slower"
    return "faster" if 1 / most > 1 + floor else "inconclusive"


def _interval(before: Sequence[float], after: Sequence[float]) -> tuple[float, float]:
    """Percentiles of the ratio of resampled medians; both sides use both streams of draws, so that it mirrors."""
    draws = np.random.default_rng(_SEED).random((2, _RESAMPLES // 2, max(len(before), len(after))))
    logs = [_medians(after, draws[1 - i]) - _medians(before, draws[i]) for i in (0, 1)]
    low, high = np.percentile(np.concatenate(logs), _COVERAGE)
    return math.exp(low), math.exp(high)


def _medians(values: Sequence[float], draws: Floats) -> Floats:
    """Logarithms of the medians of resamples; ``draws`` lie in [0, 1), [resamples, at least len(values)]."""
    chosen = (draws[:, : len(values)] * len(values)).astype(np.int64)
    medians: Floats = np.log(np.median(np.asarray(values, dtype=np.float64)[chosen], axis=1))
    return medians
