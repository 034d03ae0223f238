"""Two runs compared: kernel by kernel, op by op, and with a verdict that knows its noise; no torch."""

from __future__ import annotations

from foretrace.diff.diff import diff
from foretrace.diff.records import Change, Diff, Side, Steps

__all__ = ["Change", "Diff", "Side", "Steps", "diff"]
