"""Reports in a real browser: what is drawn, what keys and the mouse do, who can read it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from foretrace.report.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Callable

EAGER, COMPILED = "h200/mlp_64x128x768x3072_eager", "h200/mlp_64x128x768x3072_compiled"
FRAME = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
# how many stretches of each colour of the legend one line of pixels through the first row of boxes has
STRETCHES = """() => {
  const canvas = document.querySelector('canvas');
  const y = Math.round((24 + 20 + 3) * devicePixelRatio);
  const { data } = canvas.getContext('2d').getImageData(0, y, canvas.width, 1);
  const kinds = {};
  for (const box of document.querySelectorAll('[data-kind]')) {
    kinds[getComputedStyle(box).backgroundColor.match(/\\d+/g).slice(0, 3).join()] = box.dataset.kind;
  }
  const found = {};
  let last = null;
  for (let x = 0; x < canvas.width; x += 1) {
    const kind = kinds[[data[4 * x], data[4 * x + 1], data[4 * x + 2]].join()];
    if (kind && kind !== last) found[kind] = (found[kind] || 0) + 1;
    last = kind;
  }
  return found;
}"""


def in_view(page: Any, figure: int = 0) -> tuple[int, int]:
    """Kernels that the script says to have drawn, and all of them."""
    page.evaluate(FRAME)
    shown = re.search(r"In view: (\d+) of (\d+) kernels", page.locator("figcaption").nth(figure).inner_text())
    assert shown is not None
    return int(shown[1]), int(shown[2])


def selected(page: Any) -> str:
    """The name of the selected box, as the file has it."""
    return str(page.locator("#detail dd.name").inner_text())


@pytest.mark.parametrize(
    ("trace", "kernels"),
    [(EAGER, 15), ("h200/llama4_decode1", 558), ("h200/mlp_two_streams", 21), ("two_ranks/ddp_rank0", 341)],
)
def test_timeline_draws_every_kernel(
    show: Callable[..., Any], report: Callable[..., str], trace: str, kernels: int
) -> None:
    """The whole of a short trace is drawn, with as many kernels as an independent count of its file has."""
    assert in_view(show(report(trace))) == (kernels, kernels)


def test_long_trace_shows_one_step(show: Callable[..., Any], report: Callable[..., str]) -> None:
    """A trace of 24,000 slices is reduced to one step, which says so and has that step's 629 kernels."""
    page = show(report("h200/mlp_recompiles"))
    assert in_view(page) == (629, 629)
    assert "the step with the median GPU time" in page.locator("figcaption").inner_text()
    assert "Left out: 2 other steps" in page.locator("figcaption").inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_kernels_are_there_as_pixels(show: Callable[..., Any], report: Callable[..., str], scheme: str) -> None:
    """One eager step of the MLP: three compute-bound GEMMs, two memory-bound elementwise kernels, two memsets."""
    page = show(report(EAGER, Selection(step=3)), scheme=scheme)
    assert page.evaluate(STRETCHES) == {"compute": 3, "memory": 2, "set": 2}


def test_zoom_and_pan(show: Callable[..., Any], report: Callable[..., str]) -> None:
    """Buttons, keys and Ctrl+wheel zoom, Shift+arrows and dragging pan, 0 shows everything again."""
    page = show(report(EAGER))
    page.get_by_role("button", name="Zoom in").click(click_count=5, delay=5)
    few = in_view(page)[0]
    assert few < 15
    page.locator(".canvas").focus()
    page.keyboard.press("0")
    assert in_view(page) == (15, 15)
    for _ in range(6):
        page.keyboard.press("+")
    middle = in_view(page)[0]
    assert middle < 15
    for _ in range(30):
        page.keyboard.press("Shift+ArrowRight")
    at_end = in_view(page)[0]
    assert at_end < 15
    page.get_by_role("button", name="Show everything").click()
    box = page.locator("canvas").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 60)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -500)
    page.keyboard.up("Control")
    zoomed = in_view(page)[0]
    assert zoomed < 15
    before = page.evaluate(STRETCHES)
    page.mouse.down()
    page.mouse.move(box["x"] + 40, box["y"] + 60, steps=4)
    page.mouse.up()
    page.evaluate(FRAME)
    assert page.evaluate(STRETCHES) != before


