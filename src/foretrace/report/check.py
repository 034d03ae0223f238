"""What ``foretrace check`` tells a person and a CI: the outcome, then each expectation with its reason."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

from foretrace.readings import Column
from foretrace.report.document import Document, Headline, Note, Sentence, Table
from foretrace.units import plural

if TYPE_CHECKING:
    from foretrace.report.document import Block
    from foretrace.verdict import Checked, Row

MOST_CONFIRMED = 40
"""Confirmed rows above which they are only counted, so that what matters stays on the screen."""

_COLUMNS = (
    Column("guess", "guess"),
    Column("op_class", "class"),
    Column("verdict", "verdict"),
    Column("dur_ns", "µs", "ns"),
    Column("floor_ns", "floor µs", "ns"),
    Column("why", "why"),
)


def check_document(checked: Checked, about: str) -> Document:
    """The outcome as a person reads it.

    Args:
        checked: The rows.
        about: The trace.
    """
    rows, more = list(checked.rows), None
    if checked.counts["confirmed"] > MOST_CONFIRMED:
        rows = [row for row in rows if row.verdict != "confirmed"]
        more = f"{plural(checked.counts['confirmed'], 'guess', 'guesses')} confirmed and not shown"
    blocks: list[Block] = [Headline(about), Sentence(checked.sentence)]
    blocks += [Note(note) for note in checked.notes]
    if rows or more:
        blocks.append(Table(_COLUMNS, [_row(row) for row in rows], more=more, folds=True))
    return Document(tuple(blocks))


def _row(row: Row) -> dict[str, Any]:
    return {
        "guess": row.guess or "–",
        "op_class": row.op_class,
        "verdict": row.verdict,
        "dur_ns": row.dur_ns,
        "floor_ns": row.floor_ns,
        "why": row.why or None,
    }


def to_junit(checked: Checked, name: str) -> str:
    """The rows as a JUnit file: one test case each, failed where broken, skipped where unknown."""
    counts = checked.counts
    head = f'<testsuite name="{_escaped(name)}" tests="{len(checked.rows)}" failures="{counts["broken"]}"'
    cases = "\n".join(f"  {_case(row, name)}" for row in checked.rows)
    xml = '<?xml version="1.0" encoding="utf-8"?>\n'
    return f'{xml}{head} skipped="{counts["unknown"]}">\n{cases}\n</testsuite>\n'


def _case(row: Row, name: str) -> str:
    called = row.guess or ", ".join(dict.fromkeys(row.observed)) or row.verdict
    seconds = (row.dur_ns or 0) / 1e9
    head = f'<testcase classname="{_escaped(name)}" name="{_escaped(called)}" time="{seconds:.9f}"'
    element = {"broken": "failure", "unknown": "skipped"}.get(row.verdict)
    if element is not None:
        return f'{head}><{element} message="{_escaped(row.why)}"/></testcase>'
    return (
        f"{head}><system-out>{_escaped(f'{row.verdict}: {row.why}')}</system-out></testcase>"
        if row.why
        else f"{head}/>"
    )


def _escaped(text: str) -> str:
    """XML has no control characters, not even escaped ones."""
    return html.escape("".join(c if c.isprintable() else " " for c in text))
