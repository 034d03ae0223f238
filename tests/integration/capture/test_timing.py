"""Timing calls side by side."""

from __future__ import annotations

import itertools
import time
from functools import partial

import pytest

torch = pytest.importorskip("torch")

from foretrace.capture import timing  # noqa: E402 - imports torch


def test_calls_take_turns() -> None:
    """Blocks of two calls alternate, the first of a turn changes, and each gets its own time."""
    order: list[str] = []

    def call(name: str, seconds: float) -> None:
        order.append(name)
        time.sleep(seconds)

    calls = (partial(call, "short", 0.002), partial(call, "long", 0.006))
    short, long = timing.in_turns(calls, torch.device("cpu"), lambda: None)
    assert 2 < long.host_ns / short.host_ns < 4
    assert (short.device_ns, long.device_ns) == (None, None)
    assert short.spread == 0
    assert long.spread is not None
    blocks = [name for name, _ in itertools.groupby(order)]
    # after the warm-up: short, long | long, short | short, long …, neighbours of one name being two blocks
    assert blocks[:5] == ["short", "long", "short", "long", "short"]


def test_a_long_call_is_not_timed_ten_times() -> None:
    """Three blocks at least; no more once 0.2 s a call have passed."""
    count = itertools.count()

    def call() -> None:
        next(count)
        time.sleep(0.1)

    timing.in_turns((call, call), torch.device("cpu"), lambda: None)
    assert next(count) <= 2 * (timing.FEWEST_BLOCKS + 4)