def test_keyboard_walks_the_boxes(show: Callable[..., Any], report: Callable[..., str]) -> None:
    """Arrows go from box to box and from row to row, Enter zooms to the box, Escape lets it go."""
    page = show(report(EAGER, Selection(step=3)))
    page.locator(".canvas").focus()
    walked = []
    for _ in range(8):
        page.keyboard.press("ArrowRight")
        walked.append(selected(page).split("<")[0].split("(")[0].strip())
    assert walked == [
        "Memset",
        "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT",
        "void at::native::vectorized_elementwise_kernel",
        "Memset",
        "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT",
        "void at::native::vectorized_elementwise_kernel",
        "nvjet_sm90_tst_192x128_64x5_1x2_h_bz_coopB_TNT",
        "nvjet_sm90_tst_192x128_64x5_1x2_h_bz_coopB_TNT",  # the last one stays
    ]
    assert "cuBLASLt GEMM for Hopper" in page.locator("#detail").inner_text()
    page.keyboard.press("Enter")
    assert in_view(page)[0] < 5
    page.keyboard.press("ArrowDown")
    assert selected(page) == "ProfilerStep#3"
    page.keyboard.press("ArrowUp")
    assert selected(page).startswith("nvjet_sm90_tst_192x128")
    page.keyboard.press("Escape")
    assert page.locator("#detail h3").count() == 0


def aim(page: Any, hint: str) -> tuple[float, float]:
    """Where the mouse gives ``hint``, once the page has stopped scrolling: a point right of the timeline's middle."""
    for patience in range(50):
        box = page.locator("canvas").bounding_box()
        x, y = box["x"] + box["width"] * 0.55 + patience % 2, box["y"] + 50
        page.mouse.move(x, y)
        page.evaluate(FRAME)
        settled = page.locator("canvas").bounding_box() == box
        if settled and page.locator("#hint").inner_text() == hint:
            return x, y
        page.wait_for_timeout(100)
    raise AssertionError(page.locator("#hint").inner_text())


def test_mouse_names_and_selects_a_box(show: Callable[..., Any], report: Callable[..., str]) -> None:
    """Over a kernel a hint tells name, time and bound; a click selects it."""
    page = show(report(EAGER, Selection(step=3)), at="#event-125")
    hint = "nvjet 256×128×64, 4 stages, bf16→bf16: 55.7 µs, compute"
    aim(page, hint)
    page.keyboard.press("Escape")
    page.mouse.click(*aim(page, hint))
    assert selected(page) == "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT"


def test_evidence_leads_to_the_timeline(show: Callable[..., Any], report: Callable[..., str]) -> None:
    """A row of an answer's evidence selects its event, which the address then names; such an address opens there."""
    html = report(EAGER)
    page = show(html)
    page.locator("#ask-roofline tbody a").nth(1).click()
    assert selected(page).startswith("void at::native::vectorized_elementwise_kernel<8, at::native::GeluCUDA")
    assert page.evaluate("location.hash") == "#event-101"
    assert page.evaluate("document.activeElement.className") == "canvas"
    assert "GeluCUDA" in selected(show(html, at="#event-101"))


def test_evidence_of_another_step_leads_to_its_twin(show: Callable[..., Any], report: Callable[..., str]) -> None:
    """Where one step is drawn, evidence of another step selects the same kernel in the step that is drawn."""
    page = show(report("h200/mlp_recompiles"))
    link = page.locator("#kernels tbody a").first
    name = page.locator("#kernels tbody th").first.get_attribute("title")
    link.click()
    assert selected(page) == name
    assert in_view(page)[0] < 629


def test_selected_kernel_leads_to_the_answers_about_it(show: Callable[..., Any], report: Callable[..., str]) -> None:
    """A kernel names the answers whose evidence it is, also when that evidence is its twin in another step."""
    page = show(report(EAGER), at="#event-153")
    links = page.locator("#detail a")
    names = [links.nth(i).inner_text() for i in range(links.count())]
    assert {"kernels", "chain", "roofline"} <= set(names)
    links.filter(has_text="roofline").click()
    assert page.evaluate("location.hash") == "#ask-roofline"


def test_points_and_chains_lead_to_the_timeline(show: Callable[..., Any], report: Callable[..., str]) -> None:
    """A point of the roofline and a kernel in the tree of chains select their kernels, by keyboard too."""
    page = show(report(EAGER))
    page.locator("svg.roofline a").last.focus()
    page.keyboard.press("Enter")
    assert "GeluCUDAKernel" in selected(page)
    page.locator(".chains a").filter(has_text="elementwise mul").click()
    assert "MulFunctor" in selected(page)


