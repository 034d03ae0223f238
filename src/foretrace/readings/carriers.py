"""Which kernel carries its op's work: an op's helpers, memsets and second kernels do not count it again."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from foretrace.names import decode
from foretrace.ops import work
from foretrace.run import ROOT, Kind, Run

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from foretrace.names import Identity

    Ints = NDArray[np.int64]


UNNAMED = frozenset({"unknown", "other"})
"""Classes of names that do not say what the kernel does."""


@lru_cache(maxsize=2)
def identities(run: Run) -> dict[int, Identity]:
    """The decoded names of a run's activities, by the code of the name."""
    codes = np.unique(run.trace.columns.name[run.activities.row])
    return {int(code): decode(run.trace.tables.name[int(code)]) for code in codes}


def of_class(run: Run, *wanted: str) -> NDArray[np.bool_]:
    """Which activities have a name of one of the ``wanted`` op classes, [activities]."""
    codes = [code for code, identity in identities(run).items() if identity.op_class in wanted]
    return np.isin(run.trace.columns.name[run.activities.row], codes)


def class_of(run: Run, kernel: int) -> str:
    """The op class in a kernel's name; that of its op where the name says none and the op is the kernel's own."""
    named, op = run.identity(kernel).op_class, int(run.activities.op[kernel])
    if named not in UNNAMED or op == ROOT or run.activities.in_graph[kernel]:
        return named
    return _op_class(run.name(op)) or named


def _of_ops(run: Run) -> Ints:
    """Kernels that can carry an op's work: no helpers, and no nodes of a graph, which have no op of their own."""
    activities = run.activities
    outside = (activities.kind == Kind.KERNEL) & (activities.op != ROOT) & ~activities.in_graph
    return np.flatnonzero(outside & ~of_class(run, "gemm-helper"))


@lru_cache(maxsize=2)
def carriers(run: Run) -> Ints:
    """The kernels that carry all of their op's work: alone under it, or alone of its class; in order of time."""
    activities, kernels = run.activities, _of_ops(run)
    alone = _alone(activities.op[kernels])
    crowd = kernels[~alone]
    same = np.array([_is_of_its_class(run, kernel) for kernel in crowd.tolist()], dtype=np.bool_)
    chosen = crowd[same]
    return np.sort(np.concatenate([kernels[alone], chosen[_alone(activities.op[chosen])]]))


def sharers(run: Run) -> list[Ints]:
    """The kernels of each op that launched one kernel several times, as list ops do for many tensors."""
    kernels = _of_ops(run)
    kernels = kernels[~_alone(run.activities.op[kernels])]
    op = run.activities.op[kernels]
    order = np.argsort(op, kind="stable")
    names = run.trace.columns.name[run.activities.row]
    crowds = np.split(kernels[order], np.flatnonzero(np.diff(op[order])) + 1) if len(kernels) else []
    return [crowd for crowd in crowds if (names[crowd] == names[crowd[0]]).all()]


def _alone(ops: Ints) -> NDArray[np.bool_]:
    _, inverse, count = np.unique(ops, return_inverse=True, return_counts=True)
    alone: NDArray[np.bool_] = count[inverse] == 1
    return alone


def _is_of_its_class(run: Run, kernel: int) -> bool:
    name = int(run.trace.columns.name[run.activities.row[kernel]])
    return identities(run)[name].op_class == _op_class(run.name(int(run.activities.op[kernel])))


@lru_cache(maxsize=4096)
def _op_class(op: str) -> str | None:
    done = work(op, None, None)
    return done.op_class if done else None
