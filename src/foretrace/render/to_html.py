"""A document, and the page of a run where there is one, as one HTML file that asks nothing of any network."""

from __future__ import annotations

from itertools import takewhile
from string import Template
from typing import TYPE_CHECKING, Any

from foretrace import __version__, units
from foretrace.render.cells import cell, shown_columns
from foretrace.render.html import escaped, paragraph, source_hash, tag, template
from foretrace.render.plots import idle_bar, roofline_plot
from foretrace.render.timeline import timelines
from foretrace.report.document import Fields, Headline, Listing, Note, Sentence, Table, Title
from foretrace.report.page import Page

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from foretrace.readings import Answer, Column
    from foretrace.report.document import Block, Document
    from foretrace.report.page import Node

_NO_PAGE = Page(source="")
_FILTERED = 8
"""Rows from which a table is given a field to filter it."""
_OPEN_DEPTH = 5
_MOST_ROWS = 200
"""Rows of evidence that are shown at all."""
_FEW_ROWS = 12
"""Evidence of up to this many rows is shown without asking for it."""


def to_html(document: Document, page: Page | None = None) -> str:
    """``document`` as a page of its own: style and script inside, everything else refused by its policy.

    Args:
        document: What to show.
        page: The timeline and the plots of the run that it is about; the timeline stands before the first table.
    """
    shown = page or _NO_PAGE
    drawn = _events(shown)
    first = next((block for block in document.blocks if isinstance(block, Headline)), None)
    blocks = [block for block in document.blocks if block is not first]
    before = list(takewhile(lambda block: not isinstance(block, (Table, Listing, Title)), blocks))
    after = blocks[len(before) :]
    asked = frozenset(answer.question for answer in shown.answers)
    sections = _sections(shown, drawn)
    body = [
        *_blocks(before, drawn, asked),
        timelines(shown.timelines),
        *_blocks(after, drawn, asked),
        *(html for _, _, html in sections),
    ]
    headline = first.text if first else shown.title or "foretrace"
    contents = [("timeline", "Timeline")] if shown.timelines else []
    contents += [(anchor, title) for anchor, title, _ in sections]
    style, script = template("page.css"), "".join(map(template, ("page.js", "timeline.js", "hands.js")))
    return Template(template("page.html")).substitute(
        title=escaped(headline),
        style=style,
        script=script,
        style_hash=source_hash(style),
        script_hash=source_hash(script),
        contents="".join(tag("a", name, href=f"#{anchor}") for anchor, name in contents),
        body="\n".join(filter(None, body)),
        made=escaped(f"foretrace {__version__}" + (f" · {shown.source}" if shown.source else "")),
    )


def to_fragment(document: Document) -> str:
    """``document`` as HTML without style, script or links, for a place inside another page."""
    return "\n".join(_blocks(document.blocks, frozenset(), frozenset()))


def _events(page: Page) -> frozenset[int]:
    """The events that a link can lead to, in the page of one run."""
    if len(page.timelines) != 1:
        return frozenset()
    drawn = page.timelines[0]
    return frozenset(slice_.event for slice_ in drawn.slices) | frozenset(drawn.stands_for)


def _blocks(blocks: Iterable[Block], drawn: frozenset[int], asked: frozenset[str]) -> Iterator[str]:
    """Every block; a listing after a title is a part of what the title names."""
    under = 2
    for block in blocks:
        yield _block(block, drawn, asked, under)
        if isinstance(block, Title):
            under = 3


def _block(block: Block, drawn: frozenset[int], asked: frozenset[str], under: int) -> str:  # noqa: PLR0911 - one a kind
    match block:
        case Headline(text):
            return tag("h1", escaped(text))
        case Title(text):
            return tag("h2", escaped(text))
        case Sentence(text):
            return tag("p", paragraph(text))
        case Note(text):
            return tag("p", f"<b>note:</b> {paragraph(text)}", class_="note")
        case Table():
            return _table(block, drawn)
        case Listing(title, items, numbered):
            entries = "".join(
                tag("li", f"{paragraph(item.text)}{_hint(item.hint, asked) if item.hint else ''}") for item in items
            )
            return f"{tag(f'h{under}', escaped(title))}{tag('ol' if numbered else 'ul', entries, class_='listing')}"
        case Fields(pairs):
            return tag("dl", "".join(f"{tag('dt', escaped(k))}{tag('dd', paragraph(v))}" for k, v in pairs))


def _hint(hint: str, asked: frozenset[str]) -> str:
    """The command that shows more, and a way to what it would show where that is on this page."""
    questions = [word for word in hint.split() if word in asked] if hint.startswith("--ask ") else []
    links = " ".join(tag("a", escaped(question), href=f"#ask-{question}") for question in questions)
    return f' <span class="more">{links}</span>' if links else f" {tag('code', escaped(hint), class_='more')}"


