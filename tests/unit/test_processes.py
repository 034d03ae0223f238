"""Processes that share work, and how they end."""

from __future__ import annotations

import time

import pytest

from foretrace.processes import Processes


def test_what_is_under_way_ends_when_the_rest_is_interrupted() -> None:
    """A process that is killed while it sends a large result leaves its reader waiting for the other half."""
    executor = Processes(1)
    future = executor.submit(bytes, 1 << 20)
    while not future.running():
        time.sleep(0.01)
    with pytest.raises(KeyboardInterrupt), executor:
        raise KeyboardInterrupt
    assert len(future.result(timeout=60)) == 1 << 20
