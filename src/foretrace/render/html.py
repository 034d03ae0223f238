"""Text as HTML: the one way by which a name of a file reaches a page."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import msgspec

from foretrace.render.safe import visible

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_CODE = re.compile(r"`([^`]+)`")


def escaped(text: str) -> str:
    """``text`` as it is shown, whatever it holds, in an element or between the quotes of an attribute."""
    return html.escape(visible(text), quote=True)


def paragraph(text: str) -> str:
    """Escaped text in which what stands in backticks is code."""
    return _CODE.sub(r"<code>\1</code>", escaped(text))


def tag(name: str, inner: str = "", /, **attributes: str | float | None) -> str:
    """One element; ``inner`` is HTML, attribute values are plain, and one that is ``None`` is left out.

    A trailing underscore is dropped from an attribute's name (``class_``), others become hyphens; an empty value
    stands for a flag.
    """
    parts = [name]
    for key, value in attributes.items():
        if value is not None:
            shown = f"{value:.6g}" if isinstance(value, float) else str(value)
            parts.append(f'{key.rstrip("_").replace("_", "-")}="{escaped(shown)}"')
    return f"<{' '.join(parts)}>{inner}</{name}>"


def embedded(data: Mapping[str, Any] | Sequence[Any]) -> str:
    """``data`` as JSON that can stand inside a script element: no ``<``, ``>`` or ``&`` is left in it.

    Its texts must be `visible` already: JSON's own escapes would bring a character back to life in the browser.
    """
    text = msgspec.json.encode(data).decode()
    return text.replace("&", r"\u0026").replace("<", r"\u003c").replace(">", r"\u003e")


def template(name: str) -> str:
    """A file of `templates`."""
    return files("foretrace.render").joinpath("templates", name).read_text(encoding="utf-8")


def source_hash(text: str) -> str:
    """What a Content-Security-Policy calls an inline script or style (CSP level 3, section 2.3.1)."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
