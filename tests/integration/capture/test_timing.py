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
    told: list[bool] = []

    def call(name: str, seconds: float) -> None:
        order.append(name)
        time.sleep(seconds)

    def prepare(after: bool) -> None:  # noqa: FBT001 - as it is told
        told.append(after)
        order.append("|")

    calls = (partial(call, "short", 0.002), partial(call, "long", 0.006))
    pair = timing.side_by_side(*calls, torch.device("cpu"), lambda: None, prepare)
    assert pair.host is not None
    assert 2 < pair.host.median < 4
    assert 2 < pair.after.host_ns / pair.before.host_ns < 4
    assert (pair.before.device_ns, pair.after.device_ns, pair.device) == (None, None, None)
    blocks = [set(block.split()) for block in " ".join(order).split("|")[1:]]
    # the warm-up of each, then turn by turn
    assert blocks[:6] == [{"short"}, {"long"}, {"short"}, {"long"}, {"long"}, {"short"}]
    assert told == [block == {"long"} for block in blocks]


def test_a_long_call_is_not_timed_ten_times() -> None:
    """Three blocks at least; no more once 0.2 s a call have passed."""
    count = itertools.count()

    def call() -> None:
        next(count)
        time.sleep(0.1)

    timing.side_by_side(call, call, torch.device("cpu"), lambda: None)
    assert next(count) <= 2 * (timing.FEWEST_BLOCKS + 4)
