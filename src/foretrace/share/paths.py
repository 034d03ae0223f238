"""Absolute paths in a text, shortened to what says nothing of whose machine it was.

Installed packages keep their part from the package on (``torch/nn/modules/linear.py``), which is what readings use; a
home directory becomes ``~``; of any other path its last part remains.
"""

from __future__ import annotations

import re

_PART = r"[^\s/\\:\"'`<>|*?()\[\]{},;&=#]"
_HOMES = r"(?:home|Users)"
# a user's home may hold spaces; elsewhere a space ends the path
_SPACED = rf"{_PART}+(?: {_PART}+)*"
_POSIX = rf"(?<![\w.:/~)\]}}>\\-])(?:file://)?(?:/{_HOMES}/(?:{_SPACED}/)*{_PART}*|/(?:{_PART}+/)+{_PART}*)"
_WINDOWS = rf"(?<![A-Za-z0-9])[A-Za-z]:(?:\\+|/)(?:{_SPACED}(?:\\+|/))*{_PART}*"
_SHARE = rf"(?<![\w\\:])\\\\{_PART}+\\(?:{_SPACED}\\)*{_PART}*"
ABSOLUTE = re.compile(f"{_WINDOWS}|{_SHARE}|{_POSIX}")

_ROOTS = (
    "home|Users|root|mnt|media|opt|data|scratch|work|workspace|workspaces|tmp|var|usr|srv|nfs|fsx|lustre|gpfs|content"
)
IN_MARKUP = re.compile(rf"{_WINDOWS}|(?<![\w.:/~<-])/(?:{_ROOTS})/(?:{_PART}+/)*{_PART}*")
"""In HTML and scripts a slash is often none of a path's: only paths below well-known directories count."""

_INSTALLED = re.compile(r".*[/\\](?:site-packages|dist-packages|python\d(?:\.\d+)?)[/\\]+(.+)", re.DOTALL)
_HOME = re.compile(
    r"(?:file://)?(?:/root(?=/|\Z)|(?:[A-Za-z]:|.*?)[/\\]+(?:home|Users)[/\\]+[^/\\]+)(?P<rest>.*)", re.DOTALL
)
_HARMLESS = re.compile(
    r"/(?:dev|proc|sys|etc|bin|sbin|lib|lib64)/\S*|/usr/(?:bin|lib|lib64|local/(?:bin|lib|cuda[^/]*))/\S*"
)


def shorten(path: str, home: str | None = None) -> str:
    """``path`` without what is private in it.

    >>> shorten("/home/ada/venv/lib/python3.12/site-packages/torch/nn/functional.py")
    'torch/nn/functional.py'
    >>> shorten("/home/ada/geglu/train.py"), shorten("/fsx/acme/run7/train.py")
    ('~/geglu/train.py', '.../train.py')
    """
    installed = _INSTALLED.fullmatch(path)
    if installed:
        return installed[1]
    if home and len(home) > 1 and path.startswith(home) and path[len(home) : len(home) + 1] in ("", "/", "\\"):
        return f"~{path[len(home) :]}"
    at_home = _HOME.fullmatch(path)
    if at_home:
        return f"~{at_home['rest']}"
    if _HARMLESS.fullmatch(path):
        return path
    last = re.split(r"[/\\]+", path.rstrip("/\\"))[-1]
    return f".../{last}"
