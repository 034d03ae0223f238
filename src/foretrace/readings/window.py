"""What does this trace hold?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from foretrace.readings.base import Answer, Column, Reading
from foretrace.run import ROOT, Run
from foretrace.units import plural

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
    """The user's region that the launches of the steps lie in, where there is exactly one."""
    regions = run.activities.region[(run.activities.step >= 0) & (run.activities.region != ROOT)]
    codes = np.unique(run.trace.columns.name[run.host.row[regions]])
    return run.trace.tables.name[int(codes[0])] if len(codes) == 1 else None


def _activities(run: Run) -> Iterator[str]:
    total = len(run.activities)
    if not total:
        if run.device_name is not None:
            yield "no GPU events"
        return
    if run.steps:
        of_step = run.activities.step[run.kernels()]
        counts = np.bincount(of_step[of_step >= 0], minlength=len(run.steps))
        low, high = int(counts.min()), int(counts.max())
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
    """The run's own notes, and what its steps leave out."""
    for note in run.notes:
        yield note.text, note.count
    if not run.steps and len(run.host):
        yield "no usable step marks (`prof.step()`): figures are for the whole trace", 1
    outside = int((run.activities.step[run.activities.launch != ROOT] < 0).sum()) if run.steps else 0
    if outside:
        yield f"{plural(outside, 'GPU event')} launched outside the steps", outside


def _sentence_case(text: Any) -> str:  # noqa: ANN401 - a value of an evidence row
    words = str(text).rstrip(".")
    return words[:1].upper() + words[1:] + "."


READING = Reading("window", ASK, answer)
