"""Runs for comparisons: recorded ones, read once, and small ones by hand."""

from __future__ import annotations

import json
import sys
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from foretrace.run import Run, read

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

sys.path.append(str(Path(__file__).parent))  # tests are no package: this is how they find steps.py
DATA = Path(__file__).parents[2] / "data"


@lru_cache(maxsize=8)
def _recorded(name: str) -> Run:
    return read(next(DATA.glob(f"*/{name}.json.gz")))


@pytest.fixture
def recorded() -> Callable[[str], Run]:
    """Name of a recorded trace → its run."""
    return _recorded


@pytest.fixture
def built(tmp_path: Path) -> Callable[..., Run]:
    """Steps as `events_of` takes them → their checked run.

    ``env`` is written beside the trace, ``marks=False`` leaves the steps' annotations out, more keys go to the header.
    """
    count = iter(range(1_000_000))

    def build(
        steps: Sequence[Sequence[tuple[str, str, Any, float]]],
        *,
        device: str | None = "NVIDIA H200",
        env: dict[str, Any] | None = None,
        marks: bool = True,
        **metadata: Any,
    ) -> Run:
        name = f"run_{next(count)}"
        if device is not None:
            metadata["deviceProperties"] = [{"id": 0, "name": device, "computeMajor": 9, "computeMinor": 0}]
        path = tmp_path / f"{name}.json"
        from steps import events_of  # noqa: PLC0415 - found through the line above

        events = events_of(steps)
        if not marks:
            events = [event for event in events if event["cat"] != "user_annotation"]
        path.write_text(json.dumps({**metadata, "traceEvents": events}))
        if env is not None:
            (tmp_path / f"{name}.env.json").write_text(json.dumps(env))
        run = read(path)
        run.check()
        return run

    return build
