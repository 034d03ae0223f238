"""The one exception of this room."""

from __future__ import annotations


class UnsaidError(Exception):
    """The file does not say what a rule asked for; the op's figures stay unknown. Never leaves this room."""
