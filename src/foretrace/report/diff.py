"""The view of ``foretrace diff``: the verdict first, then every kernel that changed, then the host side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from foretrace.diff.rows import bare
from foretrace.readings import Column
from foretrace.report.compile_log import compile_items
from foretrace.report.document import Document, Fields, Item, Listing, Note, Sentence, Table
from foretrace.units import duration, microseconds, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from foretrace.diff import Change, Diff
    from foretrace.diff.host import Count
    from foretrace.diff.records import Steps, Transfer
    from foretrace.report.document import Block

_MOST = 14
"""Rows of the table; of more, those that did not change are put together first."""
_MOST_NAMES = 8
_LARGE_NS = 100_000
"""Steps from this GPU time on are told to a tenth of a microsecond, shorter ones to a hundredth."""
_ENGINE = "autograd::engine::"
"""The engine's frame around each backward op says nothing that the op does not."""
_SAME = "the same, byte for byte"
_TELLING = 0.005
"""Copies and sets whose time changes by this share of the longer step's GPU time have a row."""


def diff_document(found: Diff) -> Document:
    """What a person is shown."""
    blocks: list[Block] = [Sentence(found.sentence)]
    blocks += [Note(f"{side.label}: {text}") for side in (found.before, found.after) for text in side.repairs]
    if found.changes:
        blocks.append(_table(found))
        names = tuple(_names(found.changes))
        if names:
            blocks.append(Listing("What the names say", names))
    fields = tuple(_fields(found))
    if fields:
        blocks.append(Fields(fields))
    blocks += [
        Listing(f"What torch.compile said of {side.label}", compile_items(side.compile_log, side.compiled_calls))
        for side in (found.before, found.after)
        if side.compile_log
    ]
    return Document(tuple(blocks))


def _table(found: Diff) -> Table:
    shown, rest = _chosen(found.changes)
    rows = [_row(change) for change in shown]
    steps = found.steps
    rows += [
        _total("all kernels", steps.before_kernel_ns, steps.after_kernel_ns),
        *(_total(t.name, t.before_ns or None, t.after_ns or None) for t in found.transfers if _tells(t, steps)),
        _total("GPU busy", steps.before_ns, steps.after_ns),
    ]
    columns = (
        Column("before", found.before.label),
        Column("after", found.after.label),
        Column("times", _centred("µs", rows), "ns", by="after_ns"),  # texts, but figures: never cut, to the right
        Column("change", "change", "ns", by="change_ns"),
        Column("says", ""),
    )
    decimals = 1 if max(steps.before_ns or 0.0, steps.after_ns or 0.0) >= _LARGE_NS else 2
    return Table(columns, _aligned(rows, decimals), title=_title(found), more=_more(rest, steps))


def _tells(transfer: Transfer, steps: Steps) -> bool:
    """Whether a copy or set explains some of the difference that the kernels do not."""
    busy_ns = max(steps.before_ns or 0.0, steps.after_ns or 0.0)
    return abs(transfer.after_ns - transfer.before_ns) >= _TELLING * busy_ns > 0


def _title(found: Diff) -> str:
    counts = (found.before.steps, found.after.steps)
    if max(counts) == 0:
        return "On the GPU, over the whole trace"
    if max(counts) == 1:
        return "On the GPU, in one step"
    medians = f"{counts[0]}" if counts[0] == counts[1] else f"{counts[0]} and {counts[1]}"
    return f"On the GPU, in one step (medians of {medians} steps)"


def _chosen(changes: Sequence[Change]) -> tuple[list[Change], list[Change]]:
    """The rows that are shown, and those that are only counted."""
    if len(changes) <= _MOST:
        return list(changes), []
    telling = [change for change in changes if change.status != "same" or change.significant or change.fields]
    largest = sorted(telling, key=lambda change: -abs(change.change_ns))[:_MOST]
    shown = [change for change in changes if change in largest]
    return shown, [change for change in changes if change not in largest]


def _row(change: Change) -> dict[str, Any]:
    before = _side(change.before_short, change.before_op, change.module)
    after = _side(change.after_short, change.after_op, change.module)
    if change.status == "same":
        after = _SAME
    return {**_total(before, change.before_ns, change.after_ns), "after": after, "says": _word(change)}


def _word(change: Change) -> str:
    if change.status == "same":
        if "count" in change.fields:
            return "{:.3g} → {:.3g} times".format(*change.fields["count"])
        how = "incl. waiting" if change.waits else "slower" if (change.ratio or 1.0) > 1 else "faster"
        return how if change.significant else ""
    how = ", by order" if change.inferred else ", not always" if change.uneven else ""
    return f"{change.status}{how}"


