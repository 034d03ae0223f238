"""Measured times per path and shape on one device: the files beside this one, and a user's own.

A file is JSON: ``{"device": …, "when": …, "versions": {…}, "rows": [{"mode": "forward" | "training", "rows": …,
"dim": …, "hidden": …, "us": {path: median microseconds of GPU time}}]}``. ``FORETRACE_FUSED_TABLES`` names a folder
whose files are read after the shipped ones; a row measured there replaces the shipped row of the same shape.
"""

from __future__ import annotations

import json
import math
import os
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

SHIPPED = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Row:
    """One measured shape: the median GPU time of each path, µs."""

    mode: str
    rows: int
    dim: int
    hidden: int
    us: dict[str, float]

    def distance(self, rows: int, dim: int, hidden: int) -> float:
        """How far a shape is from this one, in doublings summed over the three sizes."""
        pairs = ((rows, self.rows), (dim, self.dim), (hidden, self.hidden))
        return sum(abs(math.log2(max(a, 1) / b)) for a, b in pairs)


def file_name(device_name: str) -> str:
    """``NVIDIA H200`` to ``nvidia_h200.json``."""
    return re.sub(r"[^a-z0-9]+", "_", device_name.lower()).strip("_") + ".json"


def parse(text: str) -> tuple[Row, ...]:
    """The rows of a table file.

    Raises:
        ValueError: The text is no such table.
    """
    try:
        rows: list[dict[str, Any]] = json.loads(text)["rows"]
        return tuple(Row(r["mode"], r["rows"], r["dim"], r["hidden"], dict(r["us"])) for r in rows)
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        msg = f"not a table of measured times ({type(error).__name__}: {error})"
        raise ValueError(msg) from error


def text(content: Mapping[str, Any]) -> str:
    """A table as its file holds it, a row a line."""
    whole = json.dumps(content, ensure_ascii=False)
    return whole.replace('[{"mode"', '[\n  {"mode"').replace(', {"mode"', ',\n  {"mode"') + "\n"


@cache
def rows_of(device_name: str) -> tuple[Row, ...]:
    """Every measured row for a device, the user's own in place of shipped ones; none for an unmeasured device."""
    found: dict[tuple[str, int, int, int], Row] = {}
    own = os.environ.get("FORETRACE_FUSED_TABLES")
    for folder in (SHIPPED, *([Path(own)] if own else [])):
        path = folder / file_name(device_name)
        if path.is_file():
            for row in parse(path.read_text(encoding="utf-8")):
                found[row.mode, row.rows, row.dim, row.hidden] = row
    return tuple(found.values())


def nearest(device_name: str, mode: str, rows: int, dim: int, hidden: int, paths: tuple[str, ...]) -> Row | None:
    """The measured row closest to a shape among those that timed each of ``paths``."""
    able = [r for r in rows_of(device_name) if r.mode == mode and all(p in r.us for p in paths)]
    return min(able, key=lambda r: r.distance(rows, dim, hidden), default=None)
