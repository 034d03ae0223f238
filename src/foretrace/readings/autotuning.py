"""Kernels that a compiler's autotuner ran only to time them: work of the tuning, not of the model."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from foretrace.run import ROOT, Run
from foretrace.run.tree import nearest

if TYPE_CHECKING:
    from numpy.typing import NDArray

# how Inductor names its timed regions: pointwise and reduction configs, then GEMM templates
_TUNERS = re.compile(r"CachingAutotuner\.(benchmark|coordinate)|AlgorithmSelectorCache|benchmark_all_configs")


@lru_cache(maxsize=2)
def tuner_slices(run: Run) -> NDArray[np.int64]:
    """For each host slice the innermost autotuning scope around it, or `ROOT`; [slices]."""
    codes = [code for code, name in enumerate(run.trace.tables.name) if _TUNERS.match(name)]
    if not codes:
        return np.full(len(run.host), ROOT, dtype=np.int64)
    return nearest(run.host.parent, np.isin(run.trace.columns.name[run.host.row], codes))


@lru_cache(maxsize=2)
def benchmarked(run: Run) -> NDArray[np.bool_]:
    """Whether the autotuner launched it, [activities]."""
    launch = run.activities.launch
    if not len(run.host):
        return np.zeros(len(launch), dtype=np.bool_)
    found: NDArray[np.bool_] = (launch != ROOT) & (tuner_slices(run)[launch] != ROOT)
    return found
