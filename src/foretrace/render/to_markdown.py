"""A document as GitHub-flavoured Markdown, every text escaped so that it shows as it is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from foretrace.render.cells import cell, shown_columns
from foretrace.render.safe import visible
from foretrace.report.document import Fields, Headline, Listing, Note, Sentence, Table, Title

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foretrace.report.document import Block, Document

_SPECIAL = re.compile(r"[\\`*\[\]<>|~&$]|(?<![^\W_])_|_(?![^\W_])")
_CODE = re.compile(r"(`[^`]+`)")
_LINE_START = re.compile(r"(?=[#+=-])|(?<=\d)(?=[.)] )")


def to_markdown(document: Document) -> str:
    """``document`` with one first-level heading, tables as pipes, and a final newline."""
    parts, under = [], 2
    for block in document.blocks:
        parts.append(_block(block, under))
        if isinstance(block, Title):  # what follows is about it
            under = 3
    return "\n\n".join(filter(None, parts)) + "\n"


def _block(block: Block, under: int) -> str:  # noqa: PLR0911 - one return a kind of block
    match block:
        case Headline(text):
            return f"# {_escaped(text)}"
        case Title(text):
            return f"## {_escaped(text)}"
        case Sentence(text):
            return _paragraph(text)
        case Note(text):
            return f"> note: {_escaped(text)}"
        case Table():
            return _table(block)
        case Listing(title, items, numbered):
            marks = [f"{i}." if numbered else "-" for i in range(1, len(items) + 1)]
            lines = [
                f"{mark} {_paragraph(item.text)}" + (f" (`{visible(item.hint)}`)" if item.hint else "")
                for mark, item in zip(marks, items, strict=True)
            ]
            return "\n".join([f"{'#' * under} {_escaped(title)}", "", *lines])
        case Fields(pairs):
            return "\n".join(f"- **{_escaped(name)}**: {_escaped(value)}" for name, value in pairs)


def _table(table: Table) -> str:
    columns = shown_columns(table)
    lines = []
    if columns:
        lines = [
            _row([_escaped(column.header) for column in columns]),
            _row(["---" if column.unit == "text" else "---:" for column in columns]),
            *(_row([_escaped(cell(row.get(c.key), c.unit)) for c in columns]) for row in table.rows),
        ]
    title = [f"**{_escaped(table.title)}**", ""] if table.title else []
    return "\n".join([*title, *lines, *(["", _paragraph(table.more)] if table.more else [])])


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\g<0>", visible(text))


def _paragraph(text: str) -> str:
    """Escaped text that cannot begin a heading or a list by accident; what stands in backticks stays code."""
    parts = _CODE.split(text)
    escaped = "".join(visible(part) if i % 2 else _escaped(part) for i, part in enumerate(parts))
    start = _LINE_START.match(escaped) or re.match(r"\d+(?=[.)] )", escaped)
    return escaped if start is None else f"{escaped[: start.end()]}\\{escaped[start.end() :]}"