def test_tables_filter_and_sort(show: Callable[..., Any], report: Callable[..., str]) -> None:
    """Words narrow the table of kernels; a header sorts it, largest first, then smallest, then as it was."""
    page = show(report("h200/train_mlp_eager"))
    rows = page.locator("#kernels tbody tr")
    assert rows.count() == 23
    page.get_by_label("Filter").fill("gelu")
    assert page.locator("#kernels tbody tr:visible").count() == 2
    assert page.locator("#kernels output").inner_text() == "2 of 23"
    page.get_by_label("Filter").fill("gelu backward")
    assert page.locator("#kernels tbody tr:visible").count() == 1
    page.get_by_label("Filter").fill("")
    header = page.locator("#kernels thead th").filter(has_text="µs")
    first = rows.first.inner_text()
    header.get_by_role("button").click()
    assert header.get_attribute("aria-sort") == "descending"
    assert "nvjet 256×128×64" in rows.first.inner_text()
    assert rows.last.inner_text() != first
    header.get_by_role("button").click()
    assert header.get_attribute("aria-sort") == "ascending"
    header.get_by_role("button").click()
    assert header.get_attribute("aria-sort") is None
    assert rows.first.inner_text() == first


def test_theme_follows_the_system_and_the_button(show: Callable[..., Any], report: Callable[..., str]) -> None:
    """Dark where the system is dark; the button turns page and canvas over."""
    page = show(report(EAGER, Selection(step=3)), scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(ground) == "rgb(20, 22, 26)"
    page.get_by_role("button", name="Light theme").click()
    page.evaluate(FRAME)
    assert page.evaluate(ground) == "rgb(255, 255, 255)"
    assert page.evaluate(STRETCHES) == {"compute": 3, "memory": 2, "set": 2}
    assert page.get_by_role("button", name="Dark theme").count() == 1


def test_both_sides_of_a_comparison(show: Callable[..., Any], comparison: Callable[[str, str], str]) -> None:
    """Two timelines with one axis: five kernels before and four after; a kernel tells what became of it."""
    page = show(comparison(EAGER, COMPILED), at="#before-129")
    assert in_view(page, 0)[1] == 5
    assert in_view(page, 1)[1] == 4
    assert (
        "fused, now triton_poi_fused__unsafe_view_gelu_mul; 68.8 µs → 37.1 µs" in page.locator("#detail").inner_text()
    )
    page.get_by_role("button", name="Show everything").click()
    assert in_view(page, 0) == (5, 5)
    assert in_view(page, 1) == (4, 4)


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_accessible(
    show: Callable[..., Any],
    report: Callable[..., str],
    comparison: Callable[[str, str], str],
    width: int,
    scheme: str,
) -> None:
    """Nothing serious is found by axe, with a box selected, and nothing but tables scrolls sideways."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe-playwright-python")
    for html, at in ((report("h200/train_mlp_eager"), "#event-1956"), (comparison(EAGER, COMPILED), "#before-129")):
        page = show(html, width=width, scheme=scheme, at=at)
        found = axe.Axe().run(page).response["violations"]
        serious = [one for one in found if one["impact"] in {"serious", "critical"}]
        assert [(one["id"], one["nodes"][0]["html"][:200]) for one in serious] == []
        assert page.evaluate("document.documentElement.scrollWidth") == width


def test_prints(show: Callable[..., Any], report: Callable[..., str]) -> None:
    """On paper every piece of evidence is open, and what only a screen can do is gone."""
    page = show(report("h200/train_mlp_eager"), scheme="dark")
    assert page.locator("details:not([open])").count() > 0
    assert page.pdf()[:5] == b"%PDF-"
    assert page.locator("details:not([open])").count() == 0
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.locator("nav").is_visible()
    assert not page.get_by_label("Filter").is_visible()


def test_motion_only_where_it_is_wanted(show: Callable[..., Any], report: Callable[..., str]) -> None:
    """With reduced motion nothing scrolls smoothly."""
    behaviour = "getComputedStyle(document.documentElement).scrollBehavior"
    html = report("h200/sdpa")
    assert show(html, reduced_motion="reduce").evaluate(behaviour) == "auto"
    assert show(html, reduced_motion="no-preference").evaluate(behaviour) == "smooth"


def test_readable_without_script(browser: Any, report: Callable[..., str], tmp_path: Any) -> None:
    """Without script the tables stand, and the page says why there is no timeline."""
    path = tmp_path / "page.html"
    path.write_text(report(EAGER), encoding="utf-8")
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(path.as_uri())
    assert page.get_by_text("The timeline is drawn by a script").is_visible()
    assert page.locator("#kernels tbody tr").count() == 5
    assert not page.locator("figure").is_visible()
    context.close()
