"""Small traces by hand, in Kineto's own form."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from foretrace.run import Run, read

if TYPE_CHECKING:
    from collections.abc import Callable

_H200 = Path(__file__).parents[2] / "data" / "h200"


@pytest.fixture(scope="session")
def recorded() -> Callable[[str], Run]:
    """A recorded trace by name; read once."""
    return lru_cache(maxsize=4)(lambda name: read(_H200 / f"{name}.json.gz"))


@pytest.fixture
def built(tmp_path: Path) -> Callable[..., Run]:
    """Rows (category, name, start µs, duration µs, thread, arguments) → their checked run."""

    def build(*rows: tuple[Any, ...], **metadata: Any) -> Run:
        events = [
            {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": start, "dur": dur, "args": args}
            for cat, name, start, dur, tid, args in rows
        ]
        path = tmp_path / "trace.json"
        path.write_text(json.dumps({**metadata, "traceEvents": events}))
        run = read(path)
        run.check()
        return run

    return build
