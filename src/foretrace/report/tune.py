"""The record of ``foretrace tune``: the times of every path at every shape that was measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from foretrace.readings import Column
from foretrace.report.document import Document, Headline, Item, Listing, Sentence, Table
from foretrace.units import plural, significant

if TYPE_CHECKING:
    from collections.abc import Mapping

SCHEMA = "foretrace.tune/1"


@dataclass(frozen=True, slots=True)
class Tuned:
    """What was measured.

    Attributes:
        device: The GPU, as its maker names it.
        table: The file that holds the times.
        rows: As in the file: ``mode``, ``rows``, ``dim``, ``hidden`` and ``us``, path → median µs of GPU time.
    """

    device: str
    table: str
    rows: tuple[Mapping[str, Any], ...]

    @property
    def sentence(self) -> str:
        """How much was measured, and where it is."""
        return f"{plural(len(self.rows), 'shape')} measured; the times are in {self.table}."

    def to_json(self) -> Mapping[str, Any]:
        """The record as JSON."""
        rows = [{**row, "fastest": _fastest(row)} for row in self.rows]
        return {"schema": SCHEMA, "sentence": self.sentence, "device": self.device, "table": self.table, "rows": rows}


def tune_document(tuned: Tuned) -> Document:
    """What a person is shown."""
    paths = dict.fromkeys(path for row in tuned.rows for path in row["us"])
    columns = (
        Column("mode", "mode"),
        *(Column(key, key, "count") for key in ("rows", "dim", "hidden")),
        *(Column(f"{path} µs", f"{path} µs") for path in paths),
        Column("fastest", "fastest"),
    )
    rows = [
        {**row, **{f"{path} µs": significant(us) for path, us in row["us"].items()}, "fastest": _fastest(row)}
        for row in tuned.rows
    ]
    folder = tuned.table.replace("\\", "/").rpartition("/")[0] or "."
    return Document(
        (
            Headline(tuned.device),
            Sentence(tuned.sentence),
            Table(columns, rows),
            Listing("Next", (Item("let the layers read it", f"export FORETRACE_FUSED_TABLES={folder}"),)),
        )
    )


def _fastest(row: Mapping[str, Any]) -> str:
    us: Mapping[str, float] = row["us"]
    return min(us, key=us.__getitem__)
