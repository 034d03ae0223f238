"""Names from a file never steer a terminal or a viewer: the one function that every renderer passes them through."""

from __future__ import annotations

import re

# C0 and C1 controls and DEL (ANSI escapes start there), line separators, marks that reorder text, lone surrogates
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff\ufff9-\ufffb]"
)


def visible(text: str) -> str:
    r"""``text`` with every character that acts instead of showing written as ``\uXXXX``.

    >>> visible("gemm\x1b[31m")
    'gemm\\u001b[31m'
    """
    return _UNSAFE.sub(lambda match: f"\\u{ord(match.group()):04x}", text)
