"""A headless Chromium, and pages that must neither complain nor ask for anything."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import foretrace
from foretrace.render.to_html import to_html
from foretrace.report.diff import diff_document
from foretrace.report.overview import overview
from foretrace.report.page import compared, page_of
from foretrace.report.selection import EVERYTHING, Selection, select

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DATA = Path(__file__).parents[1] / "data"
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium as the system has it, or as ``FORETRACE_CHROMIUM`` names it."""
    api = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")
    names = ("chromium", "chromium-browser", "google-chrome")
    path = os.environ.get("FORETRACE_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if path is None:
        pytest.skip("needs a Chromium on PATH or in FORETRACE_CHROMIUM")
    with api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield found
        found.close()


@pytest.fixture
def show(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Open HTML text at a width and in a colour scheme; afterwards nothing was complained of and nothing requested."""
    said: list[str] = []
    contexts = []
    path = tmp_path / "page.html"

    def open_(html: str, *, width: int = 1280, scheme: str = "light", at: str = "", **options: Any) -> Any:
        path.write_text(html, encoding="utf-8")
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: message.type == "error" and said.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: said.append(f"error: {error}"))
        page.on("dialog", lambda dialog: said.append(f"dialog: {dialog.message}"))
        own = ("data:,", path.as_uri())
        page.on("request", lambda request: request.url.startswith(own) or said.append(f"request: {request.url}"))
        page.goto(f"{path.as_uri()}{at}")
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        return page

    yield open_
    for context in contexts:
        context.close()
    assert said == []


@pytest.fixture
def report() -> Callable[..., str]:
    """The page of a recorded trace, by its path under ``tests/data`` without the ending."""

    def make(name: str | Path, selection: Selection = EVERYTHING) -> str:
        path = name if isinstance(name, Path) else DATA / f"{name}.json.gz"
        run = select(foretrace.read(path), selection)
        answers = foretrace.ask(run)
        return to_html(overview(run, answers, selection), page_of(run, answers))

    return make


@pytest.fixture
def comparison() -> Callable[[str, str], str]:
    """The page that compares two recorded traces."""

    def make(before: str, after: str) -> str:
        runs = foretrace.read(DATA / f"{before}.json.gz"), foretrace.read(DATA / f"{after}.json.gz")
        found = foretrace.diff(*runs)
        return to_html(diff_document(found), compared(found, *runs))

    return make
