"""Is this overhead-, memory- or compute-bound? The regime of a step, from both sides.

The window from the first to the last GPU activity is split into what the GPU did: waited for the host, waited for other
ranks (collectives that nothing hides), or worked, by the bounds of the kernels that it ran. The largest part decides.
Profiling slows the host, so on a trace alone that is said of the profiled run; where the step was also timed without
the profiler, that time decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from foretrace import stats
from foretrace.readings import gaps
from foretrace.readings.base import Advice, Answer, Column, Reading
from foretrace.readings.carriers import of_class
from foretrace.readings.compiling import compiling
from foretrace.readings.costs import BOUNDS, costs
from foretrace.readings.counting import over_host_link
from foretrace.readings.groups import periods
from foretrace.readings.host import costly_cpu_op
from foretrace.readings.lines import a_period, period_count
from foretrace.readings.roofline import too_fast
from foretrace.run import Kind, Run
from foretrace.units import duration, percent

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

ASK = "Is this overhead-, memory- or compute-bound?"

PROFILER_SLOWDOWN = 2
"""Recording ops with their shapes makes the host at most about this much slower (1.9 to 2.2 times for steps of eight
small linear layers, PyTorch 2.13 on a CPU). A step whose GPU would still wait at half of the recorded time waits
without the profiler too."""
STACKS_SLOWDOWN = 4
"""With Python stacks as well (the same steps: 2.5 to 3.9 times forward, 4.0 to 5.8 with backward and AdamW)."""
MOST_STEPS = 20
MOST_GPUS = 4
NO_TIME = "the GPU events of this file take no time"
"""Why nothing can be said of a GPU's time."""

_COLUMNS = (
    Column("step", "step"),
    Column("verdict", "verdict"),
    Column("window_ns", "window µs", "ns"),
    Column("busy_ns", "busy µs", "ns"),
    Column("idle", "idle", "share"),
    Column("compute", "compute", "share"),
    Column("memory", "memory", "share"),
    Column("latency", "latency", "share"),
    Column("communication", "collectives", "share"),
    Column("unknown", "unknown", "share"),
)


@dataclass(frozen=True, slots=True)
class Shares:
    """A window of the device's time and what it went to; the parts add up to ``window_ns``.

    Attributes:
        window_ns: From the first start to the last end of an activity.
        idle_ns: Nothing ran.
        communication_ns: Only collectives ran.
        compute_ns, memory_ns, latency_ns: The rest, by the bounds of the kernels and copies that ran in it.
        host_copy_ns: Of the rest, copies over the host's link.
        unknown_ns: Of the rest, kernels whose bound is not known.
    """

    window_ns: float
    idle_ns: float
    communication_ns: float
    compute_ns: float
    memory_ns: float
    latency_ns: float
    host_copy_ns: float
    unknown_ns: float

    @property
    def busy_ns(self) -> float:
        """Time in which something ran."""
        return self.window_ns - self.idle_ns

    def verdict(self) -> str:
        """The regime's stable word: the largest part, where waiting and fixed costs count together."""
        parts = {
            "overhead-bound": self.idle_ns + self.latency_ns + self.host_copy_ns,
            "memory-bound": self.memory_ns,
            "compute-bound": self.compute_ns,
            "communication-bound": self.communication_ns,
            "unknown": self.unknown_ns,
        }
        return max(parts, key=lambda word: parts[word])

    def within(self, window_ns: float) -> Shares:
        """The same work in a window of another length; no shorter than the work."""
        window = max(window_ns, self.busy_ns)
        return Shares(
            window,
            window - self.busy_ns,
            self.communication_ns,
            self.compute_ns,
            self.memory_ns,
            self.latency_ns,
            self.host_copy_ns,
            self.unknown_ns,
        )


def shares(run: Run, activities: Ints, end_ns: int | None = None) -> Shares:
    """What the device's time went to from the first of ``activities`` to the last (or to ``end_ns``)."""
    times = run.activities
    start, end = times.start_ns[activities], times.end_ns[activities]
    last = int(end.max()) if end_ns is None else max(end_ns, int(end.max()))
    window = last - int(start.min())
    collective = of_class(run, "collective")[activities]
    busy, worked = run.busy_ns(activities), run.busy_ns(activities[~collective])
    lengths = (end - start)[~collective].astype(np.float64)
    every = costs(run)
    names = _parts(run, activities[~collective], every.bound[activities[~collective]])
    scale = worked / lengths.sum() if lengths.sum() else 0.0  # overlapping streams share the time
    part = {name: float(lengths[names == name].sum()) * scale for name in (*BOUNDS, "host-copy")}
    return Shares(
        window_ns=window,
        idle_ns=window - busy,
        communication_ns=busy - worked,
        compute_ns=part["compute"],
        memory_ns=part["memory"],
        latency_ns=part["latency"],
        host_copy_ns=part["host-copy"],
        unknown_ns=part["unknown"],
    )


