"""Plots as inline SVG: the roofline of a run, and where its time went."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from foretrace import units
from foretrace.render.html import escaped, tag

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from foretrace.report.page import Part
    from foretrace.report.roofline import Point, Roofline

_WIDTH, _HEIGHT = 640, 380
_LEFT, _RIGHT, _TOP, _BOTTOM = 86, 26, 22, 44
_SMALLEST, _LARGEST = 4.0, 14.0
"""Radii of points: the area grows with the share of kernel time."""
_BAR = 1_000
_SECOND_NS = 1e9


@dataclass(frozen=True, slots=True)
class _Axes:
    """Two logarithmic axes over whole decades."""

    x_range: tuple[float, float]
    y_range: tuple[float, float]

    def x(self, value: float) -> float:
        low, high = self.x_range
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * math.log(value / low) / math.log(high / low)

    def y(self, value: float) -> float:
        low, high = self.y_range
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * math.log(value / low) / math.log(high / low)


def roofline_plot(roofline: Roofline, drawn: AbstractSet[int]) -> str:
    """FLOP/s over FLOPs a byte, both logarithmic; points lead to their kernels where those are ``drawn`` events."""
    ridges = [peak / roofline.bytes_per_s for _, peak in roofline.roofs]
    axes = _Axes(
        _decades([*(point.intensity for point in roofline.points), *ridges, *(3 * ridge for ridge in ridges)]),
        _decades([*(point.flops_per_s for point in roofline.points), *(peak for _, peak in roofline.roofs)]),
    )
    largest_first = sorted(roofline.points, key=lambda point: -point.share)
    parts = [
        *_grid(axes),
        *_roofs(roofline, axes),
        *(_point(point, axes, linked=point.event in drawn) for point in largest_first),
    ]
    title = f"Roofline of {roofline.device}: {units.plural(len(roofline.points), 'kernel')}"
    box = f"0 0 {_WIDTH} {_HEIGHT}"
    return tag("svg", "".join(parts), class_="roofline", viewBox=box, role="group", aria_label=title)


def idle_bar(parts: Sequence[Part]) -> str:
    """One bar whose pieces add up to the time from the first GPU event to the last."""
    whole = sum(part.ns for part in parts) or 1
    at = 0.0
    pieces = []
    for number, part in enumerate(parts):
        width = _BAR * part.ns / whole
        said = f"{part.cause}: {units.duration(part.ns)}, {units.percent(part.ns, whole)}"
        inner = f"<title>{escaped(said)}</title>"
        pieces.append(tag("rect", inner, x=at, y=0, width=max(width, 0.5), height=40, class_=_part_class(number)))
        at += width
    label = "Where the time went: " + "; ".join(f"{p.cause} {units.percent(p.ns, whole)}" for p in parts)
    bar = tag(
        "svg", "".join(pieces), class_="idle", viewBox=f"0 0 {_BAR} 40", preserveAspectRatio="none", role="img",
        aria_label=label,
    )  # fmt: skip
    items = "".join(
        f'<li><i class="box {_part_class(n)}"></i> {escaped(p.cause)} '
        f"<b>{units.duration(p.ns)}</b> <span>{units.percent(p.ns, whole)}</span></li>"
        for n, p in enumerate(parts)
    )
    return f'{bar}<ul class="legend parts">{items}</ul>'


def _part_class(number: int) -> str:
    return f"part{min(number, 9)}"


def _grid(axes: _Axes) -> Iterator[str]:
    for value in _powers(axes.x_range):
        at = axes.x(value)
        yield _line((at, _TOP), (at, _HEIGHT - _BOTTOM), "grid")
        yield _text(at, _HEIGHT - _BOTTOM + 16, units.significant(value, 1), "middle")
    for value in _powers(axes.y_range):
        at = axes.y(value)
        yield _line((_LEFT, at), (_WIDTH - _RIGHT, at), "grid")
        yield _text(_LEFT - 6, at + 4, units.flop_rate(value, _SECOND_NS).replace(".00", "").replace(".0", ""), "end")
    yield _text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 6, "FLOPs per byte", "middle")


def _roofs(roofline: Roofline, axes: _Axes) -> Iterator[str]:
    """The memory's slope up to the highest roof, and each roof from where it meets the slope."""
    rate, (low_x, high_x), (low_y, high_y) = roofline.bytes_per_s, axes.x_range, axes.y_range
    highest = max((peak for _, peak in roofline.roofs), default=high_y)
    start, end = max(low_x, low_y / rate), min(high_x, highest / rate)
    yield _line((axes.x(start), axes.y(start * rate)), (axes.x(end), axes.y(end * rate)), "roof")
    middle = math.sqrt(start * end)
    yield _text(axes.x(middle) - 12, axes.y(middle * rate) - 6, units.rate(rate, _SECOND_NS), "end")
    for dtype, peak in roofline.roofs:
        yield _line((axes.x(peak / rate), axes.y(peak)), (axes.x(high_x), axes.y(peak)), "roof")
        yield _text(_WIDTH - _RIGHT, axes.y(peak) - 6, f"{dtype} {units.flop_rate(peak, _SECOND_NS)}", "end")


def _powers(decades: tuple[float, float]) -> list[float]:
    low, high = (round(math.log10(value)) for value in decades)
    return [10.0**power for power in range(low, high + 1)]


def _decades(values: Sequence[float]) -> tuple[float, float]:
    """The powers of ten around ``values``, at least one decade apart."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return 10.0**low, 10.0 ** max(high, low + 1)


def _line(start: tuple[float, float], end: tuple[float, float], kind: str) -> str:
    return tag("line", x1=start[0], y1=start[1], x2=end[0], y2=end[1], class_=kind)


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return tag("text", escaped(text), x=x, y=y, text_anchor=anchor)


def _point(point: Point, axes: _Axes, *, linked: bool) -> str:
    radius = _SMALLEST + (_LARGEST - _SMALLEST) * math.sqrt(point.share)
    said = (
        f"{point.label}{f' ({point.op})' if point.op else ''}: {units.flop_rate(point.flops_per_s, _SECOND_NS)} at "
        f"{units.significant(point.intensity)} FLOP/B, {point.bound}, {units.percent(point.share, 1)} of kernel time"
    )
    x, y = axes.x(point.intensity), axes.y(point.flops_per_s)
    circle = tag("circle", f"<title>{escaped(said)}</title>", cx=x, cy=y, r=radius, class_=point.bound)
    return tag("a", circle, href=f"#event-{point.event}", aria_label=said) if linked else circle
