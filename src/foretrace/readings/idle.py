"""Where does the GPU sit idle, and who is to blame?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from foretrace.readings import gaps
from foretrace.readings.base import Advice, Answer, Column, Reading
from foretrace.readings.bound import MOST_GPUS, NO_TIME
from foretrace.readings.host import costly_cpu_op, slug
from foretrace.readings.lines import period_count
from foretrace.readings.unseen import told
from foretrace.run import ROOT, Run
from foretrace.units import duration, percent, plural

if TYPE_CHECKING:
    from numpy.typing import NDArray

ASK = "Where does the GPU sit idle, and who is to blame?"

_LAUNCH_BOUND = (gaps.LATE, gaps.RUNNING, gaps.QUEUED)
_WORTH_SHARE = 0.1  # below a tenth of the time, idle is not the story of the trace
_UNEXPLAINED = ("launch-bound", "busy", slug(gaps.UNKNOWN))
_COUNTED = "Counted from the first GPU event to the last."
_COLUMNS = (
    Column("cause", "where the time goes"),
    Column("span_ns", "GPU span µs", "ns"),
    Column("share", "of it", "share"),
    Column("window_ns", "whole steps µs", "ns"),
)


def span(run: Run) -> tuple[int, int]:
    """From the first GPU event to the last."""
    a = run.activities
    return int(a.start_ns[0]), int(a.end_ns.max())


def window(run: Run) -> tuple[int, int]:
    """From the first event of the steps to the last, on the host or the GPU; the GPU span where there are no steps."""
    if not run.steps:
        return span(run)
    ends = [step.end_ns for step in run.steps]
    ends += [int(run.activities.end_ns[step.activities].max()) for step in run.steps if len(step.activities)]
    return run.steps[0].start_ns, max(ends)


def answer(run: Run) -> Answer | None:
    """Two breakdowns, each exact to the nanosecond: of the GPU span (first to last GPU event) and of the steps.

    The verdict is the largest cause of idle time (``launch-bound``, ``synchronize``…), ``busy`` where less than a tenth
    of the span is idle, ``unknown`` where no launch is in the file. Silent without GPU events, and with a single one
    and no steps.
    """
    if not len(run.activities) or (len(run.activities) == 1 and not run.steps):
        return None
    if len(run.gpus) > 1:
        return _each_gpu(run)
    if not run.busy_ns():
        return Answer("idle", ASK, f"Unknown: {NO_TIME}.", "unknown")
    low, high = span(run)
    parts, window_parts = gaps.breakdown(run, low, high), gaps.breakdown(run, *window(run))
    rows = _rows(parts, window_parts, high - low)
    busy, idle = parts[gaps.BUSY], high - low - parts[gaps.BUSY]
    if not idle:
        text = f"The GPU is busy all of the {duration(high - low)} from its first event to its last."
        return Answer("idle", ASK, text, "busy", rows, _COLUMNS, _advice(run, parts, "busy"))
    figures = (
        f"The GPU is busy {percent(busy, high - low)} of {duration(high - low)}{_over(run)} and idle {duration(idle)}"
    )
    if not run.knows_launches:
        text = f"{figures}; nobody can say why, as no launch is in the file."
        return Answer("idle", ASK, text, verdict="unknown", evidence=rows, columns=_COLUMNS)
    verdict = _verdict(parts, high - low)
    sentence = f"{figures}{_blame(run, low, high, parts)}. {_COUNTED}"
    return Answer("idle", ASK, sentence, verdict, rows, _COLUMNS, _advice(run, parts, verdict))


def _each_gpu(run: Run) -> Answer:
    """Busy and idle of several GPUs; who is to blame differs between them."""
    a, told = run.activities, []
    for gpu in run.gpus[:MOST_GPUS]:
        mine = np.flatnonzero(a.device == gpu)
        whole, busy = int(a.end_ns[mine].max() - a.start_ns[mine].min()), run.busy_ns(mine)
        told.append(f"GPU {gpu} {duration(whole - busy)} of {duration(whole)} ({percent(whole - busy, whole)})")
    more = f" and {len(run.gpus) - len(told)} more" if len(run.gpus) > len(told) else ""
    text = (
        f"{len(run.gpus)} GPUs are in this file, each idle for a part of its own: {', '.join(told)}{more}. Who is to "
        "blame is told for files of one GPU."
    )
    return Answer("idle", ASK, text, "unknown")


def _rows(parts: dict[str, int], window_parts: dict[str, int], whole: int) -> tuple[dict[str, Any], ...]:
    always = (gaps.BUSY, gaps.LATE, gaps.UNKNOWN)
    causes = [gaps.BUSY, *_LAUNCH_BOUND, *(c for c in parts if c not in (gaps.BUSY, *_LAUNCH_BOUND, gaps.UNKNOWN))]
    return tuple(
        {"cause": c, "span_ns": parts[c], "share": parts[c] / whole if whole else 0.0, "window_ns": window_parts[c]}
        for c in (*causes, gaps.UNKNOWN)
        if parts[c] or window_parts[c] or c in always
    )


def _over(run: Run) -> str:
    """`` (3 steps and 8 events launched outside them)``: what the span holds."""
    if not run.steps:
        return ""
    working = sum(bool(len(step.activities)) for step in run.steps)
    of_all = f"{working:,} of " if working < len(run.steps) else ""
    outside = int((run.activities.step < 0).sum())
    beside = f" and {plural(outside, 'event')} launched outside them" if outside else ""
    return f" ({of_all}{plural(len(run.steps), 'step')}{beside})"


def _blame(run: Run, low: int, high: int, parts: dict[str, int]) -> str:
    """``: 509 µs in the 9 of 20 gaps whose next launch had not begun, …``."""
    found = gaps.gaps(run, low, high)
    length = found.lengths
    late, early, unlinked = found.late, found.linked & ~found.late, ~found.linked & (found.following != ROOT)
    texts = []
    if late.any():
        which = f"the {late.sum():,} of {plural(len(length), 'gap')}" if not late.all() else plural(len(length), "gap")
        causes = _causes(run, parts, int(length[late].sum()), int(length[unlinked].sum()))
        texts.append((length[late].sum(), f"in {which} whose next launch had not begun{causes}"))
    if early.any():
        which = (
            f"the other {early.sum():,}" if late.any() else f"{plural(int(early.sum()), 'gap')} with the launch begun"
        )
        texts.append((length[early].sum(), f"in {which}{_running(found, early)}"))
    if unlinked.any():
        texts.append((length[unlinked].sum(), f"in {unlinked.sum():,} before events whose launch is not in the file"))
    return ": " + ", ".join(f"{duration(ns)} {where}" for ns, where in texts) if texts else ""


def _running(found: gaps.Gaps, early: NDArray[np.bool_]) -> str:
    """How much of the gaps whose launch had begun passed inside the launch call."""
    running = found.running
    if running.any() and running.sum() == early.sum():
        return ", still inside the call"
    still = f"{duration(found.lengths[running].sum())} in {running.sum():,} still inside the call"
    return f" ({still})" if running.any() else ""


def _causes(run: Run, parts: dict[str, int], late_ns: int, unlinked_ns: int) -> str:
    """What the host did instead of launching, where that holds at least a twentieth of the late gaps."""
    known = {c: ns for c, ns in parts.items() if c not in (gaps.BUSY, *_LAUNCH_BOUND)}
    known[gaps.UNKNOWN] -= unlinked_ns
    costly = costly_cpu_op(run)
    named = {gaps.CPU: f"{gaps.CPU} ({costly[0]})"} if costly is not None else {}
    by_time = sorted(known.items(), key=lambda item: -item[1])
    texts = [f"{named.get(cause, cause)} {duration(ns)}" for cause, ns in by_time if ns > late_ns / 20]
    return f" (of which {', '.join(texts)})" if texts else ""


def _verdict(parts: dict[str, int], whole: int) -> str:
    if whole - parts[gaps.BUSY] < _WORTH_SHARE * whole:
        return "busy"
    causes = {c: ns for c, ns in parts.items() if c not in (gaps.BUSY, *_LAUNCH_BOUND)}
    causes["launch-bound"] = sum(parts[c] for c in _LAUNCH_BOUND)
    return slug(max(causes, key=lambda cause: causes[cause]))


def _advice(run: Run, parts: dict[str, int], verdict: str) -> Advice | None:
    steps = period_count(run)
    low, high = window(run) if all(len(step.activities) for step in run.steps) else span(run)
    unseen_ns = gaps.unseen_ns(run, low, high)
    if verdict in _UNEXPLAINED and unseen_ns > _WORTH_SHARE * (high - low):
        text = (
            f"{told(run)}: launching less does not shorten that. Look at what Python does there, with stacks "
            "(foretrace profile --stacks)."
        )
        return Advice(text, unseen_ns // steps, waiting=True)
    if verdict == "launch-bound":
        if run.activities.in_graph.mean() > 0.5:  # noqa: PLR2004 - most of the work is in graphs already
            text = "The host is late between CUDA graph launches: capture more of the step into one graph."
            return Advice(text, waiting=True)
        compiled = any(name.startswith("Torch-Compiled Region") for name in run.trace.tables.name)
        ways = [] if compiled else ["torch.compile to fuse kernels"]
        if run.captures_graphs:
            ways.append("CUDA graphs (torch.compile(mode='reduce-overhead')) to launch once")
        more = "or more work a launch" if ways else "more work a launch"
        text = (
            f"Launch less often: {', '.join([*ways, more])}. Time it without the profiler first: profiling slows the "
            "host and may be what it waits for."
        )
        return Advice(text, waiting=True)
    if verdict == "data-loading":
        text = "The step waits for its batch: more DataLoader workers, pin_memory and a larger prefetch_factor."
        return Advice(text, parts["data loading"] // steps, waiting=True)
    if verdict == slug(gaps.CPU):
        text = "Move the ops that compute on the CPU to the GPU, or out of the step."
        return Advice(text, parts[gaps.CPU] // steps, waiting=True)
    return None


READING = Reading("idle", ASK, answer)
