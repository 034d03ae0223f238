"""What does this trace hold?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from foretrace.readings.base import Answer, Column, Reading
from foretrace.run import ROOT, Kind, Run
from foretrace.units import duration, plural

if TYPE_CHECKING:
    from collections.abc import Iterator

ASK = "What does this trace hold?"

_COLUMNS = (Column("missing", "what is missing or odd"), Column("count", "how many", "count"))


def answer(run: Run) -> Answer:
    """Device, rank, steps, kernels a step, links, and everything that is missing; never silent.

    The verdict is ``complete``, ``partial`` (something is missing) or ``no-gpu`` (no device activity was recorded).
    """
    missing = tuple({"missing": text, "count": count} for text, count in _missing(run))
    parts = [_device(run), _rank(run), _steps(run), *_activities(run)]
    sentence = " · ".join(part for part in parts if part)
    if missing:
        sentence += ". " + " ".join(_sentence_case(row["missing"]) for row in missing)
    verdict = "no-gpu" if not len(run.activities) else "partial" if missing else "complete"
    return Answer("window", ASK, sentence, verdict=verdict, evidence=missing, columns=_COLUMNS if missing else ())


def _device(run: Run) -> str:
    if run.device_name is not None:
        return run.device_name
    return "device not named in the file" if len(run.activities) else "CPU only"


def _rank(run: Run) -> str | None:
    if run.rank is None:
        return None
    return f"rank {run.rank} of {run.world_size}" if run.world_size is not None else f"rank {run.rank}"


def _steps(run: Run) -> str | None:
    if not run.steps:
        return None
    region = _region(run)
    return plural(len(run.steps), "step") + (f" of {region}" if region else "")


def _region(run: Run) -> str | None:
    """The user's region that holds every launch of every step, where there is exactly one."""
    names = set()
    for step in run.steps:
        regions = np.unique(run.activities.region[step.activities])
        names |= {run.name(int(region)) if region != ROOT else None for region in regions}
    names.discard(None)
    return names.pop() if len(names) == 1 else None


def _activities(run: Run) -> Iterator[str]:
    total = len(run.activities)
    if not total:
        yield "no GPU events"
        return
    counts = [len(run.kernels(step.activities)) for step in run.steps]
    if counts:
        low, high = min(counts), max(counts)
        yield f"{plural(low, 'kernel')} a step" if low == high else f"{low:,} to {high:,} kernels a step"
    else:
        yield plural(len(run.kernels()), "kernel")
    linked = int((run.activities.launch != ROOT).sum())
    if linked == total:
        yield (
            "the one GPU event linked to its launch"
            if total == 1
            else f"all {total:,} GPU events linked to their launch"
        )
    else:
        yield f"{linked:,} of {total:,} GPU events linked to their launch"


def _missing(run: Run) -> Iterator[tuple[str, int]]:
    total = len(run.activities)
    if not total:
        yield _why_no_gpu(run), 1
    orphans = int((run.activities.launch == ROOT).sum())
    if orphans:
        yield f"{plural(orphans, 'GPU event')} launched outside the window: no op is named for them", orphans
    if not run.steps and len(run.host):
        yield "no ProfilerStep marks (`prof.step()` was not called): figures are for the whole trace", 1
    elif len(run.steps) == 1:
        yield "only one step: nothing can be said about spread", 1
    yield from _odd_steps(run)
    outside = int((run.activities.step[run.activities.launch != ROOT] < 0).sum()) if run.steps else 0
    if outside:
        yield f"{plural(outside, 'GPU event')} launched outside the steps", outside
    for note in run.notes:
        yield note.text, note.count


def _why_no_gpu(run: Run) -> str:
    kinds = set(run.trace.tables.category)
    if "cuda_profiler_range" in kinds:
        return "range-profiler mode: counters only, no kernel timeline was recorded"
    if any(category.startswith("mtia") for category in kinds):
        return "an MTIA trace: its device events are not read as kernels"
    if run.device_name is not None or (run.host.kind == Kind.LAUNCH).any():
        return (
            "a GPU is listed but no GPU activity was recorded: ProfilerActivity.CUDA was not asked for, or CUPTI could "
            "not start"
        )
    if any("mps" in name.lower() for name in run.trace.tables.name):
        return "MPS work is not visible to this profiler"
    return "no GPU in this trace: CPU times only"


def _odd_steps(run: Run) -> Iterator[tuple[str, int]]:
    """Step marks that outlive the profiler's own span, or lie on another process than all work."""
    columns, tables = run.trace.columns, run.trace.tables
    spans = [code for code, category in enumerate(tables.category) if category == "Trace"]
    span_ns = int(columns.dur_ns[np.isin(columns.category, spans)].max(initial=0))
    if not run.steps or not span_ns:
        return
    rows = run.host.row[[step.slice for step in run.steps]]
    working = np.unique(columns.process[run.host.row[run.host.kind == Kind.OPERATOR]])
    odd = [
        step
        for step, process in zip(run.steps, columns.process[rows], strict=True)
        if step.dur_ns > span_ns or (len(working) and process not in working)
    ]
    if odd:
        marks = plural(len(odd), "step mark")
        longest, ran = duration(max(step.dur_ns for step in odd)), duration(span_ns)
        yield f"{marks} of another process, or longer ({longest}) than the profiler ran ({ran}): not usable", len(odd)


def _sentence_case(text: Any) -> str:  # noqa: ANN401 - a value of an evidence row
    words = str(text).rstrip(".")
    return words[:1].upper() + words[1:] + "."


READING = Reading("window", ASK, answer)
