"""Which kernel a helper helps: a split-K reduction or a scaling kernel is part of the product beside it."""

from __future__ import annotations

from bisect import bisect
from collections import defaultdict
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from foretrace.readings.carriers import of_class
from foretrace.run import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from foretrace.run import Run


@lru_cache(maxsize=2)
def helpers(run: Run) -> Mapping[int, tuple[int, ...]]:
    """The helpers of each GEMM kernel that has some, as activities.

    A helper belongs to the last GEMM before it on its stream that its own op, or its own graph launch, asked for; to
    the next one where there is none before it.
    """
    together: defaultdict[tuple[bool, int, int], list[int]] = defaultdict(list)
    for product in np.flatnonzero(of_class(run, "gemm")).tolist():
        together[_place(run, product)].append(product)
    found: defaultdict[int, list[int]] = defaultdict(list)
    for helper in np.flatnonzero(of_class(run, "gemm-helper")).tolist():
        place = _place(run, helper)
        beside = together.get(place) if place[1] != ROOT else None
        if beside:
            found[beside[max(bisect(beside, helper) - 1, 0)]].append(helper)
    return {product: tuple(some) for product, some in found.items()}


def _place(run: Run, kernel: int) -> tuple[bool, int, int]:
    """What asked for a kernel, a graph's launch or an op, and its stream."""
    activities = run.activities
    in_graph = bool(activities.in_graph[kernel])
    asked = activities.launch if in_graph else activities.op
    return in_graph, int(asked[kernel]), int(activities.stream[kernel])
