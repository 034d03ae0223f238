"""What to call the two sides: their variants, or what sets their file names apart."""

from __future__ import annotations

import re
from itertools import takewhile
from pathlib import PurePath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foretrace.run import Run

_ENDINGS = re.compile(r"(\.(gz|zip|json|pt|trace|pftrace))+\Z")
_DEFAULT = ("before", "after")


def labels(before: Run, after: Run) -> tuple[str, str]:
    """Two different labels: ``eager`` and ``compiled`` for ``mlp_eager.json.gz`` and ``mlp_compiled.json.gz``."""
    variants = [run.environment.variant if run.environment else None for run in (before, after)]
    if variants[0] and variants[1] and variants[0] != variants[1]:
        return variants[0], variants[1]
    stems = [_ENDINGS.sub("", PurePath(run.trace.path).name) for run in (before, after)]
    parts = [re.split(r"[_.]", stem) for stem in stems]
    head = _shared(*parts)
    tail = _shared(*(list(reversed(part[head:])) for part in parts))
    found = ["_".join(part[head : len(part) - tail]) for part in parts]
    if all(found) and found[0] != found[1]:
        return found[0], found[1]
    return (stems[0], stems[1]) if all(stems) and stems[0] != stems[1] else _DEFAULT


def _shared(one: Sequence[str], other: Sequence[str]) -> int:
    return len(list(takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))))
