"""A trace whose names attack: nothing runs, nothing is disguised."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ATTACKS = (
    "<script>window.owned=1</script>",
    "</script><script>window.owned=1</script>",
    "<img src=x onerror=window.owned=1>",
    '"><svg onload=window.owned=1>',
    "' onfocus='window.owned=1' autofocus='",
    "javascript:window.owned=1",
    "<!--<script>",
    "]]></script>",
    "${window.owned=1}$title",
    "gemm\u202egnp.exe\u2066",
    "\x1b]0;owned\x07\x1b[31mred\u200b",
)


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A step whose device, threads, regions, ops, kernels and file all carry every attack."""
    events: list[dict[str, Any]] = [
        {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 1, "tid": 1, "ts": 0, "dur": 1000}
    ]
    for number, attack in enumerate(ATTACKS):
        at = 10 + 50 * number
        host = {"ph": "X", "pid": 1, "tid": 1}
        ids = {"correlation": number + 1, "External id": number + 1}
        events += [
            {"ph": "M", "name": "thread_name", "pid": 1, "tid": 100 + number, "args": {"name": attack}},
            {**host, "cat": "user_annotation", "name": f"region {attack}", "ts": at, "dur": 40},
            {**host, "cat": "cpu_op", "name": f"op {attack}", "ts": at + 1, "dur": 30,
             "args": {"Input Dims": [[attack]], "Input type": [attack], **ids}},
            {**host, "cat": "cpu_op", "name": attack, "tid": 100 + number, "ts": at, "dur": 5},
            {**host, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": at + 2, "dur": 5, "args": ids},
            {"ph": "X", "cat": "kernel", "name": f"kernel {attack}", "pid": 0, "tid": 7, "ts": at + 10, "dur": 20,
             "args": {"stream": 7, "device": 0, **ids}},
        ]  # fmt: skip
    path = tmp_path / "trace <b>'\" .json"
    device = {"id": 0, "name": ATTACKS[1], "computeMajor": 9, "computeMinor": 0}
    path.write_text(json.dumps({"deviceProperties": [device], "traceEvents": events}))
    return path


def test_hostile_names_neither_run_nor_disguise(
    show: Callable[..., Any], report: Callable[..., str], hostile: Path
) -> None:
    """Every name is on the page as plain text, also in hints and details, and none of its code runs."""
    page = show(report(hostile))
    text = page.locator("body").inner_text()
    for attack in (
        "<script>window.owned=1</script>",
        "<img src=x onerror=window.owned=1>",
        "gemm\\u202egnp.exe\\u2066",
    ):
        assert f"kernel {attack}" in text
    assert "kernel \\x1b]0;owned\\x07\\x1b[31mred\\u200b" in text
    page.locator(".canvas").focus()
    for _ in ATTACKS:
        page.keyboard.press("ArrowRight")
        assert page.locator("#detail dd.name").inner_text().startswith("kernel ")
    assert page.locator("#detail dd.name").inner_text() == "kernel \\x1b]0;owned\\x07\\x1b[31mred\\u200b"
    box = page.locator("canvas").bounding_box()
    for share in (0.1, 0.3, 0.5):
        page.mouse.move(box["x"] + box["width"] * share, box["y"] + 50)
    assert page.evaluate("window.owned") is None
    assert page.locator("img, iframe, object, embed, main svg:not(.roofline, .idle)").count() == 0
    assert not set(page.content()) & {"\u202e", "\u2066", "\x1b", "\u200b", "\x07"}
    assert not set(page.evaluate("document.body.textContent")) & {"\u202e", "\u2066", "\x1b", "\u200b", "\x07"}
    assert page.title() == page.locator("h1").inner_text()


def test_a_page_that_was_broken_into_would_still_be_held(
    browser: Any, report: Callable[..., str], tmp_path: Path
) -> None:
    """Were a name ever let through, the page's policy refuses its script: this test breaks in to see it."""
    path = tmp_path / "page.html"
    path.write_text(report("h200/sdpa").replace("<main id=", "<script>window.owned=1</script><main id=", 1))
    page = browser.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.goto(path.as_uri())
    assert page.evaluate("window.owned") is None
    assert "violates the following Content Security Policy directive" in said[0]
    page.close()
