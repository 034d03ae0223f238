"""How capture says where it is: a callback, so that this room never prints."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Progress: TypeAlias = Callable[[str, int, int], None]
"""``progress(what, done, total)``: what is being done in words, and how far it is.

``total`` is 0 while the length is not known yet.
"""


def silent(what: str, done: int, total: int) -> None:
    """A `Progress` that says nothing."""
    del what, done, total
