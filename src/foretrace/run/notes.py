"""What a reader should know about a run before trusting its figures: one fact a function, in one ordered list.

Repairs of the file itself are the trace's own notes; these say what was not recorded, or recorded oddly.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from foretrace.run import ranks, steps
from foretrace.run.categories import BOOKKEEPING, DEVICE, RANGE_PROFILER, Kind, kinds
from foretrace.run.links import candidates
from foretrace.run.tree import ROOT
from foretrace.trace.columns import Note
from foretrace.trace.times import LOST
from foretrace.units import duration, plural

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from foretrace.run.model import Run

_MPS = re.compile(r"(?:^|[_:.])mps(?:[_:.]|$)")
_NPU_PROCESSES = ("Ascend Hardware", "CANN", "NPU")
_HIDDEN_WORK_NS = 50_000
"""A synchronize that outlasts the last recorded kernel by more than this waited for more: a bare one takes 10 µs."""


def of(run: Run) -> tuple[Note, ...]:
    """Every note that applies to ``run``, in the order of `NOTES`."""
    return tuple(note for note in (about(run) for about in NOTES) if note is not None)


def _nothing_recorded(run: Run) -> Note | None:
    """Nothing that works: no step of the profiler's schedule was active, its events are gone, or have no category."""
    if not _empty(run) or RANGE_PROFILER in run.trace.tables.category:
        return None
    columns, tables = run.trace.columns, run.trace.tables
    kept = [code for code, category in enumerate(tables.category) if category in BOOKKEEPING]
    slices = (columns.dur_ns >= 0) & ~np.isin(columns.category, kept)
    if (slices & (columns.start_ns == LOST)).any():
        return None  # there is work in the file, without a time that can be read; the reader's own note says so
    unknown = int(np.isin(np.arange(len(columns)), run.host.row, invert=True)[slices].sum())
    if unknown:
        text = f"category unknown: {plural(unknown, 'slice')} of no category that PyTorch's profiler writes"
        return Note("unknown-categories", text, unknown)
    text = (
        "no op was recorded: the schedule never reached active (call `prof.step()` once per iteration), the file was "
        "written after the next cycle had begun, which drops what was recorded (write it in `on_trace_ready`), or the "
        "work ran in other threads or processes than the profiler's"
    )
    return Note("nothing-recorded", text)


def _empty(run: Run) -> bool:
    """Whether no op, activity or call but a wait was recorded: the profiler's own stop waits for the device."""
    if len(run.activities) or np.isin(run.host.kind, (Kind.OPERATOR, Kind.PYTHON)).any():
        return False
    waits = _named(run, run.trace.columns.name[run.host.row], "Synchronize")
    return not ((run.host.kind == Kind.LAUNCH) & ~waits).any()


def _legacy(run: Run) -> Note | None:
    """The autograd profiler before Kineto: no categories, no launches."""
    if not {"CPU functions", "CUDA functions"} & set(map(str, run.trace.tables.process)):
        return None
    text = "written by the legacy autograd profiler: GPU times are those of ops, and no launch is recorded"
    return Note("legacy-profiler", text)


def _torch_npu(run: Run) -> Note | None:
    """Ascend's own layout, whose device rows have no categories."""
    labels = run.trace.process_labels.values()
    named = any(process in label for label in labels for process in _NPU_PROCESSES)
    if not named and "async_npu" not in run.trace.tables.category:
        return None
    return Note("torch-npu", "this is torch_npu output (Ascend): CPU ops are read, its device rows are not")


def _no_gpu(run: Run) -> Note | None:
    """No kernel, copy or set: why, as far as the file tells."""
    if len(run.activities) or not len(run.trace.columns) or np.isin(kinds(run.trace), DEVICE).any():
        return None  # device rows that are no activities have lost their times: the reader's own note says so
    tables = run.trace.tables
    if RANGE_PROFILER in tables.category:
        text = "range-profiler mode: counters only, no kernel timeline was recorded"
        return Note("range-profiler", text)
    calls = int((run.host.kind == Kind.LAUNCH).sum())
    if run.trace.metadata.get("deviceProperties") or calls:
        seen = "a GPU is listed" if run.trace.metadata.get("deviceProperties") else "GPU calls are recorded"
        text = (
            f"{seen} but no GPU activity was recorded: `ProfilerActivity.CUDA` was not asked for, or CUPTI is missing"
        )
        return None if _empty(run) else Note("no-gpu-activity", text)
    if any(_MPS.search(name) for name in tables.name):
        return Note("mps", "MPS work is not visible to this profiler: only CPU times are known")
    if not len(run.host):
        return None
    return Note("cpu-only", "no GPU events: CPU times only")


def _merged_ranks(run: Run) -> Note | None:
    """Several ranks in one file."""
    known = sorted(set(ranks.labels(run.trace)) - {""})
    if len(known) < 2:  # noqa: PLR2004 - one rank is no merge
        return None
    some = ", ".join(known[:4]) + (", …" if len(known) > 4 else "")  # noqa: PLR2004
    text = f"{len(known)} ranks in one file ({some}): ids are matched within each rank"
    return Note("merged-ranks", text, len(known))


