"""Documents as Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from foretrace.readings import Column
from foretrace.render.to_markdown import to_markdown
from foretrace.report.document import Document, Headline, Item, Listing, Sentence, Table, Title

if TYPE_CHECKING:
    from collections.abc import Callable


def test_every_block(document: Document, snapshot: Callable[[str, str], None]) -> None:
    """The whole page, as accepted: one first heading, pipe tables with figures to the right, hints as code."""
    snapshot(to_markdown(document), "document.md")


def test_lists_stand_under_the_title_that_they_are_about() -> None:
    """A listing of a page is a heading of the second level, one behind a title of the third."""
    listing = Listing("Surprises", (Item("one"),))
    text = to_markdown(Document((Headline("Page"), listing, Title("1  nn.Linear"), listing)))
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        "# Page",
        "## Surprises",
        "## 1  nn.Linear",
        "### Surprises",
    ]


def test_names_cannot_break_a_table() -> None:
    """Pipes, tags and line breaks in a name stay inside their cell."""
    table = Table((Column("name", "name"), Column("t", "µs", "ns")), [{"name": "a|b<c>\nd", "t": 1_000}])
    row = to_markdown(Document((table,))).splitlines()[2]
    assert row == r"| a\|b\<c\>\\u000ad | 1.00 |"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("# no heading", r"\# no heading"),
        ("- no list", r"\- no list"),
        ("2. no list", r"2\. no list"),
        ("_private_ and aten::add_", r"\_private\_ and aten::add\_"),
        ("snake_case stays", "snake_case stays"),
        ("2.5 µs", "2.5 µs"),
        ("`a_*b*` is code, a lone ` is not", r"`a_*b*` is code, a lone \` is not"),
    ],
)
def test_text_shows_as_it_is(text: str, shown: str) -> None:
    """A sentence never turns into markup by what it begins with or contains."""
    assert to_markdown(Document((Sentence(text),))) == f"{shown}\n"
