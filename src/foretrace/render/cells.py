"""One value of a table as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from foretrace import units

if TYPE_CHECKING:
    from collections.abc import Callable

    from foretrace.readings.base import Column, Unit
    from foretrace.report.document import Table

UNKNOWN = "–"
_SECOND_NS = 1e9

_QUANTITIES: dict[str, Callable[[float], str]] = {
    "count": lambda value: f"{value:,}" if isinstance(value, int) or float(value).is_integer() else f"{value:,.1f}",
    "ns": units.microseconds,
    "bytes": units.size,
    "flops": lambda value: units.flop_rate(value, _SECOND_NS).removesuffix("/s"),
    "flop_rate": lambda value: units.flop_rate(value, _SECOND_NS),
    "byte_rate": lambda value: units.rate(value, _SECOND_NS),
    "share": lambda value: units.percent(value, 1),
    "ratio": units.significant,
}


def shown_columns(table: Table) -> list[Column]:
    """The columns of which at least one row has something to show."""
    return [column for column in table.columns if any(row.get(column.key) not in (None, "") for row in table.rows)]


def cell(value: Any, unit: Unit) -> str:  # noqa: ANN401 - evidence rows hold what the file held
    """``value`` as shown under a header that names its unit (``ns`` are shown as µs); ``–`` when unknown."""
    if value is None:
        return UNKNOWN
    if unit != "text" and isinstance(value, (int, float)) and not isinstance(value, bool):
        return _QUANTITIES[unit](int(value) if float(value).is_integer() and unit == "count" else value)
    return _text(value)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        nested = any(isinstance(part, (list, tuple)) for part in value)
        inner = [_text(part) for part in value if not (nested and part == [])]
        return " ".join(inner) if nested else f"[{','.join(inner)}]"
    return UNKNOWN if value is None else str(value)
