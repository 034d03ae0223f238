"""Pages of HTML without a browser: what is in the file, and what can never be."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import foretrace
from foretrace.readings import Column
from foretrace.render.html import embedded, escaped, paragraph, tag
from foretrace.render.to_html import to_fragment, to_html
from foretrace.report.diff import diff_document
from foretrace.report.document import Document, Headline, Item, Listing, Sentence, Table
from foretrace.report.overview import overview
from foretrace.report.page import Page, page_of
from foretrace.report.roofline import Point, Roofline

if TYPE_CHECKING:
    from collections.abc import Callable

DATA = Path(__file__).parents[2] / "data"
TRACES = sorted([*DATA.glob("h200/*.json.gz"), *DATA.glob("two_ranks/*.json.gz")])
MOST_BYTES = 1_500_000
VOID = {"meta", "link", "input", "br"}


class _Outline(HTMLParser):
    """Elements with their attributes; complains of what is not closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def outline(html: str) -> _Outline:
    """The page, parsed; every element is closed in its turn."""
    parsed = _Outline()
    parsed.feed(html)
    parsed.close()
    assert parsed.open == []
    return parsed


def page(path: Path) -> str:
    """The page of a trace."""
    run = foretrace.read(path)
    answers = foretrace.ask(run)
    return to_html(overview(run, answers), page_of(run, answers))


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.name.removesuffix(".json.gz"))
def test_recorded_traces_make_small_whole_pages(path: Path) -> None:
    """Well-formed, below 1.5 MB, with one heading of the first level, every id once, and no way out to a network."""
    html = page(path)
    assert len(html.encode()) < MOST_BYTES
    found = outline(html)
    assert [tag for tag, _ in found.elements].count("h1") == 1
    ids = [attributes["id"] for _, attributes in found.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for name in ("src", "href", "action", "srcset", "poster", "data", "style", "onclick"):
        values = {attributes[name] or "" for _, attributes in found.elements if name in attributes}
        assert {value for value in values if not value.startswith("#")} <= {"data:,"}


def test_links_lead_somewhere() -> None:
    """Every link of a page goes to an id that it has or to an event that its timeline draws or stands in for."""
    found = outline(page(DATA / "h200" / "mlp_recompiles.json.gz"))
    ids = {attributes["id"] for _, attributes in found.elements if "id" in attributes}
    data = json.loads(next(text for text in found.texts if text.startswith('{"key"')))
    events = {f"event-{event}" for event in (*data["event"], *data["elsewhere"])}
    links = [str(attributes["href"])[1:] for tag, attributes in found.elements if tag == "a"]
    assert len(links) > 50
    assert set(links) <= ids | events


def test_policy_names_what_is_inside() -> None:
    """The policy allows nothing but the page's own style and script, by the digest of their very bytes."""
    html = to_html(Document((Sentence("Nothing to see."),)))
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html)
    assert policy is not None
    digests = {}
    for name in ("style", "script"):
        text = re.search(rf"<{name}>(.*?)</{name}>", html, re.DOTALL)
        assert text is not None
        digests[name] = base64.b64encode(hashlib.sha256(text[1].encode()).digest()).decode()
    assert policy[1] == (
        f"default-src 'none'; style-src 'sha256-{digests['style']}'; script-src 'sha256-{digests['script']}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def test_every_block(document: Document, snapshot: Callable[[str, str], None]) -> None:
    """A document with every kind of block, as accepted, for a place inside another page."""
    html = to_fragment(document)
    outline(html)
    snapshot(f"{html}\n", "document.html")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
        ("\"' onmouseover=x", "&quot;&#x27; onmouseover=x"),
        ("gemm\u202egnp.exe", "gemm\\u202egnp.exe"),
        ("\x1b[31mred\x1b[0m", "\\u001b[31mred\\u001b[0m"),
        ("a & b &lt;", "a &amp; b &amp;lt;"),
        ("\ud800", "\\ud800"),
    ],
)
def test_text_shows_as_it_is(text: str, shown: str) -> None:
    """Tags, quotes, entities, marks that reorder text, escapes and lone surrogates are shown, not obeyed."""
    assert escaped(text) == shown
    assert tag("b", title=text) == f'<b title="{shown}"></b>'


