"""A document: what a command tells a person, in the order in which it is read; renderers only lay it out.

Texts are plain: names in them may hold any character, and making them safe for a medium is the renderer's job.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from foretrace.readings import Column


@dataclass(frozen=True, slots=True)
class Headline:
    """The first line: what this is about."""

    text: str


@dataclass(frozen=True, slots=True)
class Title:
    """A heading inside the document."""

    text: str


@dataclass(frozen=True, slots=True)
class Sentence:
    """A paragraph that answers something."""

    text: str


@dataclass(frozen=True, slots=True)
class Note:
    """Something to keep in mind while reading the rest: a repair, a restriction, what is missing."""

    text: str


@dataclass(frozen=True, slots=True)
class Table:
    """Evidence.

    Attributes:
        columns: Key in a row, header and unit of each column, from left to right.
        rows: Key → value; a missing key or ``None`` is unknown.
        title: What the rows are, where the text before does not say.
        more: What was left out (``14 more: 102 µs``).
        folds: Whether texts too long for the page go on in the next line, so that nothing is lost; else they are cut.
    """

    columns: tuple[Column, ...]
    rows: Sequence[Mapping[str, Any]]
    title: str | None = None
    more: str | None = None
    folds: bool = False


@dataclass(frozen=True, slots=True)
class Item:
    """One entry of a `Listing`; ``hint`` is the option or command that shows more."""

    text: str
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """A few things under a title, numbered when their order is a ranking."""

    title: str
    items: tuple[Item, ...]
    numbered: bool = False


@dataclass(frozen=True, slots=True)
class Fields:
    """Names and their values, one a line."""

    pairs: tuple[tuple[str, str], ...]


Block: TypeAlias = Headline | Title | Sentence | Note | Table | Listing | Fields


@dataclass(frozen=True, slots=True)
class Document:
    """Blocks in reading order."""

    blocks: tuple[Block, ...]
