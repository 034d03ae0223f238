"""Why is there an extra runtime call?"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from foretrace.names import decode
from foretrace.readings.base import Answer, Column, Reading
from foretrace.readings.calls import Call, calls
from foretrace.readings.groups import groups
from foretrace.readings.host import a_step, events, in_compile, in_scope, launches_kernel, per_step, spoken
from foretrace.run import ROOT, Kind, Run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from foretrace.readings.groups import Group

    Ints = NDArray[np.int64]

ASK = "Why is there an extra runtime call?"

_COLUMNS = (
    Column("call", "call"),
    Column("count", "a step", "count"),
    Column("cpu_ns", "CPU µs", "ns"),
    Column("op", "op"),
    Column("before", "before"),
    Column("why", "why"),
)

# Only what a public document or source says: the CUDA Runtime API reference; for reductions ATen's Reduce.cuh, which
# zeroes the semaphores of a reduction that several blocks share.
_PURPOSES = (
    (r"OccupancyMaxActive", "asks how many blocks of a kernel fit on an SM at once"),
    (r"FuncSetAttribute", "sets a kernel's limit, such as dynamic shared memory above 48 KB; the trace names none"),
    (r"FuncGetAttributes", "asks for a kernel's registers and shared memory"),
    (r"StreamIsCapturing|StreamGetCaptureInfo", "asks whether the stream is being captured into a graph"),
    (r"ThreadExchangeStreamCaptureMode", "allows or forbids unsafe calls while a graph is captured"),
    (r"EventQuery", "asks whether the GPU has passed an event"),
    (r"GetErrorString|GetLastError|PeekAtLastError", "asks for the error state"),
    (r"DeviceGetAttribute|GetDeviceProperties", "asks for a property of the device"),
)
_UNDOCUMENTED = "the library asks for it, and does not document what for"
_SET_PURPOSES = {
    "gemm": _UNDOCUMENTED,
    "attention": _UNDOCUMENTED,
    "reduction": "zeroes the semaphores by which several blocks share a reduction",
}


def answer(run: Run) -> Answer | None:
    """Calls inside ops that launch no kernel of their own: queries, attribute calls, memsets; and GEMM helpers.

    Copies, waits and allocations have questions of their own. Purposes are stated only where they are
    documented. What a compilation asks for is left out.
    """
    rows = sorted(_rows(run), key=lambda row: -row["count"])
    found = groups(run)
    parts = [*_memsets(run, found), *_helpers(run, found), *_other(run, rows)]
    if not parts:
        return None
    return Answer("queries", ASK, " ".join(parts), evidence=tuple(rows), columns=_COLUMNS)


def _rows(run: Run) -> Iterator[dict[str, Any]]:
    """One row for each (call, op, following kernel) of the steps."""
    kind = calls(run)
    wanted = np.isin(kind, (Call.SET, Call.QUERY, Call.ATTRIBUTE)) & in_scope(run) & ~in_compile(run)
    wanted &= run.host.op != ROOT
    slices = np.flatnonzero(wanted)
    if not len(slices):
        return
    after = _following(run, slices)
    names = run.trace.columns.name
    activity_of = np.full(len(run.host), ROOT)
    linked = np.flatnonzero(run.activities.launch != ROOT)
    activity_of[run.activities.launch[linked]] = linked
    kernel = np.where(after != ROOT, activity_of[after], ROOT)
    codes = np.where(kernel != ROOT, names[run.activities.row[kernel]] if len(run.activities) else ROOT, ROOT)
    keys = np.stack([names[run.host.row[slices]], names[run.host.row[run.host.op[slices]]], codes], axis=1)
    every, places = np.unique(keys, axis=0, return_inverse=True)
    for place in range(len(every)):
        members = slices[places.ravel() == place]
        code = int(every[place, 2])
        before = decode(run.trace.tables.name[code]) if code != ROOT else None
        call = run.name(int(members[0]))
        yield {
            "call": call,
            "count": per_step(run, members),
            "cpu_ns": per_step(run, members, run.host.end_ns[members] - run.host.start_ns[members]),
            "op": run.name(int(run.host.op[members[0]])),
            "before": before.short if before is not None else None,
            "why": _why(call, Call(int(kind[members[0]])), before.op_class if before is not None else None),
            "event": events(run, members[:1])[0],
        }


def _following(run: Run, slices: Ints) -> Ints:
    """The next call of the same op that launches a kernel, or `ROOT`."""
    launching = np.flatnonzero(launches_kernel(run))
    at = np.searchsorted(launching, slices, side="right")
    inside = at < len(launching)
    after = np.where(inside, launching[np.minimum(at, len(launching) - 1)], ROOT) if len(launching) else at * 0 + ROOT
    same_op = (after != ROOT) & (run.host.op[after] == run.host.op[slices])
    return np.where(same_op, after, ROOT)


def _why(call: str, kind: Call, op_class: str | None) -> str | None:
    if kind == Call.SET:
        return _SET_PURPOSES.get(op_class or "")
    return next((why for pattern, why in _PURPOSES if re.search(pattern, call)), None)


def _memsets(run: Run, found: tuple[Group, ...]) -> Iterator[str]:
    """Which kernels of the step have a memset just before them, in a graph or not."""
    a = run.activities
    for op_class, what, why in (
        ("gemm", "GEMM", _UNDOCUMENTED),
        ("attention", "attention kernel", _UNDOCUMENTED),
        ("reduction", "reduction", "it zeroes the semaphores by which the blocks share the reduction"),
    ):
        of_class = [group for group in found if group.identity.op_class == op_class]
        sets = [(group, _set_before(run, group.activities[-1])) for group in of_class]
        with_set = [(group, activity) for group, activity in sets if activity is not None]
        if not with_set:
            continue
        n_bytes = sorted({int(run.trace.columns.moved_bytes[a.row[activity]]) for _, activity in with_set} - {-1})
        sized = f"{n_bytes[0]:,}-byte " if len(n_bytes) == 1 else ""
        yield f"A {sized}memset precedes {_which(run, what, of_class, [g for g, _ in with_set])}: {why}."


def _which(run: Run, what: str, every: list[Group], having: list[Group]) -> str:
    """``2 of the 3 GEMMs a step (nvjet 256×128×64; none before nvjet 192×128×64)``."""
    total, count = round(sum(g.count for g in every)), round(sum(g.count for g in having))
    short = [g.identity.short.split(",")[0] for g in having]
    others = dict.fromkeys(g.identity.short.split(",")[0] for g in every if g not in having)
    if not others:
        share = (
            f"all {total} {what}s {a_step(run)}"
            if total > 1
            else f"the {what} of {'each step' if run.steps else 'this trace'}"
        )
        return f"{share} ({spoken(dict.fromkeys(short))})"
    rest = "the others" if any(name in short for name in others) else spoken(others)
    return f"{count} of the {total} {what}s {a_step(run)} ({spoken(dict.fromkeys(short))}; none before {rest})"


def _set_before(run: Run, kernel: int) -> int | None:
    """The set just before ``kernel`` on its stream that its own op, or its own graph launch, asked for."""
    a = run.activities
    for earlier in range(kernel - 1, max(kernel - 9, -1), -1):  # streams interleave; eight back is far enough
        if a.stream[earlier] != a.stream[kernel]:
            continue
        same = a.launch[earlier] == a.launch[kernel] if a.in_graph[kernel] else a.op[earlier] == a.op[kernel]
        return earlier if a.kind[earlier] == Kind.SET and same and a.launch[kernel] != ROOT else None
    return None


def _helpers(run: Run, found: tuple[Group, ...]) -> Iterator[str]:
    """The first kernel of the step that helps a GEMM, with the call that launched it."""
    helper = next((group for group in found if group.identity.op_class == "gemm-helper"), None)
    if helper is None:
        return
    launch = run.activity(helper.activities[0]).launch
    by = f" by {launch}" if launch else ""
    if helper.identity.split_k:
        place = "after its GEMM: K is split over blocks, and it adds up the parts"
    else:
        place = "beside its GEMM, and is part of that GEMM's work"
    yield f"{helper.identity.short} is launched{by} {place}."


def _other(run: Run, rows: list[dict[str, Any]]) -> Iterator[str]:
    explained = [row for row in rows if row["why"] and not re.search("Mem[sS]et|Fill", row["call"])]
    by_call: dict[str, float] = {}
    whys: dict[str, str] = {}
    for row in explained:
        by_call[row["call"]] = by_call.get(row["call"], 0) + row["count"]
        whys[row["call"]] = row["why"]
    for call, count in sorted(by_call.items(), key=lambda item: -item[1])[:3]:
        times = f"{round(count):,}× {a_step(run)}" if run.steps else f"{round(count):,}×"
        yield f"{call} ({times}) {whys[call]}."


READING = Reading("queries", ASK, answer)