def test_code_in_a_paragraph_is_escaped_too() -> None:
    """Backticks make code of what is between them and let nothing else through."""
    assert paragraph("`a<b>` writes <i>") == "<code>a&lt;b&gt;</code> writes &lt;i&gt;"


def test_embedded_data_cannot_end_its_element() -> None:
    """Data inside a script element holds no ``<``, ``>`` or ``&`` and is still the same data."""
    data = {"names": ["</script><script>alert(1)</script>", "<!--", "a & b"]}
    text = embedded(data)
    assert not set(text) & set("<>&")
    assert json.loads(text) == data


def test_unknown_is_sorted_as_unknown() -> None:
    """Figures carry their value for sorting, and what is unknown carries none."""
    table = Table((Column("k", "kernel"), Column("t", "µs", "ns")), [{"k": "a", "t": 1_280_000}, {"k": "b"}])
    html = to_fragment(Document((table,)))
    assert '<td class="number" data-value="1.28e+06">1,280</td>' in html
    assert '<td class="number">–</td>' in html


def test_hint_is_a_link_where_the_answer_is_on_the_page() -> None:
    """``--ask idle`` leads to that answer on the page of a run and is a command anywhere else."""
    document = Document((Headline("x"), Listing("Worth knowing", (Item("The GPU waits.", "--ask idle"),))))
    answer = foretrace.Answer("idle", "Where does the GPU sit idle?", "Nowhere.")
    assert '<a href="#ask-idle">idle</a>' in to_html(document, Page(source="t.json", answers=(answer,)))
    assert "<code" in to_html(document)
    assert '<a href="#ask-idle">' not in to_html(document)


def test_roofline_is_drawn_to_scale() -> None:
    """A point on the roof lies on its line; a memory-bound point at half of the bandwidth lies below the slope."""
    points = (
        Point("gemm", "aten::mm", 1000.0, 1e15, 0.9, "compute", 7),
        Point("mul", None, 1.0, 2e12, 0.1, "memory", 8),
    )
    html = to_html(Document(()), Page(source="", roofline=Roofline("X", 4e12, (("bf16", 1e15),), points, 2)))
    found = outline(html)
    circles = [dict(attributes) for tag, attributes in found.elements if tag == "circle"]
    roofs = [dict(a) for tag, a in found.elements if tag == "line" and a["class"] == "roof"]
    slope, roof = roofs
    assert len([1 for tag, _ in found.elements if tag == "a"]) == 2  # skip link and contents: no point has an event
    assert circles[0]["cy"] == roof["y1"] == roof["y2"]
    assert float(circles[0]["r"] or 0) > float(circles[1]["r"] or 0)
    assert slope["x2"] == roof["x1"]
    assert _below(circles[1], slope) > 0
    assert "2 kernels without known FLOPs and bytes cannot be placed." in html


def _below(circle: dict[str, Any], line: dict[str, Any]) -> float:
    x1, y1, x2, y2 = (float(line[key]) for key in ("x1", "y1", "x2", "y2"))
    return float(circle["cy"]) - (y1 + (float(circle["cx"]) - x1) * (y2 - y1) / (x2 - x1))


def test_a_timeline_without_a_gpu_counts_no_kernels(tmp_path: Path) -> None:
    """The line above a CPU trace's timeline says how long it is, and nothing of 0 kernels."""
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 500}
    trace = tmp_path / "cpu.json"
    trace.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [event]}))
    run = foretrace.read(trace)
    page = to_html(overview(run, ()), page_of(run, ()))
    assert "0 kernels" not in page
    assert " · 500 µs." in page


def test_a_comparison_is_sorted_by_its_figures() -> None:
    """Changes are texts with a sign; what the page's script sorts by is the number behind each."""
    found = foretrace.diff(
        *(foretrace.read(DATA / "h200" / f"mlp_64x128x768x3072_{n}.json.gz") for n in ("eager", "compiled"))
    )
    page = to_html(diff_document(found))
    cells = re.findall(r'data-value="([^"]+)"[^>]*> *([+−][\d.]+)<', page)
    assert [(round(float(value) / 1000, 1), text) for value, text in cells][2] == (-31.7, "−31.7")
    assert all(round(float(value) / 1000, 1) == float(text.replace("−", "-")) for value, text in cells)
    assert len(cells) == 6
