"""Text from a file made safe to print: what a terminal would act on is shown as its escape."""

from __future__ import annotations

import re
from typing import Any

# C0 and C1 controls, line separators, and the marks that reorder text (Unicode TR 36)
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_SHORT = {"\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t"}


def visible(text: str) -> str:
    r"""``text`` on one line with control characters as escapes.

    An unescaped Windows path that happens to be valid JSON (``torch\nn\functional.py``) comes back as it was written,
    because its newline and form feed are shown as the escapes that they were read from.

    >>> visible("torch\nn\functional.py") == r"torch\nn\functional.py"
    True
    """
    return text if text.isprintable() else _UNSAFE.sub(_escape, text)


def visible_values(value: Any) -> Any:  # noqa: ANN401 - the JSON edge
    """A decoded JSON value with every text in it made `visible`; other values as they are."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, dict):
        return {visible(key): visible_values(item) for key, item in value.items()}
    if isinstance(value, list):
        return [visible_values(item) for item in value]
    return value


def _escape(match: re.Match[str]) -> str:
    character = match.group()
    return _SHORT.get(character) or (f"\\x{ord(character):02x}" if character < "\u0100" else f"\\u{ord(character):04x}")
