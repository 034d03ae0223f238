"""Files that merge several ranks: which rank a process belongs to, so that ids of two ranks never meet.

Mergers mark a rank in the process ids (``[TP00-DP01] 83``) or in the process names and labels (``rank 3: python``).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from foretrace.run.model import Run
    from foretrace.trace import Trace

    Ints = NDArray[np.int64]

_BRACKETED = re.compile(r"\[([^\[\]]+)\]\s")
_NUMBERED = re.compile(r"\brank[\s_:#=-]{0,2}(\d+)\b", re.IGNORECASE)


def labels(trace: Trace) -> tuple[str, ...]:
    """The rank of every process in the trace's table of processes; empty where nothing names one.

    Where a single rank is named the file is that rank's, whichever of its processes (host, GPUs) carries the name.
    """
    found = tuple(_label(process, trace.process_labels) for process in trace.tables.process)
    named = set(found) - {""}
    return (*named,) * len(found) if len(named) == 1 else found


def _label(process: int | str, process_labels: Mapping[int | str, str]) -> str:
    texts = [process] if isinstance(process, str) else []
    texts.append(process_labels.get(process, ""))
    for text in texts:
        bracketed = _BRACKETED.match(text)
        if bracketed:
            return bracketed.group(1)
        numbered = _NUMBERED.search(text)
        if numbered:
            return f"rank {int(numbered.group(1))}"
    return ""


def groups(trace: Trace, rows: Ints) -> Ints:
    """A number for the rank of each row of the trace's columns, [len(rows)]; one number when nothing names ranks."""
    known = labels(trace)
    codes = {label: code for code, label in enumerate(sorted(set(known)))}
    of_process = np.array([codes[label] for label in known], dtype=np.int64)
    return of_process[trace.columns.process[rows]] if len(known) else np.zeros(len(rows), dtype=np.int64)


def distinct(codes: NDArray[np.int32] | Ints) -> list[int]:
    """The different values among small codes (0 and above), in order; np.unique would sort them all."""
    return np.flatnonzero(np.bincount(codes)).tolist()


def activities_by_rank(run: Run) -> dict[str, Ints]:
    """The activities of each rank that a merged file names, in the order of the ranks' names."""
    known = np.array(labels(run.trace), dtype=object)
    if not len(known):
        return {}
    of_activity = known[run.trace.columns.process[run.activities.row]]
    return {label: np.flatnonzero(of_activity == label) for label in sorted(set(of_activity.tolist()))}