def _parts(run: Run, activities: Ints, bound: Ints) -> NDArray[np.str_]:
    names = np.array(BOUNDS)[bound].astype("U16")
    names[(run.activities.kind[activities] == Kind.SET) & (names == "unknown")] = "latency"
    names[over_host_link(run)[activities] & (names == "unknown")] = "host-copy"
    return names


def answer(run: Run) -> Answer | None:
    """The regime of the run and of each step; ``None`` where no GPU activity was recorded."""
    every = periods(run)
    if not every:
        return None
    if len(run.gpus) > 1:
        return _each_gpu(run)
    whole = shares(run, _inside(run, np.concatenate(every)), run.until_ns)
    if not whole.busy_ns:
        return Answer("bound", ASK, f"Unknown: {NO_TIME}.", "unknown", (_row("all", whole, "unknown"),), _COLUMNS)
    rows = [_row("all", whole), *(_row(name, part) for name, part in _steps(run, every))]
    profiled = whole.verdict()
    bare_ns = run.environment.unprofiled.host_ns if run.environment else None
    if bare_ns is None:
        verdict, sentence = profiled, _profiled_only(run, whole, profiled)
    else:
        bare = _bare(run, bare_ns)
        verdict, sentence = bare.verdict(), _both(run, whole, profiled, bare)
        rows.insert(0, _row("bare", bare))
    return Answer("bound", ASK, sentence, verdict, tuple(rows), _COLUMNS, _advice(run, whole, bare_ns, verdict))


def _each_gpu(run: Run) -> Answer:
    """Several GPUs in one file: each has its own time, and waits while another works."""
    device = run.activities.device
    parts = {gpu: shares(run, np.flatnonzero(device == gpu)) for gpu in run.gpus}
    rows = tuple(_row(f"GPU {gpu}", part) for gpu, part in parts.items())
    told = [
        f"GPU {gpu} is {part.verdict()}, busy {duration(part.busy_ns)} of {duration(part.window_ns)} "
        f"(idle {percent(part.idle_ns, part.window_ns)})"
        for gpu, part in list(parts.items())[:MOST_GPUS]
    ]
    verdicts = {part.verdict() for part in parts.values()}
    more = f"; and {len(parts) - len(told)} more" if len(parts) > len(told) else ""
    text = f"This file holds {len(parts)} GPUs, counted apart while profiled: {'; '.join(told)}{more}."
    return Answer("bound", ASK, text, verdicts.pop() if len(verdicts) == 1 else "unknown", rows, _COLUMNS)


def _inside(run: Run, activities: Ints) -> Ints:
    """Everything that starts between the first and the last of ``activities``, launched in a step or not."""
    start, end = run.activities.start_ns, run.activities.end_ns
    found: Ints = np.flatnonzero((start >= start[activities].min()) & (start < end[activities].max()))
    return found


def _steps(run: Run, every: tuple[Ints, ...]) -> list[tuple[str, Shares]]:
    """Each step from its first activity to the next step's first."""
    named = [step.name for step in run.steps if len(step.activities)]
    if not named:
        return []
    begins = [int(run.activities.start_ns[period].min()) for period in every]
    ends: list[int | None] = [*begins[1:], run.until_ns]
    zipped = list(zip(named, every, ends, strict=True))[:MOST_STEPS]
    return [(name, shares(run, period, end)) for name, period, end in zipped]


