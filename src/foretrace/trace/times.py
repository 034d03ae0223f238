"""Microseconds in a file to integer nanoseconds, exactly.

Kineto writes microseconds with three decimals. An absolute time such as 1735632360000123.456 has 19 digits and a
float64 holds 15 to 17, so the digits are parsed as integers. Rows that are not plain digits (exponents, strings,
signs) take a slower exact path; rows that are no number at all come back as `LOST`.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

LOST = np.iinfo(np.int64).min
"""The timestamp of an event whose file has none that can be read."""

_DOT, _ZERO = 0x2E, 0x30
_MAX_DIGITS = 18  # int64 holds every 18-digit number
_MAX_TEXT = 40  # of bytes in a timestamp: the array's width is that of the longest
_LIMIT_NS = 1 << 62
_EARLIEST_NS = -1 << 61


def to_ns(texts: Sequence[bytes]) -> NDArray[np.int64]:
    """Decimal microseconds as written in the file → nanoseconds, shape [len(texts)]; `LOST` where unreadable."""
    out = np.full(len(texts), LOST, dtype=np.int64)
    if not texts:
        return out
    short = texts if max(map(len, texts)) <= _MAX_TEXT else [text if len(text) <= _MAX_TEXT else b"" for text in texts]
    packed = np.array(short, dtype=np.bytes_)
    width = packed.dtype.itemsize
    chars = packed.view(np.uint8).reshape(len(texts), width)
    length = (chars != 0).sum(axis=1)  # shorter texts are padded with zero bytes
    is_dot = chars == _DOT
    dot = np.where(is_dot.any(axis=1), is_dot.argmax(axis=1), length)
    shapes = dot * (width + 1) + length
    for shape in sorted(set(shapes.tolist())):  # a file has a handful: digits before the dot × digits after it
        rows = np.flatnonzero(shapes == shape)
        before, total = divmod(shape, width + 1)
        out[rows] = _plain(chars[rows, :total], before)
    for row in np.flatnonzero(out == LOST).tolist():
        out[row] = _any(texts[row])
    return out


def _plain(chars: NDArray[np.uint8], before: int) -> NDArray[np.int64]:
    """Rows of ASCII digits with one dot at column ``before`` (or none) → nanoseconds; `LOST` for other rows."""
    decimals = chars[:, before + 1 :]
    places = decimals.shape[1]
    lost = np.full(len(chars), LOST, dtype=np.int64)
    if before == 0 or places > 3 or before + 3 > _MAX_DIGITS:  # noqa: PLR2004 - three decimals are a nanosecond
        return lost
    digits = np.concatenate([chars[:, :before], decimals], axis=1).astype(np.int64) - _ZERO
    powers = 10 ** np.arange(before + 2, 2 - places, -1, dtype=np.int64)
    readable = ((digits >= 0) & (digits <= 9)).all(axis=1)  # noqa: PLR2004 - a decimal digit
    return np.where(readable, digits @ powers, lost)


def _any(text: bytes) -> int:
    try:
        value = Decimal(text[: _MAX_TEXT + 1].decode("ascii").strip('" '))
    except (InvalidOperation, UnicodeDecodeError):
        return LOST
    if len(text) > _MAX_TEXT or not value.is_finite() or value.adjusted() > _MAX_DIGITS:
        return LOST
    ns = int((value * 1000).to_integral_value())
    return ns if _EARLIEST_NS < ns < _LIMIT_NS else LOST