def _table(table: Table, drawn: frozenset[int], *, filtered: bool = False) -> str:
    columns = shown_columns(table)
    caption = escaped(table.title) if table.title else ""
    more = tag("p", paragraph(table.more), class_="more") if table.more else ""
    if not columns:
        return f"{tag('p', caption) if caption else ''}{more}"
    head = "".join(_head(column) for column in columns)
    rows = "".join(
        tag("tr", "".join(_cell(row, column, drawn, first=i == 0) for i, column in enumerate(columns)))
        for row in table.rows
    )
    body = f"<caption>{caption}</caption><thead><tr>{head}</tr></thead><tbody>{rows}</tbody>"
    name = table.title or columns[0].header
    scroller = tag("div", tag("table", body), class_="scroll", tabindex=0, role="group", aria_label=name)
    field = ""
    if filtered and len(table.rows) >= _FILTERED:
        field = (
            '<label class="filter">Filter <input type="search" placeholder="gemm, aten::mm, memory…" '
            'autocomplete="off" spellcheck="false"></label> <output class="more" aria-live="polite"></output>'
        )
    return tag("div", f"{field}{scroller}{more}", class_="table")


def _head(column: Column) -> str:
    number = None if column.unit == "text" else "number"
    return tag("th", escaped(column.header), scope="col", class_=number) if column.header else tag("td", class_=number)


def _cell(row: Mapping[str, Any], column: Column, drawn: frozenset[int], *, first: bool) -> str:
    value, unit = row.get(column.key), column.unit
    sorted_by = row.get(column.by) if column.by else value
    text = escaped(cell(value, unit))
    if first and row.get("event") in drawn:
        text = tag("a", text, href=f"#event-{row['event']}")
    return tag(
        "th" if first else "td",
        text,
        scope="row" if first else None,
        class_="number" if unit != "text" else None,
        data_value=float(sorted_by) if unit != "text" and isinstance(sorted_by, (int, float)) else None,
        title=row["name"] if first and isinstance(row.get("name"), str) and row["name"] != value else None,
    )


def _sections(page: Page, drawn: frozenset[int]) -> list[tuple[str, str, str]]:
    """Anchor, title and HTML of the sections after the document."""
    found = []
    if page.kernels:
        found.append(("kernels", "Kernels", _table(page.kernels, drawn, filtered=True)))
    if page.roofline:
        without = page.roofline.without
        rest = f" {units.plural(without, 'kernel')} without known FLOPs and bytes cannot be placed." if without else ""
        about = f"Each point is a kernel, as large as its share of the time; the nearer to the roof the better.{rest}"
        plot = tag(
            "div", roofline_plot(page.roofline, drawn), class_="plot", tabindex=0, role="group", aria_label="Plot"
        )
        found.append(("roofline", "Roofline", f"{tag('p', escaped(about))}{plot}"))
    if page.idle:
        about = "From the first GPU event to the last: busy, or idle and why."
        found.append(("idle", "Busy and idle", f"{tag('p', about)}{idle_bar(page.idle)}"))
    if page.chains:
        about = f"Region, ops, runtime call, kernel, of {page.chains_of}: launches, and GPU µs below each."
        tree = f'<div class="chains">{_tree(page.chains, drawn, 0)}</div>'
        found.append(("chains", "From op to kernel", f"{tag('p', escaped(about))}{tree}"))
    if page.answers:
        found.append(("answers", "Answers and their evidence", "".join(_answer(a, drawn) for a in page.answers)))
    return [
        (anchor, title, tag("section", f"{tag('h2', title)}{inner}", id=anchor, aria_label=title))
        for anchor, title, inner in found
    ]


def _answer(answer: Answer, drawn: frozenset[int]) -> str:
    advice = tag("p", f"<b>Do:</b> {paragraph(answer.advice.text)}") if answer.advice else ""
    evidence = ""
    if answer.evidence and answer.columns:
        rest = len(answer.evidence) - _MOST_ROWS
        more = f"and {units.plural(rest, 'row')} more: `--format json` has all" if rest > 0 else None
        rows = Table(answer.columns, answer.evidence[:_MOST_ROWS], more=more)
        evidence = tag(
            "details",
            f"<summary>Evidence: {units.plural(len(answer.evidence), 'row')}</summary>{_table(rows, drawn)}",
            **({"open": ""} if len(answer.evidence) <= _FEW_ROWS else {}),
        )
    inner = f"{tag('h3', escaped(answer.ask))}{tag('p', paragraph(answer.sentence))}{advice}{evidence}"
    return tag("article", inner, id=f"ask-{answer.question}")


def _tree(nodes: Iterable[Node], drawn: frozenset[int], depth: int) -> str:
    return tag("ul", "".join(tag("li", _node(node, drawn, depth)) for node in nodes))


def _node(node: Node, drawn: frozenset[int], depth: int) -> str:
    times = f' <span class="more">×{node.count:,}</span>' if node.count > 1 else ""
    name = escaped(node.name)
    if node.event in drawn:
        name = tag("a", name, href=f"#event-{node.event}")
    line = f"<span>{name}{times}</span><b>{units.microseconds(node.total_ns)}</b>"
    if not node.children:
        return tag("div", line, class_="leaf")
    # a chain without branches has nothing to choose from: its links open together
    opened = depth < _OPEN_DEPTH or len(node.children) == 1
    inner = f"<summary>{line}</summary>{_tree(node.children, drawn, depth + 1)}"
    return tag("details", inner, **({"open": ""} if opened else {}))
