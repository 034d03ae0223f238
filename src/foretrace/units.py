"""Quantities in words: the only place where a number becomes text with a unit.

Inside foretrace times are integer nanoseconds, sizes are bytes and work is FLOPs. Three significant digits are
printed, as in `HOUSE_STYLE`: a profiler's own noise hides the rest.
"""

from __future__ import annotations

import math

_TIME_STEPS = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"))
_SI_STEPS = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def significant(value: float, digits: int = 3) -> str:
    """``value`` with ``digits`` significant digits and thousands separators, never in exponent form.

    >>> significant(55.744), significant(1283.343), significant(0.767)
    ('55.7', '1,280', '0.767')
    """
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else str(value)
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    rounded = round(value, decimals)
    # rounding may carry into the next power of ten (9.996 → 10.0)
    decimals = digits - 1 - math.floor(math.log10(abs(rounded)))
    return f"{rounded:,.{max(decimals, 0)}f}"


def duration(ns: float) -> str:
    """Nanoseconds in the unit that people use at that size: ``55.7 µs``, ``4.04 ms``, ``12 ns``."""
    for size, unit in _TIME_STEPS:
        if abs(ns) >= size:
            return f"{significant(ns / size)} {unit}"
    return f"{significant(ns)} ns"


def microseconds(ns: float) -> str:
    """Nanoseconds as microseconds without a unit, for columns whose header says µs."""
    return significant(ns / 1_000)


def size(n_bytes: float) -> str:
    """Bytes in decimal units, as bandwidths are quoted: ``50.3 MB``."""
    return f"{_si(n_bytes)}B"


def rate(n_bytes: float, ns: float) -> str:
    """Bytes over nanoseconds: ``3.12 TB/s``."""
    return f"{_si(n_bytes / ns * 1e9)}B/s"


def flop_rate(flops: float, ns: float) -> str:
    """FLOPs over nanoseconds: ``693 TFLOP/s``."""
    return f"{_si(flops / ns * 1e9)}FLOP/s"


def percent(part: float, whole: float) -> str:
    """``part`` of ``whole`` as ``54.6 %``; ``–`` when there is no whole."""
    return f"{significant(100 * part / whole)} %" if whole else "–"


def plural(count: int, noun: str, plural_noun: str | None = None) -> str:
    """``1 kernel``, ``5 kernels``; English ``s`` unless ``plural_noun`` is given."""
    word = noun if count == 1 else (plural_noun or f"{noun}s")
    return f"{count:,} {word}"


def _si(value: float) -> str:
    for step, prefix in _SI_STEPS:
        if abs(value) >= step:
            return f"{significant(value / step)} {prefix}"
    return f"{significant(value)} "
