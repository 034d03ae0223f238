"""What the tests of readings share: recorded runs, read once, and the helper modules of this folder."""

from __future__ import annotations

import sys
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from foretrace.run import Run, read

if TYPE_CHECKING:
    from collections.abc import Callable

sys.path.append(str(Path(__file__).parent))  # tests are no package: this is how they find build.py and mutate.py


@lru_cache(maxsize=8)
def _recorded(name: str) -> Run:
    from mutate import path_of  # noqa: PLC0415 - found through the line above

    return read(path_of(name))


@pytest.fixture
def recorded() -> Callable[[str], Run]:
    """Name of a recorded trace → its run."""
    return _recorded
