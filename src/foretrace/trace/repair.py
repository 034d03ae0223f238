"""What malformed files are mended with, in one place; every repair is counted and reported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from foretrace.trace.columns import Note

if TYPE_CHECKING:
    from foretrace.trace.builder import ColumnsBuilder


def salvage(data: bytes, start: int, builder: ColumnsBuilder) -> tuple[dict[str, Any], list[Note]]:
    """Read what can be read of ``data`` from byte ``start`` on, event by event."""
    del data, start
    return {}, [Note("truncated", f"truncated after {builder.events} complete events", partial=True)]
