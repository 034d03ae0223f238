"""What ran inside CUDA graphs?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from foretrace import stats
from foretrace.readings.base import Answer, Column, Reading
from foretrace.readings.calls import Call, calls
from foretrace.readings.groups import busy_in_periods_ns
from foretrace.readings.host import a_step, in_scope, lengths, named, per_step, step_count
from foretrace.run import ROOT, Kind, Run
from foretrace.run.intervals import merge
from foretrace.units import duration, percent, plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

ASK = "What ran inside CUDA graphs?"

_MOST_ROWS = 60
_KINDS = ((Kind.KERNEL, "kernel", "kernels"), (Kind.SET, "memset", "memsets"), (Kind.COPY, "copy", "copies"))
_COPY_OPS = ("aten::_foreach_copy_", "aten::copy_")
_COLUMNS = (
    Column("order", "node", "count"),
    Column("kernel", "kernel"),
    Column("put_to", "put to (inferred)"),
    Column("median_ns", "µs", "ns"),
    Column("share", "of GPU busy", "share"),
)


def answer(run: Run) -> Answer | None:
    """Graph launches, the nodes of each, and what runs beside them for a graph's sake; silent without graph launches.

    A node carries no op: each is put to one by its name and its place in the graph, which is inferred and says so.
    ``unknown`` where graph launches own no GPU event.
    """
    kind = calls(run)
    launches = np.flatnonzero((kind == Call.GRAPH) & in_scope(run))
    if not len(launches):
        return None
    nodes = _nodes(run)
    owned = [nodes[launch] for launch in launches.tolist() if launch in nodes]
    if not owned:
        return _unknown(run, launches)
    graphs: dict[tuple[int, ...], list[list[int]]] = {}
    for members in owned:
        codes = run.trace.columns.name[run.activities.row[members]]
        graphs.setdefault(tuple(codes.tolist()), []).append(members)
    rows = [row for launches_of in graphs.values() for row in _rows(run, launches_of)]
    parts = [
        _launched(run, launches, owned, len(graphs)),
        _static_copy(run, launches),
        _noted(run, "graph-lower-bound"),
    ]
    sentence = " ".join(part for part in parts if part)
    return Answer("graphs", ASK, sentence, "graph", tuple(rows[:_MOST_ROWS]), _COLUMNS)


def _nodes(run: Run) -> dict[int, list[int]]:
    """Graph launch → its activities in order of time."""
    a = run.activities
    inside = np.flatnonzero(a.in_graph & (a.launch != ROOT))
    inside = inside[np.argsort(a.launch[inside], kind="stable")]
    launches, starts = np.unique(a.launch[inside], return_index=True)
    parts = np.split(inside, starts[1:]) if len(inside) else []
    return {int(launch): part.tolist() for launch, part in zip(launches, parts, strict=True)}


def _launched(run: Run, launches: Ints, owned: list[list[int]], graphs: int) -> str:
    members = np.array([node for nodes in owned for node in nodes])
    place = np.repeat(np.arange(len(owned)), [len(nodes) for nodes in owned])
    kinds = run.activities.kind[members]
    counts = np.stack([np.bincount(place[kinds == kind], minlength=len(owned)) for kind, _, _ in _KINDS])
    if (counts == counts[:, :1]).all():
        words = zip(counts[:, 0].tolist(), _KINDS, strict=True)
        what = " + ".join(plural(n, one, many) for n, (_, one, many) in words if n)
    else:
        what = f"{plural(len(members), 'GPU event')} in all"
    busy = np.median(_busy(run, members, place))
    cpu = np.median(lengths(run, launches))
    count = per_step(run, launches)
    which = f" of {plural(graphs, 'graph')}" if graphs > 1 else ""
    return (
        f"{plural(round(count), 'graph launch', 'graph launches')}{which} {a_step(run)}, {duration(cpu)} of CPU each; "
        f"one launch = {what}, {duration(busy)} of GPU. Nodes are put to their ops by name and order (inferred)."
    )


def _busy(run: Run, members: Ints, place: Ints) -> Ints:
    """GPU busy of each graph launch: the union of its own nodes, with the launches moved apart; [launches]."""
    a = run.activities
    apart = place * (int(a.end_ns.max() - a.start_ns.min()) + 1)
    start, end = merge(a.start_ns[members] + apart, a.end_ns[members] + apart)
    first = np.searchsorted(start, a.start_ns[members] + apart, side="right") - 1
    owner = np.zeros(len(start), dtype=np.int64)
    owner[first] = place
    return np.bincount(owner, weights=end - start).astype(np.int64)


def _rows(run: Run, launches: Sequence[list[int]]) -> list[dict[str, Any]]:
    """One row a node, over all launches of the same graph."""
    a = run.activities
    busy = busy_in_periods_ns(run)
    names = _put_to(run, launches[0])
    rows = []
    for place, members in enumerate(zip(*launches, strict=True)):
        took = (a.end_ns[list(members)] - a.start_ns[list(members)]).tolist()
        first = members[0]
        rows.append(
            {
                "order": place + 1,
                "kernel": run.identity(first).short,
                "name": run.activity_name(first),
                "put_to": names[place],
                "inferred": True,
                "median_ns": stats.median(took),
                "launches": len(members),
                "share": sum(took) / busy,
                "event": int(run.trace.columns.index[a.row[first]]),
            }
        )
    return rows


def _put_to(run: Run, nodes: list[int]) -> list[str | None]:
    """What each node of a graph belongs to, by its name and its place."""
    identities = [run.identity(node) for node in nodes]
    products = sum(identity.op_class == "gemm" for identity in identities)
    found: list[str | None] = []
    number = 0
    for place, identity in enumerate(identities):
        if identity.op_class == "gemm":
            number += 1
            found.append(f"GEMM {number} of {products}")
        elif identity.op_class == "gemm-helper":
            found.append(f"GEMM {number} of {products}" if number else None)
        elif run.activities.kind[nodes[place]] == Kind.SET:
            follows = place + 1 < len(nodes) and identities[place + 1].op_class == "gemm"
            found.append(f"GEMM {number + 1} of {products}" if follows else None)
        elif identity.fused_ops:
            found.append(" + ".join(identity.fused_ops))
        else:
            found.append(identity.op_class if identity.op_class not in ("unknown", "other") else None)
    return found


def _static_copy(run: Run, launches: Ints) -> str:
    """The copy kernels that bring inputs to a graph's fixed addresses: same call, before the launch, outside it."""
    a, host = run.activities, run.host
    beside = np.flatnonzero((a.kind != Kind.SET) & ~a.in_graph & (a.op != ROOT))
    of_copy = beside[named(run, _COPY_OPS)[a.op[beside]]]
    callers = np.setdiff1d(host.parent[launches], [ROOT])
    mine = of_copy[np.isin(host.parent[a.op[of_copy]], callers)]
    if not len(mine):
        return ""
    took = int((a.end_ns[mine] - a.start_ns[mine]).sum())
    each = duration(took / len(mine))
    count = plural(round(len(mine) / step_count(run)) or 1, "copy", "copies")
    one_kernel = count == "1 copy" and bool((a.kind[mine] == Kind.KERNEL).all())
    by = f"a copy kernel ({each})" if one_kernel else f"{count} ({each} each)"
    return f"Outside the graph {by} fills the static input: {percent(took, busy_in_periods_ns(run))} of GPU busy."


def _noted(run: Run, kind: str) -> str:
    """What the run's notes say of graphs, as a sentence."""
    texts = [note.text for note in run.notes if note.kind == kind]
    return "".join(f"{text[:1].upper()}{text[1:]}." for text in texts)


def _unknown(run: Run, launches: Ints) -> Answer:
    """Graph launches without nodes."""
    call = run.name(int(launches[0]))
    text = f"Unknown: {call} was called {plural(len(launches), 'time')}, and no GPU event is linked to it."
    return Answer("graphs", ASK, f"{text} {_noted(run, 'probably-graph')}".rstrip(), verdict="unknown")


READING = Reading("graphs", ASK, answer)