def _names(changes: Sequence[Change]) -> Iterator[Item]:
    """What the names of variants and newcomers say, each once."""
    seen: dict[str, int] = {}
    for change in changes:
        if change.says and (change.status in {"variant", "added", "removed"} or "shapes" in change.fields):
            names = " → ".join(dict.fromkeys([*change.before_short, *change.after_short]))
            text = f"{names}: {change.says}"
            seen[text] = seen.get(text, 0) + 1
    ranked = list(seen.items())[:_MOST_NAMES]
    return (Item(f"{text} ({count} times)" if count > 1 else text) for text, count in ranked)


def _side(shorts: Sequence[str], ops: Sequence[str | None], module: str | None) -> str | None:
    if not shorts:
        return None
    if len(shorts) == 1:
        short = shorts[0].partition(", ")[0]
        return f"{short} ({module})" if module else short
    return " + ".join(bare(op) if op else short for short, op in zip(shorts, ops, strict=True))


def _total(name: str | None, before_ns: float | None, after_ns: float | None) -> dict[str, Any]:
    pair = tuple("–" if ns is None else microseconds(ns) for ns in (before_ns, after_ns))
    change_ns = (after_ns or 0.0) - (before_ns or 0.0)
    return {"before": name, "after": "", "pair": pair, "after_ns": after_ns, "change_ns": change_ns, "says": ""}


def _aligned(rows: Sequence[dict[str, Any]], decimals: int) -> list[dict[str, Any]]:
    """Figures in columns of their own width, so that they stand right-aligned inside a text."""
    left, right = _widths(rows)
    changes = [_signed(row["change_ns"], decimals) for row in rows]
    width = max(map(len, changes))
    return [
        {**row, "times": f"{row['pair'][0]:>{left}} → {row['pair'][1]:>{right}}", "change": f"{change:>{width}}"}
        for row, change in zip(rows, changes, strict=True)
    ]


def _signed(ns: float, decimals: int) -> str:
    """``−31.7`` µs."""
    text = f"{abs(ns) / 1_000:,.{decimals}f}"
    if float(text.replace(",", "")) == 0:
        return text
    return f"{'+' if ns > 0 else '−'}{text}"


def _widths(rows: Sequence[dict[str, Any]]) -> tuple[int, int]:
    return max(len(row["pair"][0]) for row in rows), max(len(row["pair"][1]) for row in rows)


def _centred(header: str, rows: Sequence[dict[str, Any]]) -> str:
    left, right = _widths(rows)
    return header.center(left + right + len(" → "))


def _more(rest: Sequence[Change], steps: Steps) -> str | None:
    told = []
    if rest:
        same = sum(1 for change in rest if change.status == "same")
        of_them = f" of which {same} {'is' if same == 1 else 'are'} the same, byte for byte" if same else ""
        what = " the same, byte for byte" if same == len(rest) else of_them
        before, after = (sum(getattr(change, side) or 0.0 for change in rest) for side in ("before_ns", "after_ns"))
        told.append(f"and {plural(len(rest), 'more kernel')}{what}: {duration(before)} → {duration(after)}")
    sides = ((steps.before_kernel_ns, steps.before_ns), (steps.after_kernel_ns, steps.after_ns))
    if any(kernels and busy and kernels > busy for kernels, busy in sides):
        told.append("Kernels overlap: GPU busy counts what runs at the same time once")
    return ". ".join(told) or None


def _fields(found: Diff) -> Iterator[tuple[str, str]]:
    for what, names in (("CPU ops gone", found.cpu_ops.removed), ("CPU ops added", found.cpu_ops.added)):
        ops = [name for name in names if not name.startswith(_ENGINE)]
        if ops:
            yield what, _listed(ops)
    if found.launches:
        yield "Launch calls", _counted(found.launches)
    if found.syncs:
        yield "Waits", _counted(found.syncs)
    for region in found.regions:
        if region.before_host_ns is not None and region.after_host_ns is not None:
            times = f"{duration(region.before_host_ns)} → {duration(region.after_host_ns)}"
            yield f"Host, {region.name}", f"{times} a step, while profiled"
    for transfer in found.transfers:
        if transfer.before != transfer.after:
            yield transfer.name, f"{transfer.before:g} → {transfer.after:g} a step"


def _counted(counts: Sequence[Count]) -> str:
    """``5 → 4 a step (cudaLaunchKernel 2 → 0, …)``."""
    total = f"{sum(count.before for count in counts):g} → {sum(count.after for count in counts):g} a step"
    changed = [f"{c.name} {c.before:g} → {c.after:g}" for c in counts if c.before != c.after]
    return f"{total} ({_listed(changed)})" if changed else total


def _listed(names: Sequence[str]) -> str:
    rest = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {rest} more" if rest > 0 else "")
