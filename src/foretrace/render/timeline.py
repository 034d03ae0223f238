"""A timeline as a section of a page: controls, a canvas that the page's script draws on, and its data as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from foretrace import units
from foretrace.render.cells import cell
from foretrace.render.html import embedded, escaped, tag
from foretrace.render.safe import visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foretrace.report.timeline import Detail, Slice, Timeline

KINDS = {
    "op": "op",
    "annotation": "annotation",
    "call": "runtime call",
    "overhead": "profiler",
    "compute": "compute-bound kernel",
    "memory": "memory-bound kernel",
    "latency": "kernel too small to fill the device",
    "unknown": "kernel, bound unknown",
    "copy": "copy",
    "set": "set",
}
"""What a box may be, in the order of the legend, and how the legend calls it."""
_KEYS = (
    "←/→: the box before or after; ↑/↓: the row above or below; +/−: zoom; Shift+←/→: pan; Enter: zoom to the box; "
    "0: everything; Esc: let go. Mouse: drag to pan, Ctrl+wheel to zoom, double click to zoom to a box."
)


class _Texts(dict[str, int]):
    """Texts to positions in a list, each kept once and made safe to show."""

    def __missing__(self, text: str) -> int:
        position = self[text] = len(self)
        return position

    def __call__(self, text: str | None) -> int:
        return -1 if text is None else self[visible(text)]


def timelines(every: Sequence[Timeline]) -> str:
    """The section; of two timelines the axes are one, so that both sides are to scale."""
    if not every:
        return ""
    kinds = {slice_.kind for drawn in every for slice_ in drawn.slices}
    legend = "".join(
        tag("li", f"{tag('i', '', class_=f'box {kind}', data_kind=kind)} {name}")
        for kind, name in KINDS.items()
        if kind in kinds
    )
    buttons = "".join(
        tag("button", sign, type="button", data_do=do, aria_label=name, title=name)
        for do, sign, name in (("in", "+", "Zoom in"), ("out", "−", "Zoom out"), ("all", "Show all", "Show everything"))
    )
    body = "".join(_figure(drawn) for drawn in every)
    tools = f'<div class="tools" role="group" aria-label="Zoom">{buttons}</div>'
    return (
        '<section id="timeline" aria-labelledby="timeline-title"><div class="bar">'
        f'<h2 id="timeline-title">Timeline</h2>{tools}</div>{body}<ul class="legend" aria-label="Colours">{legend}</ul>'
        f'<p class="more" id="timeline-keys">{escaped(_KEYS)}</p>'
        '<div id="detail" class="detail" role="region" aria-live="polite" aria-label="Selected">'
        "<p>Select a box to see what it is, how it was launched and what limits it.</p></div>"
        '<div id="hint" class="hint" aria-hidden="true" hidden></div>'
        '<p class="unscripted">The timeline is drawn by a script of this page; the tables hold the same kernels.</p>'
        "</section>"
    )


def _figure(drawn: Timeline) -> str:
    left_out = f" Left out: {escaped(drawn.left_out)}." if drawn.left_out else ""
    what = f"{units.plural(drawn.kernels, 'kernel')} in " if drawn.kernels else ""
    about = f"{what}{units.duration(drawn.span_ns)}"
    return (
        '<figure class="timeline"><figcaption>'
        f"{escaped(drawn.label)} · {about}.{left_out} <span></span></figcaption>"
        '<div class="canvas" role="application" aria-roledescription="timeline" tabindex="0" '
        f'aria-label="{escaped(f"Timeline of {drawn.label}, {about}")}" aria-describedby="timeline-keys">'
        "<canvas></canvas></div>"
        f'<script type="application/json">{embedded(data(drawn))}</script></figure>'
    )


def data(drawn: Timeline) -> dict[str, Any]:
    """What the script draws: boxes as columns, texts once each, times in nanoseconds from the timeline's start."""
    texts = _Texts()
    slices = drawn.slices
    kinds = list(KINDS)
    return {
        "key": drawn.key,
        "span": drawn.span_ns,
        "steps": [[visible(name), start, length] for name, start, length in drawn.steps],
        "lanes": [[visible(lane.label), lane.rows, int(lane.device)] for lane in drawn.lanes],
        "kinds": kinds,
        "lane": [slice_.lane for slice_ in slices],
        "row": [slice_.row for slice_ in slices],
        "start": [slice_.start_ns for slice_ in slices],
        "length": [slice_.dur_ns for slice_ in slices],
        "kind": [kinds.index(slice_.kind) for slice_ in slices],
        "name": [texts(slice_.name) for slice_ in slices],
        "event": [slice_.event for slice_ in slices],
        "launch": [-1 if slice_.launch is None else slice_.launch for slice_ in slices],
        "pair": [-1 if slice_.pair is None else slice_.pair for slice_ in slices],
        "short": {str(i): texts(slice_.detail.short) for i, slice_ in enumerate(slices) if slice_.detail},
        "facts": {str(i): _facts(slice_, texts) for i, slice_ in enumerate(slices) if slice_.detail},
        "elsewhere": {str(event): other for event, other in drawn.stands_for.items()},
        "texts": list(texts),
    }


def _facts(slice_: Slice, texts: _Texts) -> list[int]:
    """Positions of label and text, one after the other."""
    assert slice_.detail is not None
    return [texts(text) for label, value in _said(slice_.detail) if value for text in (label, value)]


def _said(detail: Detail) -> list[tuple[str, str | None]]:
    waited = f", {units.duration(detail.waited_ns)} before it began" if detail.waited_ns is not None else ""
    graph = ", as a node of a graph" if detail.graph else ""
    limit = f", {units.percent(detail.of_limit, 1)} of the limit" if detail.of_limit is not None else ""
    return [
        ("what it is", detail.words),
        ("chain", " → ".join(detail.chain)),
        (
            "launched by",
            f"{detail.launch}{waited}{graph}" if detail.launch else "unknown: its launch is not drawn here",
        ),
        ("bound", f"{detail.bound}{limit}" if detail.bound else None),
        ("module", detail.module),
        ("shapes", cell(detail.shapes, "text") if detail.shapes else None),
        ("step", detail.step),
        ("change", detail.change),
    ]
