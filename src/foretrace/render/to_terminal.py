"""A document as text for a terminal: readable without colour, never steered by the names that it shows."""

from __future__ import annotations

import re
import textwrap
from itertools import zip_longest
from typing import TYPE_CHECKING

from rich.cells import cell_len

from foretrace.render.cells import cell, shown_columns
from foretrace.render.safe import visible
from foretrace.report.document import Fields, Headline, Item, Listing, Note, Sentence, Table, Title

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foretrace.readings import Column
    from foretrace.report.document import Block, Document

_INDENT, _GAP = "  ", "  "
_NARROWEST = 17
"""Cells to which a column of text is cut at most: enough of a kernel's name to know it by."""

_NO_BREAK = "\u00a0"
_BEFORE_UNIT = re.compile(r"(?<=\d) (?=(?:%|[nµm]?s|[kMGTP]?(?:B|FLOP)(?:/s)?)(?!\w))")

_PLAIN = {"bold": ("", ""), "dim": ("", "")}
_STYLED = {"bold": ("\x1b[1m", "\x1b[0m"), "dim": ("\x1b[2m", "\x1b[0m")}


def to_terminal(document: Document, *, width: int = 100, styled: bool = False) -> str:
    """``document`` in lines of at most ``width`` cells, with a final newline.

    Args:
        document: What to show.
        width: Columns of the terminal. A table that is wider even with its texts cut runs over: figures are not cut.
        styled: Whether to emphasise with ANSI styles; nothing is said by them alone.
    """
    parts = ("\n".join(_block(block, width, _STYLED if styled else _PLAIN)) for block in document.blocks)
    return "\n\n".join(part for part in parts if part) + "\n"


def _block(block: Block, width: int, styles: dict[str, tuple[str, str]]) -> list[str]:
    match block:
        case Headline(text) | Title(text):
            return _emphasised(_wrapped(text, width), styles["bold"])
        case Sentence(text):
            return _wrapped(text, width)
        case Note(text):
            return _emphasised(_wrapped(f"note: {text}", width, hanging="      "), styles["dim"])
        case Table():
            return _table(block, width, styles)
        case Listing(title, items, numbered):
            marks = [f"{i:>{len(str(len(items)))}}  " if numbered else "" for i in range(1, len(items) + 1)]
            lines = [line for mark, item in zip(marks, items, strict=True) for line in _item(mark, item, width)]
            return [*_emphasised([visible(title)], styles["bold"]), *lines]
        case Fields(pairs):
            left = max((cell_len(name) for name, _ in pairs), default=0)
            hanging = _INDENT + " " * (left + len(_GAP))
            rows = [(f"{_INDENT}{name}{' ' * (left - cell_len(name))}{_GAP}", value) for name, value in pairs]
            return [line for name, value in rows for line in _wrapped(value, width, name, hanging)]


def _emphasised(lines: list[str], style: tuple[str, str]) -> list[str]:
    return [f"{style[0]}{line}{style[1]}" for line in lines]


def _wrapped(text: str, width: int, first: str = "", hanging: str = "") -> list[str]:
    """Paragraphs of ``text`` folded at spaces; a word that is longer than a line runs over and stays whole.

    A figure and its unit are one word.
    """
    lines = textwrap.wrap(
        _BEFORE_UNIT.sub(_NO_BREAK, visible(text)),
        width,
        initial_indent=first,
        subsequent_indent=hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(_NO_BREAK, " ") for line in lines]


def _item(mark: str, item: Item, width: int) -> list[str]:
    lines = _wrapped(item.text, width, _INDENT + mark, _INDENT + " " * len(mark))
    if not item.hint:
        return lines
    hint = visible(item.hint)
    if lines and cell_len(lines[-1]) + len(_GAP) + cell_len(hint) <= width:
        lines[-1] += " " * (width - cell_len(lines[-1]) - cell_len(hint)) + hint
        return lines
    return [*lines, " " * max(len(_INDENT), width - cell_len(hint)) + hint]


