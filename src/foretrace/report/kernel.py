"""What ``foretrace kernel`` says: decoded names, the sentence first, then the fields."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from foretrace.names import Identity
from foretrace.report.document import Document, Fields, Sentence, Title

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foretrace.report.document import Block

_IN_ORDER = tuple(field.name for field in fields(Identity) if field.name not in {"name", "in_words"})
_UNITS = {"align": "elements"}


def kernel_document(identities: Sequence[Identity]) -> Document:
    """One part a name; a field that the name does not say is left out."""
    blocks: list[Block] = []
    for identity in identities:
        blocks += [Title(identity.name), Sentence(identity.in_words), Fields(tuple(_pairs(identity)))]
    return Document(tuple(blocks))


def _pairs(identity: Identity) -> list[tuple[str, str]]:
    values = ((name, getattr(identity, name)) for name in _IN_ORDER)
    return [(name.replace("_", " "), _shown(name, value)) for name, value in values if value is not None]


def _shown(name: str, value: Any) -> str:  # noqa: ANN401 - a field of any type
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        numbers = all(isinstance(part, int) or part is None for part in value)
        parts = ["–" if part is None else str(part) for part in value]
        return ("×" if numbers else ", ").join(parts)
    return f"{value} {_UNITS[name]}" if name in _UNITS else str(value)
