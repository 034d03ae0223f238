"""Which ``nn.Module`` costs what?"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from foretrace.readings.base import Answer, Column, Reading
from foretrace.readings.groups import periods
from foretrace.readings.host import a_step, in_scope, lengths, step_count
from foretrace.run import ROOT, Kind, Run
from foretrace.run.tree import nearest
from foretrace.units import duration, percent

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

ASK = "Which nn.Module costs what?"

_SPOKEN, _MOST_ROWS = 3, 60
_SPAN_NS = 1 << 48  # longer than a trace: three days
_EVALUATE = "autograd::engine::evaluate_function"
_COLUMNS = (
    Column("module", "module"),
    Column("calls", "calls", "count"),
    Column("own_ns", "GPU µs", "ns"),
    Column("forward_ns", "forward µs", "ns"),
    Column("backward_ns", "backward µs", "ns"),
    Column("total_ns", "with submodules µs", "ns"),
    Column("cpu_ns", "CPU µs", "ns"),
)


def answer(run: Run) -> Answer | None:
    """GPU time of the steps by module scope: its own (without submodules) and with them, forward and backward.

    Forward work belongs to the scope around its launch. Backward work runs on another thread; it is put to the module
    whose forward op the ``fwdbwd`` arrow, or else the sequence number, leads back to. Times are sums of kernels, copies
    and sets, means over steps. Silent without module scopes; ``unknown`` where none of the GPU work can be put to one.
    """
    scopes = np.flatnonzero(_is_scope(run) & in_scope(run))
    if not len(scopes) or not len(run.activities):
        return None
    module, is_backward = of_activities(run)
    counted = np.concatenate(periods(run))
    took = run.activities.end_ns[counted] - run.activities.start_ns[counted]
    inside = module[counted] != ROOT
    if not inside.any():
        text = "Unknown: the file names modules, and no GPU event was launched inside one."
        return Answer("modules", ASK, text, verdict="unknown")
    rows = _rows(run, scopes, module[counted], took, is_backward[counted])
    whole, outside = int(took.sum()), int(took[~inside].sum())
    top = ", ".join(_spoken(row) for row in sorted(rows, key=lambda row: -row["own_ns"])[:_SPOKEN] if row["own_ns"])
    backward = is_backward[counted] & inside
    how = "Backward work is put to its forward op's module" if backward.any() else "Forward work only"
    rest = f"; {percent(outside, whole)} of GPU time lies outside any module" if outside else ""
    sentence = f"By module, GPU time {a_step(run)}: {top}{rest}. {how}."
    return Answer("modules", ASK, sentence, "by-module", tuple(rows[:_MOST_ROWS]), _COLUMNS)


def _spoken(row: dict[str, Any]) -> str:
    name = row["module"].rsplit(" › ", 1)[-1]
    if row["forward_ns"] and row["backward_ns"]:
        parts = f" ({duration(row['forward_ns'])} forward, {duration(row['backward_ns'])} backward)"
    else:
        parts = ""
    itself = " itself" if row["total_ns"] > row["own_ns"] else ""
    return f"{name}{itself} {duration(row['own_ns'])}{parts}"


@lru_cache(maxsize=2)
def _is_scope(run: Run) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = run.host.module == np.arange(len(run.host))
    return found


@lru_cache(maxsize=2)
def _paths(run: Run) -> dict[int, str]:
    """Module scope → its name under the names of the scopes around it."""
    paths: dict[int, str] = {}
    parent = run.host.parent
    for scope in np.flatnonzero(_is_scope(run)).tolist():  # parents come before children
        above = int(parent[scope])
        outer = int(run.host.module[above]) if above != ROOT else ROOT
        name = run.module_name(scope) or ""
        paths[scope] = f"{paths[outer]} › {name}" if outer != ROOT else name
    return paths


@lru_cache(maxsize=2)
def of_activities(run: Run) -> tuple[Ints, NDArray[np.bool_]]:
    """The module scope of each activity (or −1), and whether it was found through its backward op; [activities]."""
    a, host = run.activities, run.host
    module = a.module.copy()
    source = _forward_of(run)
    around = nearest(host.parent, source != ROOT)
    lost = np.flatnonzero((module == ROOT) & (a.launch != ROOT))
    backward = around[a.launch[lost]]
    known = backward != ROOT
    module[lost[known]] = host.module[source[backward[known]]]
    is_backward = np.zeros(len(a), dtype=np.bool_)
    is_backward[lost[known]] = True
    return module, is_backward


def _forward_of(run: Run) -> Ints:
    """For each backward op the forward op that it is the derivative of, or −1, [slices]."""
    by_flow = _by_flow(run)
    return by_flow if (by_flow != ROOT).any() else _by_sequence(run)


def _by_flow(run: Run) -> Ints:
    flows, tables = run.trace.flows, run.trace.tables
    found = np.full(len(run.host), ROOT, dtype=np.int64)
    kinds = [code for code, category in enumerate(tables.category) if category == "fwdbwd"]
    arrows = np.flatnonzero(np.isin(flows.category, kinds) & (flows.start_ns >= 0))
    tails, heads = arrows[~flows.is_end[arrows]], arrows[flows.is_end[arrows]]
    if not len(tails) or not len(heads):
        return found
    tails = tails[np.argsort(flows.id[tails], kind="stable")]
    at = np.searchsorted(flows.id[tails], flows.id[heads])
    paired = (at < len(tails)) & (flows.id[tails[np.minimum(at, len(tails) - 1)]] == flows.id[heads])
    forward, backward = _ops_at(run, tails[at[paired]]), _ops_at(run, heads[paired])
    real = (forward != ROOT) & (backward != ROOT)
    found[backward[real]] = forward[real]
    return found


def _ops_at(run: Run, arrows: Ints) -> Ints:
    """The op that begins at the end point of each arrow, or −1."""
    host, flows = run.host, run.trace.flows
    ops = np.flatnonzero(host.kind == Kind.OPERATOR)
    if not len(ops):
        return np.full(len(arrows), ROOT, dtype=np.int64)
    thread = flows.process[arrows].astype(np.int64) * (len(run.trace.tables.thread) + 1) + flows.thread[arrows]
    threads = np.unique(np.concatenate([host.thread[ops], thread]))
    keys = np.searchsorted(threads, host.thread[ops]) * _SPAN_NS + host.start_ns[ops]  # ops are in this order
    wanted = np.searchsorted(threads, thread) * _SPAN_NS + flows.start_ns[arrows]
    at = np.minimum(np.searchsorted(keys, wanted), len(ops) - 1)
    return np.where(keys[at] == wanted, ops[at], ROOT)


def _by_sequence(run: Run) -> Ints:
    """Backward ops carry the sequence number that the forward op (the last with it on its own thread) was given."""
    host = run.host
    sequence = run.trace.columns.sequence[host.row]
    found = np.full(len(host), ROOT, dtype=np.int64)
    prefixed = [code for code, name in enumerate(run.trace.tables.name) if name.startswith(_EVALUATE)]
    is_backward = np.isin(run.trace.columns.name[host.row], prefixed) & (sequence >= 0)
    forward = np.flatnonzero((sequence >= 0) & (host.module != ROOT) & (host.kind == Kind.OPERATOR) & ~is_backward)
    if not len(forward):
        return found
    forward = forward[np.lexsort((host.start_ns[forward], sequence[forward]))]
    backward = np.flatnonzero(is_backward)
    at = np.searchsorted(sequence[forward], sequence[backward], side="right") - 1
    same = (at >= 0) & (sequence[forward[np.maximum(at, 0)]] == sequence[backward])
    found[backward[same]] = forward[at[same]]
    return found


def _rows(run: Run, scopes: Ints, module: Ints, took: Ints, is_backward: NDArray[np.bool_]) -> list[dict[str, Any]]:
    """One row a module path, outermost first in order of their first call."""
    paths = _paths(run)
    order = dict.fromkeys(paths[int(scope)] for scope in scopes)
    index = {path: i for i, path in enumerate(order)}
    place = np.full(len(run.host), -1, dtype=np.int64)
    place[scopes] = [index[paths[int(scope)]] for scope in scopes]
    mine = np.where(module != ROOT, place[module], -1)

    def summed(mask: NDArray[np.bool_]) -> NDArray[np.float64]:
        chosen = mask & (mine >= 0)
        return np.bincount(mine[chosen], weights=took[chosen], minlength=len(order)).astype(np.float64)

    forward, backward = summed(~is_backward), summed(is_backward)
    cpu = np.bincount(place[scopes], weights=lengths(run, scopes), minlength=len(order))
    calls = np.bincount(place[scopes], minlength=len(order))
    steps = step_count(run)
    own = forward + backward
    rows = []
    for path, i in index.items():
        below = [j for other, j in index.items() if other == path or other.startswith(f"{path} › ")]
        first = int(scopes[np.argmax(place[scopes] == i)])
        rows.append(
            {
                "module": path,
                "calls": float(calls[i] / steps),
                "own_ns": float(own[i] / steps),
                "forward_ns": float(forward[i] / steps),
                "backward_ns": float(backward[i] / steps),
                "total_ns": float(own[below].sum() / steps),
                "cpu_ns": float(cpu[i] / steps),
                "event": int(run.trace.columns.index[run.host.row[first]]),
            }
        )
    return rows


READING = Reading("modules", ASK, answer)
