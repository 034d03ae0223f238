"""What tests of several rooms share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

_SNAPSHOTS = Path(__file__).parent / "data" / "snapshots"


@pytest.fixture(autouse=True)
def _width(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages are a hundred columns wide, whatever terminal the tests run in."""
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture
def snapshot() -> Callable[[str, str], None]:
    """Compare a whole output with the accepted one, by name.

    ``FORETRACE_ACCEPT=1`` writes the file instead; what it wrote is to be read as a user would before it is committed.
    """

    def compare(text: str, name: str) -> None:
        path = _SNAPSHOTS / name
        if os.environ.get("FORETRACE_ACCEPT"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
        assert text == path.read_text(encoding="utf-8")

    return compare