def _table(table: Table, width: int, styles: dict[str, tuple[str, str]]) -> list[str]:
    columns = shown_columns(table)
    grid, widths = _grid(table, columns)
    narrowest = [min(w, _NARROWEST) if c.unit == "text" else w for w, c in zip(widths, columns, strict=True)]
    if _total(narrowest) > width:
        columns = [column for column in columns if not column.spare]
        grid, widths = _grid(table, columns)
    is_text = [column.unit == "text" for column in columns]
    texts = [i for i, text in enumerate(is_text) if text]
    # what a row is about comes first and is the last to be cut
    for some in [texts] if table.folds else [texts[1:], texts[:1]]:
        widths = _fitted(widths, some, width)
    fold = _folded if table.folds else _cut
    head, *rows = (
        _lines([fold(value, room) for value, room in zip(cells, widths, strict=True)], widths, is_text)
        for cells in grid
    )
    lines = [*_emphasised(head, styles["dim"]), *(line for row in rows for line in row)]
    title = _emphasised(_wrapped(table.title, width), styles["bold"]) if table.title else []
    more = _wrapped(table.more, width, _INDENT, _INDENT) if table.more else []
    return [*title, *lines, *more] if columns else [*title, *more]


def _grid(table: Table, columns: Sequence[Column]) -> tuple[list[list[str]], list[int]]:
    """The cells of the header and of every row, and how wide each column would like to be."""
    body = [[visible(cell(row.get(column.key), column.unit)) for column in columns] for row in table.rows]
    grid = [[visible(column.header) for column in columns], *body]
    return grid, [max(cell_len(line[i]) for line in grid) for i in range(len(columns))]


def _total(widths: Sequence[int]) -> int:
    return len(_INDENT) + sum(widths) + len(_GAP) * (len(widths) - 1)


def _fitted(widths: Sequence[int], texts: Sequence[int], width: int) -> list[int]:
    """``widths`` with the widest of the columns ``texts`` narrowed until a line fits, as far as it can."""
    fitted = list(widths)
    spare = _total(widths) - width
    while spare > 0:
        widest = max(texts, key=lambda i: fitted[i], default=None)
        if widest is None or fitted[widest] <= _NARROWEST:
            break
        fitted[widest] -= 1
        spare -= 1
    return fitted


def _lines(cells: Sequence[Sequence[str]], widths: Sequence[int], is_text: Sequence[bool]) -> list[str]:
    """One row of a table, in as many lines as its tallest cell; texts to the left, figures to the right."""
    lines = []
    for values in zip_longest(*cells, fillvalue=""):
        blanks = [" " * (room - cell_len(value)) for value, room in zip(values, widths, strict=True)]
        padded = [v + b if text else b + v for v, b, text in zip(values, blanks, is_text, strict=True)]
        lines.append((_INDENT + _GAP.join(padded)).rstrip())
    return lines


class _Folder(textwrap.TextWrapper):
    """Breaks at spaces, and after a path's folders, so that the name of a file stays whole where a line has room."""

    wordsep_simple_re = re.compile(r"(\s+|(?<=[/\\])(?=[^\s/\\]{6}))")  # not in `GB/s`


def _folded(text: str, room: int) -> list[str]:
    """``text`` in lines of at most ``room`` cells."""
    return _Folder(room, break_on_hyphens=False).wrap(text) if cell_len(text) > room else [text]


def _cut(text: str, room: int) -> list[str]:
    """``text`` in at most ``room`` cells without its middle: heads say what a name is, ends tell names apart.

    A list in words loses its last members whole; commas inside a C++ name are no such list.
    """
    if cell_len(text) <= room:
        return [text]
    whole = text.rfind(", ", 0, room + 1) if not set("<({") & set(text) else -1
    if whole >= room // 2 and cell_len(text[:whole]) < room:
        return [f"{text[:whole]}…"]
    tail = text[-(room // 4) :]
    head = text[: room - 1 - len(tail)]
    while cell_len(head) + cell_len(tail) + 1 > room:  # wide characters
        head, tail = (head[:-1], tail) if len(head) >= len(tail) else (head, tail[1:])
    return [f"{head}…{tail}"]
