"""Which kernel a helper helps: a split-K reduction or a scaling kernel is part of the product beside it."""

from __future__ import annotations

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
    activities = run.activities
    products = np.flatnonzero(of_class(run, "gemm"))
    found: defaultdict[int, list[int]] = defaultdict(list)
    for helper in np.flatnonzero(of_class(run, "gemm-helper")).tolist():
        asked = activities.launch if activities.in_graph[helper] else activities.op
        if asked[helper] == ROOT:
            continue
        same = products[(asked[products] == asked[helper]) & (activities.stream[products] == activities.stream[helper])]
        if len(same):
            found[int(same[max(np.searchsorted(same, helper) - 1, 0)])].append(helper)
    return {product: tuple(some) for product, some in found.items()}
