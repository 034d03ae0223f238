"""Decoded values to NumPy arrays: ids, durations, timestamps, and the columns joined from their chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from foretrace.trace.columns import NONE
from foretrace.trace.times import LOST

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

LONGEST_NS = 1 << 60
"""36 years: a longer duration is no measurement, and with times below 2⁶² ns every sum stays inside int64."""

_WORD = 1 << 64
_DAY_NS = 86_400_000_000_000


def durations(micros: Iterable[float | None]) -> NDArray[np.int64]:
    """Microseconds → nanoseconds; `NONE` for a duration that is missing, negative or no measurement."""
    values = np.array([np.nan if value is None else value for value in micros], dtype=np.float64) * 1000
    usable = (values >= 0) & (values <= LONGEST_NS)  # false for nan
    out = np.full(len(values), NONE, dtype=np.int64)
    out[usable] = np.rint(values[usable]).astype(np.int64)
    return out


def integers(values: Sequence[int | None]) -> NDArray[np.int64]:
    """Ids and counts, `NONE` where there is none; unsigned 64-bit values keep their bits and become negative."""
    filled = [NONE if value is None else value for value in values]
    try:
        return np.array(filled, dtype=np.int64)
    except OverflowError:
        return np.array(
            [(v + _WORD // 2) % _WORD - _WORD // 2 if -_WORD < v < _WORD else NONE for v in filled],
            dtype=np.int64,
        )


def join(parts: list[NDArray[Any] | int], fill: int, dtype: type[np.generic]) -> NDArray[Any]:
    """The chunks of one column in a row; a chunk given as its length is full of ``fill``.

    A column that no chunk has is a view of one value, so that columns which a file does not use take no memory.
    """
    lengths = [part if isinstance(part, int) else len(part) for part in parts]
    if all(isinstance(part, int) for part in parts):
        return np.broadcast_to(np.array(fill, dtype=dtype), sum(lengths))
    out = np.full(sum(lengths), fill, dtype=dtype)
    at = 0
    for part, length in zip(parts, lengths, strict=True):
        if not isinstance(part, int):
            out[at : at + length] = part
        at += length
    return out


def lose_zeros(start: NDArray[np.int64]) -> int:
    """Mark as `LOST`, in place, times at or below zero in a file whose other times are more than a day from zero.

    A kernel whose timestamps the driver never delivered is written at 0; as a time it would stretch the trace by
    months. Returns how many times the file has lost in all.
    """
    real = start[start != LOST]
    later = real[real > 0]
    if len(later) < len(real) and len(later) and float(np.median(later)) > _DAY_NS:
        start[start <= 0] = LOST
    return int((start == LOST).sum())


def shift(times: NDArray[np.int64], by: int) -> NDArray[np.int64]:
    """``times − by`` where there is a time."""
    return np.where(times == LOST, LOST, times - by)
