"""``foretrace diff``."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING

from foretrace.cli.load import load
from foretrace.cli.output import STDOUT, Output
from foretrace.diff import diff as compare
from foretrace.diff.statistics import FEWEST_STEPS
from foretrace.errors import InputError
from foretrace.report.diff import diff_document
from foretrace.report.page import compared
from foretrace.units import percent, plural

if TYPE_CHECKING:
    from foretrace.diff import Diff


def diff(before: str, after: str, /, *, gate: str | None = None, anyway: bool = False, out: Output = STDOUT) -> int:
    """Say what changed between two traces, kernel by kernel, and whether it was worth it.

    Kernels are matched by the work that they do: the same kernel, another one for the same work, several fused into
    one, split, added, removed. The verdict is about GPU busy time a step and knows how much two runs differ anyway.

    Args:
        before: The trace to compare with.
        after: The trace that is judged.
        gate: Exit with 1 when the after-run is slower by more than this (`3%` or `3`).
        anyway: Give a verdict although device, dtype, shapes, torch or world size differ.
        out: How and where to show it.
    """
    limit = None if gate is None else _percent(gate)
    out.check()
    runs = load(before), load(after)
    found = compare(*runs, anyway=anyway)
    out.emit(lambda: diff_document(found), lambda: found, lambda: compared(found, *runs))
    if limit is None:
        return 0
    broken = _judge(found, limit, anyway=anyway)
    if broken:
        slower = percent((found.steps.ratio or 1) - 1, 1)
        sys.stderr.write(f"the gate of {percent(limit, 1)} is broken: {slower} slower\n")
    return int(broken)


def _percent(text: str) -> float:
    """``3%`` → 0.03."""
    try:
        value = float(text.strip().removesuffix("%"))
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0:
        raise InputError(f"`{text}` is no percentage", hint="give the gate as `--gate 3%` or `--gate 3`")
    return value / 100


def _judge(found: Diff, limit: float, *, anyway: bool) -> bool:
    """Whether the gate is broken.

    Raises:
        InputError: The runs cannot be judged.
    """
    if not found.comparable and not anyway:
        reasons = "; ".join(found.why_not)
        raise InputError(
            f"the gate could not run: the traces are not comparable ({reasons})",
            hint="record both the same way, or judge them all the same with `--anyway`",
        )
    if found.steps.ratio is None:
        raise InputError(
            "the gate could not run: it compares GPU time, which one of the traces lacks",
            hint="record both on a GPU, with ProfilerActivity.CUDA",
        )
    fewest = min(found.before.steps, found.after.steps)
    if fewest < FEWEST_STEPS and not found.steps.significant:
        raise InputError(
            f"the gate could not run: {plural(fewest, 'counted step')} a side cannot tell",
            hint=f"record at least {FEWEST_STEPS} steps a side: `foretrace profile … --active {FEWEST_STEPS}`",
        )
    return found.steps.verdict == "slower" and found.steps.ratio > 1 + limit