def _odd_steps(run: Run) -> Note | None:
    """Step marks that divide nothing: of another process, or longer than the recording."""
    found = steps.marks(run.trace, run.host)
    fit = {mark.slice for mark in steps.fitting(run.trace, run.host, found)}
    odd = [mark for mark in found if mark.slice not in fit]
    if not odd:
        return None
    longest = max(odd, key=lambda mark: mark.end_ns - mark.start_ns)
    recorded = steps.recorded_ns(run.trace)
    ran = f", while the profiler ran for {duration(recorded)}" if recorded else ""
    text = (
        f"{plural(len(odd), 'step mark')} of another process than the work, or longer than the recording: not used "
        f"({longest.name} lasts {duration(longest.end_ns - longest.start_ns)}{ran})"
    )
    return Note("odd-steps", text, len(odd))


def _nested_steps(run: Run) -> Note | None:
    """Step marks inside a step that divides: of a profiler inside a profiler, or the same step marked twice."""
    found = steps.marks(run.trace, run.host)
    inside = len(steps.fitting(run.trace, run.host, found)) - len(run.steps)
    if not inside:
        return None
    return Note(
        "nested-steps", f"{plural(inside, 'step mark')} inside another step: not used, the outer ones are", inside
    )


def _one_step(run: Run) -> Note | None:
    """One mark for the whole run: usually `prof.step()` called once an epoch."""
    if len(run.steps) != 1:
        return None
    return Note("one-step", "only one step: nothing can be said about spread; call `prof.step()` once per iteration")


def _orphans(run: Run) -> Note | None:
    """Activities whose launch is not in the file."""
    orphans = int((run.activities.launch == ROOT).sum())
    if not orphans:
        return None
    return Note("orphans", f"launched outside the window: {plural(orphans, 'GPU event')} without an op", orphans)


def _duplicate_ids(run: Run) -> Note | None:
    """Ids that several calls of one rank carry."""
    _, low, high = candidates(run.trace, run.host, run.activities.row)
    several = int((high - low > 1).sum())
    if not several:
        return None
    text = (
        f"{plural(several, 'GPU event')} with a correlation id that several calls carry: linked to the latest before it"
    )
    return Note("duplicate-correlations", text, several)


def _clock_skew(run: Run) -> Note | None:
    """Activities that start before the call that launched them."""
    launch, start = run.activities.launch, run.activities.start_ns
    linked = launch != ROOT
    early = run.host.start_ns[launch[linked]] - start[linked] if len(run.host) else np.empty(0, dtype=np.int64)
    count = int((early > 0).sum())
    if not count:
        return None
    text = (
        f"{plural(count, 'GPU event')} before the call that launched it, by up to {duration(int(early.max()))}: "
        "clock skew between host and GPU"
    )
    return Note("clock-skew", text, count)


def _hidden_graph_work(run: Run) -> Note | None:
    """A wait after a graph launch that no recorded kernel explains: conditional nodes are recorded once."""
    activities, host = run.activities, run.host
    last_end = np.maximum.accumulate(activities.end_ns)
    hiding = set()
    for call, wait in _waits_after_graphs(run):
        nodes = np.flatnonzero(activities.launch == call)
        before = int(np.searchsorted(activities.start_ns, host.end_ns[wait]))
        if not len(nodes) or not before:
            continue
        unexplained = int(host.end_ns[wait]) - max(int(host.start_ns[wait]), int(last_end[before - 1]))
        if unexplained > max(_HIDDEN_WORK_NS, run.busy_ns(nodes)):
            hiding.add(wait)
    if not hiding:
        return None
    text = (
        f"busy is a lower bound: {plural(len(hiding), 'wait')} after a graph launch outlasted every recorded kernel "
        "(probably repeated conditional nodes, which are recorded once)"
    )
    return Note("graph-lower-bound", text, len(hiding))


def _probably_graph(run: Run) -> Note | None:
    """Orphan kernels between a graph launch that has none and the next synchronize."""
    activities, host = run.activities, run.host
    orphans = np.flatnonzero(activities.launch == ROOT)
    inside = np.zeros(len(orphans), dtype=np.bool_)
    for call, wait in _waits_after_graphs(run) if len(orphans) else ():
        start = activities.start_ns[orphans]
        if not (activities.launch == call).any():
            inside |= (start >= host.start_ns[call]) & (start < host.end_ns[wait])
    count = int(inside.sum())
    if not count:
        return None
    text = (
        f"{plural(count, 'orphan')} probably from a graph launch that comes before and has no kernels: a guess by time"
    )
    return Note("probably-graph", text, count)


def _waits_after_graphs(run: Run) -> list[tuple[int, int]]:
    """Each graph launch with the next synchronize on its thread, as slices."""
    called = run.trace.columns.name[run.host.row]
    launches = np.flatnonzero(_named(run, called, "GraphLaunch"))
    waits = np.flatnonzero(_named(run, called, "Synchronize"))
    pairs = []
    for call, at in zip(launches.tolist(), np.searchsorted(waits, launches).tolist(), strict=True):
        if at < len(waits) and run.host.thread[waits[at]] == run.host.thread[call]:
            pairs.append((call, int(waits[at])))
    return pairs


def _named(run: Run, called: NDArray[np.int32], part: str) -> NDArray[np.bool_]:
    codes = [code for code, name in enumerate(run.trace.tables.name) if part in name]
    named: NDArray[np.bool_] = (run.host.kind == Kind.LAUNCH) & np.isin(called, codes)
    return named


NOTES: tuple[Callable[[Run], Note | None], ...] = (
    _nothing_recorded,
    _legacy,
    _torch_npu,
    _no_gpu,
    _merged_ranks,
    _odd_steps,
    _nested_steps,
    _one_step,
    _orphans,
    _probably_graph,
    _duplicate_ids,
    _clock_skew,
    _hidden_graph_work,
)
