"""Records as columns, for data frames: name → one value a row, unknown as ``None``."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeAlias

from foretrace.readings.costs import BOUNDS, costs
from foretrace.run import ROOT, Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from foretrace.diff import Diff
    from foretrace.run import Run
    from foretrace.verdict import Guess

    Ints = NDArray[np.int64]

Columns: TypeAlias = dict[str, list[Any]]


def columns_of_run(run: Run) -> Columns:
    """One row an activity, in order of time; times in nanoseconds from the first event of the file."""
    a, every = run.activities, costs(run)
    kernel = (a.kind == Kind.KERNEL).tolist()
    identities = [run.identity(i) for i in range(len(a))]
    bounds = [BOUNDS[code] if is_kernel else None for code, is_kernel in zip(every.bound, kernel, strict=True)]
    recorded = run.trace.columns.moved_bytes[a.row].tolist()
    counted = every.moved_bytes.tolist()
    return {
        "step": [run.steps[i].name if i >= 0 else None for i in a.step.tolist()],
        "kind": [Kind(kind).name.lower() for kind in a.kind.tolist()],
        "name": [identity.name for identity in identities],
        "kernel": [identity.short for identity in identities],
        "op_class": [identity.op_class for identity in identities],
        "device": _known(a.device),
        "stream": _known(a.stream),
        "start_ns": a.start_ns.tolist(),
        "dur_ns": (a.end_ns - a.start_ns).tolist(),
        "op": _names(run, a.op),
        "module": [run.module_name(slice_) for slice_ in a.module.tolist()],
        "region": _names(run, a.region),
        "launch": _names(run, a.launch),
        "graph": a.in_graph.tolist(),
        "flops": _known(every.flops),
        "bytes": [_or_none(known if known >= 0 else n) for known, n in zip(recorded, counted, strict=True)],
        "bound": bounds,
        "event": run.trace.columns.index[a.row].tolist(),
    }


def columns_of_changes(found: Diff) -> Columns:
    """One row a change, with the fields of `foretrace.diff.Change`; names of several kernels in a list."""
    return _fields(found.changes, without={"fields"})


def columns_of_guess(guess: Guess) -> Columns:
    """One row a kernel, with the fields of `foretrace.verdict.GuessedKernel`; shapes as text."""
    columns = _fields(guess.kernels)
    return {**columns, "shapes": [None if shapes is None else str(shapes) for shapes in columns.get("shapes", ())]}


def _fields(records: Sequence[Any], without: Iterable[str] = ()) -> Columns:
    names = [field.name for field in fields(records[0]) if field.name not in without] if records else []
    return {name: [_plain(getattr(record, name)) for record in records] for name in names}


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def _known(values: Ints) -> list[int | None]:
    return [_or_none(value) for value in values.tolist()]


def _or_none(value: int) -> int | None:
    return value if value >= 0 else None


def _names(run: Run, slices: Ints) -> list[str | None]:
    return [run.name(slice_) if slice_ != ROOT else None for slice_ in slices.tolist()]