def _bare(run: Run, host_ns: int) -> Shares:
    """One step's work in the time that it takes without the profiler."""
    every = periods(run)
    middle = sorted(every, key=run.busy_ns)[len(every) // 2]
    return shares(run, middle).within(host_ns)


def _profiled_only(run: Run, whole: Shares, verdict: str) -> str:
    head = f"{verdict.capitalize()} while profiled: {_why(run, whole, verdict)}."
    own = "" if compiling(run).dominates else _own_bounds(whole)
    return " ".join(part for part in (head, own, _doubt(run, whole, verdict), too_fast(run).strip()) if part)


def _both(run: Run, whole: Shares, profiled: str, bare: Shares) -> str:
    too = " too" if profiled == bare.verdict() else ""
    return (
        f"{bare.verdict().capitalize()} without the profiler: {duration(bare.window_ns)} a call measured bare, "
        f"{duration(bare.busy_ns)} of it GPU work. While profiled it is {profiled}{too}: {_why(run, whole, profiled)}. "
        f"{_own_bounds(whole)}"
    ).rstrip()


def _why(run: Run, whole: Shares, verdict: str) -> str:
    """The numbers that decide."""
    steps, per = period_count(run), a_period(run)
    if per == "a step" and steps == 1:  # what came before the first launch is not in the window
        last = "its last" if run.until_ns is None else "the next step's"
        per = f"from this step's first GPU event to {last}"
    busy = f"the GPU works {duration(whole.busy_ns / steps)} of {duration(whole.window_ns / steps)} {per}"
    idle = f"idle {percent(whole.idle_ns, whole.window_ns)}"
    if verdict == "overhead-bound" and compiling(run).dominates:
        return f"{busy} ({idle}) and waits for the compiler, not for the size of the batch"
    if verdict == "overhead-bound" and whole.idle_ns >= max(whole.latency_ns, whole.host_copy_ns):
        return f"{busy} and waits {_for_what(run, idle)}"
    if verdict == "overhead-bound":
        copies = whole.host_copy_ns > whole.latency_ns
        what = "copies over the host's link" if copies else "latency-bound kernels (too small to fill the device)"
        most = percent(max(whole.host_copy_ns, whole.latency_ns), whole.window_ns)
        return f"{busy}, and {what} are {most} of the time ({idle})"
    if verdict == "communication-bound":
        exposed = f"{percent(whole.communication_ns, whole.window_ns)} of the time only collectives run"
        return f"{busy} ({idle}), and {exposed}, hidden by no other work"
    if verdict == "unknown":
        return f"{busy} ({idle}), and what its kernels are bound by is not known ({_missing(run)})"
    word = verdict.removesuffix("-bound")
    part = whole.compute_ns if word == "compute" else whole.memory_ns
    return f"{busy} ({idle}), and {word}-bound kernels are {percent(part, whole.window_ns)} of the time"


def _for_what(run: Run, idle: str) -> str:
    if not run.knows_launches:
        return f"in between ({idle}); for what is unknown, as no launch is in the file"
    blocker = cpu_work(run)
    doing = f", which spends {percent(blocker[1], blocker[2])} of the steps in {blocker[0]}" if blocker else ""
    return f"for the host in between ({idle}){doing}"


def cpu_work(run: Run) -> tuple[str, int, int] | None:
    """The op that keeps the host from launching: (name, nanoseconds, of nanoseconds of steps).

    It launches nothing itself and takes more than a third of the steps; ``None`` where there is no such op.
    """
    steps_ns = sum(step.dur_ns for step in run.steps)
    costly = costly_cpu_op(run)
    return (*costly, steps_ns) if costly and 3 * costly[1] > steps_ns > 0 else None


def _missing(run: Run) -> str:
    device, every = run.device, np.concatenate(periods(run))
    if device is None:
        return f"no ceilings for {run.device_name or 'this device'}"
    work = costs(run)
    hidden = every[work.bound[every] == BOUNDS.index("unknown")]
    if (work.moved_bytes[hidden] >= 0).any() and not (device.memory_bytes_per_s and device.peak_flops):
        lacking = "bandwidth" if not device.memory_bytes_per_s else "peak FLOP/s"
        return f"no {lacking} is known for {device.name}"
    recorded = any(run.op_argument(int(op), "dims") is not None for op in np.unique(run.activities.op[hidden]))
    return "the work of their ops is not known" if recorded else "no shapes in the trace"


def _own_bounds(whole: Shares) -> str:
    """What the GPU's work is bound by, as shares of the time in which something ran."""
    parts = {
        "compute-bound": whole.compute_ns,
        "memory-bound": whole.memory_ns,
        "latency-bound": whole.latency_ns,
        "copies over the host's link": whole.host_copy_ns,
        "exposed collectives": whole.communication_ns,
        "of unknown bound": whole.unknown_ns,
    }
    told = [f"{percent(ns, whole.busy_ns)} {word}" for word, ns in parts.items() if ns > whole.busy_ns / 200]
    known = whole.unknown_ns < whole.busy_ns
    return f"The GPU's work alone is {', '.join(told)}." if told and known else ""


def _doubt(run: Run, whole: Shares, verdict: str) -> str:
    """Whether the verdict can be the profiler's own doing."""
    if verdict != "overhead-bound" or compiling(run).dominates or _waits_even_bare(run, whole):
        return ""
    work = duration(whole.busy_ns / period_count(run))
    stacks = "Python stacks were recorded, which slow the host the most. " if _with_stacks(run) else ""
    return (
        f"{stacks}Without the profiler it may not be overhead-bound: {work} of GPU work is close to what the host may "
        "need then. Time it bare to know (foretrace profile does)."
    )


def _waits_even_bare(run: Run, whole: Shares) -> bool:
    return whole.busy_ns < _window_without_profiler(run, whole)


def _window_without_profiler(run: Run, whole: Shares) -> float:
    """The least that the recorded window takes without the profiler; what it does not see it does not slow."""
    unseen = _unseen_ns(run)
    return unseen + (whole.window_ns - unseen) / (STACKS_SLOWDOWN if _with_stacks(run) else PROFILER_SLOWDOWN)


@lru_cache(maxsize=2)
def _unseen_ns(run: Run) -> int:
    """How long the GPU waits for a host that records nothing, from the first activity of the steps to the last."""
    every = np.concatenate(periods(run))
    return gaps.unseen_ns(run, int(run.activities.start_ns[every].min()), int(run.activities.end_ns[every].max()))


def _with_stacks(run: Run) -> bool:
    return bool(run.trace.metadata.get("with_stack")) or bool((run.host.kind == Kind.PYTHON).any())


def _advice(run: Run, whole: Shares, bare_ns: int | None, verdict: str) -> Advice | None:
    """Hidden collectives; or fewer launches (fuller ones, where graphs launch already), where the GPU waits."""
    steps = period_count(run)
    if verdict == "communication-bound":
        return Advice(
            "Hide the collectives behind compute (overlap, larger or earlier buckets), and read the other ranks' "
            "traces for the one that arrives late: their time includes waiting for it.",
            round(whole.communication_ns / steps),
        )
    if verdict != "overhead-bound" or compiling(run).dominates or whole.idle_ns < whole.latency_ns:
        return None
    if bare_ns is None and not (run.knows_launches and _waits_even_bare(run, whole)):
        return None
    if cpu_work(run) is not None:
        return None
    window = bare_ns if bare_ns is not None else _window_without_profiler(run, whole) / steps
    unseen = _unseen_ns(run) / steps
    busy = stats.median([float(run.busy_ns(period)) for period in periods(run)]) or 0.0
    if run.activities.in_graph.any():
        return Advice("Give each graph launch more to do: more rows a step, or more of the step in one graph.")
    graphs = "CUDA graphs (torch.compile(mode='reduce-overhead')) put a step into one launch"
    fewer = graphs if run.captures_graphs else "torch.compile fuses kernels"
    return Advice(
        f"Launch less from Python: {fewer}, and more rows a step fill each launch.{_how_counted(run, bare_ns, unseen)}",
        saves_ns=round(max(window - busy - unseen, 0.0)) or None,
        waiting=True,
    )


def _how_counted(run: Run, bare_ns: int | None, unseen: float) -> str:
    """`` Counted in half of the recorded time, as profiling slows the host.``."""
    if bare_ns is not None:
        return ""
    part, what = ("a quarter", "recording Python stacks") if _with_stacks(run) else ("half", "profiling")
    less = f" that is left without the {duration(unseen)} {a_period(run)} in which it records nothing" if unseen else ""
    return f" Counted in {part} of the recorded time{less}, as {what} slows the host."


def _row(step: str, part: Shares, verdict: str | None = None) -> dict[str, Any]:
    window = part.window_ns or 1.0
    return {
        "step": step,
        "verdict": verdict or part.verdict(),
        "window_ns": round(part.window_ns),
        "busy_ns": round(part.busy_ns),
        "idle": part.idle_ns / window,
        "compute": part.compute_ns / window,
        "memory": part.memory_ns / window,
        "latency": part.latency_ns / window,
        "host_copies": part.host_copy_ns / window,
        "communication": part.communication_ns / window,
        "unknown": part.unknown_ns / window,
    }


READING = Reading("bound", ASK, answer)
