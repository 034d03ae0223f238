"""Two runs compared: kernel by kernel, op by op, and with a verdict that knows its noise; no torch.

The package can be called: ``foretrace.diff(before, after)`` is `diff`, whether it was imported before or not.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING

from foretrace.diff.diff import diff
from foretrace.diff.records import Change, Diff, Side, Steps

if TYPE_CHECKING:
    from foretrace.run import Run

__all__ = ["Change", "Diff", "Side", "Steps", "diff"]


class _Callable(ModuleType):
    """A module that answers for its one function."""

    def __call__(self, before: Run, after: Run, *, anyway: bool = False) -> Diff:
        return diff(before, after, anyway=anyway)


sys.modules[__name__].__class__ = _Callable
