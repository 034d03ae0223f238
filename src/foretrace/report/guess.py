"""What ``foretrace guess`` tells a person: the sentence, the kernels, what launches nothing."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any

from foretrace.ops import short_name
from foretrace.readings import Column
from foretrace.report.document import Document, Headline, Item, Listing, Note, Sentence, Table
from foretrace.units import plural, size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foretrace.report.document import Block
    from foretrace.verdict import Guess, GuessedKernel

_NUMBER = re.compile(r"\.\d+(?=\.|$)")

MOST_ROWS = 40
"""Kernels above which equal ones share a row: nobody reads a large model kernel by kernel."""

_COLUMNS = (
    Column("source", "from"),
    Column("op", "op"),
    Column("op_class", "class"),
    Column("count", "times", "count"),
    Column("floor_ns", "floor µs", "ns"),
    Column("bound", "bound"),
    Column("flops", "FLOPs", "flops"),
    Column("moved", "bytes"),
    Column("says", "says"),
)


def guess_document(
    guess: Guess, written: str | None = None, command: tuple[str, str] = ("foretrace guess …", "")
) -> Document:
    """The guess as a person reads it.

    Args:
        guess: What is expected.
        written: Path of the file that it was written to.
        command: How it was asked for, and what of that stands behind every option.
    """
    about = [guess.target, guess.variant, f"on {guess.device}" if guess.device else "no device named"]
    blocks: list[Block] = [Headline(" · ".join(part for part in about if part)), Sentence(guess.sentence)]
    if guess.kernels:
        blocks.append(_table(guess.kernels))
    if guess.launches_nothing:
        blocks.append(Sentence(f"Launch nothing: {', '.join(guess.launches_nothing)}."))
    blocks += [Note(f"graph break: {reason}") for reason in guess.breaks]
    blocks += [Note(note) for note in guess.notes]
    asked, arguments = command
    items = [Item("keep it, edit it, and hold it against a trace", f"{asked} --write FILE.toml{arguments}")]
    if written:
        items = [Item("hold it against a trace", f"foretrace check TRACE --guess {shlex.quote(written)}")]
    if guess.device is None:
        items.insert(0, Item("how fast it could be, on a GPU that need not be here", f"{asked} --on h200{arguments}"))
    blocks.append(Listing("Next", tuple(items)))
    return Document(tuple(blocks))


def _table(kernels: Sequence[GuessedKernel]) -> Table:
    if len(kernels) <= MOST_ROWS:
        return Table(_COLUMNS, [_row([kernel]) for kernel in kernels], folds=True)
    alike: dict[Any, list[GuessedKernel]] = {}
    for kernel in kernels:
        key = (kernel.op, kernel.op_class, kernel.shapes, kernel.epilogue, kernel.fused_ops, kernel.bytes)
        alike.setdefault(key, []).append(kernel)
    rows = [_row(some) for some in alike.values()]
    rest = len(rows) - MOST_ROWS
    more = f"and {plural(rest, 'other kind')} of kernel; --format json has all" if rest > 0 else None
    title = f"{plural(len(kernels), 'kernel')}, equal ones together"
    return Table(_COLUMNS, rows[:MOST_ROWS], title=title, more=more, folds=True)


def _row(some: Sequence[GuessedKernel]) -> dict[str, Any]:
    """Equal kernels in one row; their floor and work together."""
    first, count = some[0], len(some)
    says = [f"{first.epilogue} in the epilogue" if first.epilogue else None, first.why]
    return {
        "source": _common([kernel.source for kernel in some]),
        "op": short_name(first.op or "") or None,
        "op_class": first.op_class,
        "count": count if count > 1 else None,
        "floor_ns": None if first.floor_ns is None else first.floor_ns * count,
        "bound": first.bound,
        "flops": None if first.flops is None else first.flops * count,
        "moved": None if first.bytes is None else size(first.bytes * count),
        "says": ", ".join(text for text in says if text) or None,
    }


def _common(sources: Sequence[str | None]) -> str | None:
    """One name for several modules: ``layers.*.q_proj`` for that of each layer, else the first and an ellipsis."""
    different = list(dict.fromkeys(sources))
    if len(different) == 1:
        return different[0]
    starred = {_NUMBER.sub(".*", source) for source in different if source}
    return starred.pop() if len(starred) == 1 and None not in different else f"{different[0] or '–'} …"
