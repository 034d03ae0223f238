"""What did torch.compile add and remove, as far as one trace shows it."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from foretrace import stats
from foretrace.readings.autotuning import benchmarked
from foretrace.readings.base import Advice, Answer, Column, Reading
from foretrace.readings.compiling import compiling
from foretrace.readings.graph_work import static_copies
from foretrace.readings.groups import busy_in_periods_ns, groups, kernels_of_periods
from foretrace.readings.host import a_step, events, lengths, per_step, step_count, step_of
from foretrace.readings.lines import event
from foretrace.run import Kind, Run
from foretrace.run.recorded import extent
from foretrace.units import duration, percent, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from foretrace.readings.groups import Group

    Ints = NDArray[np.int64]

ASK = "What did torch.compile add and remove?"

_REGION = re.compile(r"Torch-Compiled Region(?:: (?P<frame>\d+)/(?P<version>\d+))?")
_REGIONS = "Torch-Compiled Region"
# PyTorch's own names of what a compiled call does on the host before its first kernel
_ADDED = {
    "TorchDynamo Cache Lookup": "Dynamo cache lookup (checks the guards)",
    "Pregraph bytecode": "pregraph bytecode (Python before the graph)",
    "AOTDispatcher Runtime Wrapper Prologue": "AOTDispatcher prologue (prepares inputs)",
}

_COLUMNS = (
    Column("what", "what"),
    Column("detail", "detail"),
    Column("count", "a step", "count"),
    Column("cpu_ns", "CPU µs", "ns"),
    Column("gpu_ns", "GPU µs", "ns"),
)


@dataclass(frozen=True, slots=True)
class _Fused:
    """One generated kernel and whether its name's ops were all done in it."""

    group: Group
    template: bool


def answer(run: Run) -> Answer | None:
    """What compiled code does in this trace; ``None`` where nothing in it was compiled."""
    regions = _named(run, _REGIONS)
    fused = _fused(run)
    seen = compiling(run)
    if not len(regions) and not fused and not seen.compiles:
        return None
    rows = [*_compile_rows(run), *_added_rows(run), *_region_rows(run, regions), *_fused_rows(run, fused)]
    static = _static_copies(run)
    rows += _static_rows(run, static)
    parts = [*_compile_words(run, regions), *_fused_words(run, fused), *_added_words(run, regions)]
    parts += _static_words(run, static)
    verdict = "recompiling" if seen.dominates else "compiled"
    sentence = ". ".join(f"{part[0].upper()}{part[1:]}" for part in parts)
    return Answer("compiled", ASK, f"{sentence}.", verdict, tuple(rows), _COLUMNS, _advice(run, regions, static))


def _named(run: Run, prefix: str) -> Ints:
    """Operator slices whose name starts with ``prefix``, in order of time."""
    codes = [code for code, name in enumerate(run.trace.tables.name) if name.startswith(prefix)]
    wanted = np.isin(run.trace.columns.name[run.host.row], codes) & (run.host.kind == Kind.OPERATOR)
    found = np.flatnonzero(wanted)
    ordered: Ints = found[np.argsort(run.host.start_ns[found], kind="stable")]
    return ordered


def _fused(run: Run) -> list[_Fused]:
    trials = benchmarked(run)
    own = [g for g in groups(run) if g.identity.family == "inductor" and not trials[g.activities[0]]]
    return [_Fused(group, group.name.startswith("triton_tem_")) for group in own]


# compilation inside the trace


def _recompiled(run: Run, regions: Ints) -> bool:
    """Whether what was compiled had been compiled before: the regions' ids count their versions from 0."""
    matches = [_REGION.match(run.name(int(region))) for region in regions]
    versions = [int(m["version"]) for m in matches if m and m["version"]]
    return bool(versions) and min(versions) > 0


def _compile_words(run: Run, regions: Ints) -> Iterator[str]:
    seen = compiling(run)
    if not seen.compiles:
        return
    noun = "recompile" if _recompiled(run, regions) else "compilation"
    times = " / ".join(f"{ns / 1e6:,.1f}" for ns in seen.compile_ns[:6])
    more = " / …" if len(seen.compile_ns) > 6 else ""  # noqa: PLR2004 - as many as the slice above
    share = percent(sum(seen.compile_ns), seen.steps_ns)
    where = "the steps" if run.steps else "the trace"
    tuning = f", autotuning beside them another {percent(sum(seen.tuning_ns), seen.steps_ns)}" if seen.tunings else ""
    yield f"{plural(len(seen.compiles), noun)} of {times}{more} ms take {share} of {where}{tuning}"
    tried = [int(benchmarked(run)[kernels].sum()) for kernels in kernels_of_periods(run)]
    if any(tried):
        every = [len(kernels) for kernels in kernels_of_periods(run)]
        yield (
            f"{_listed(tried)} of the {_listed(every)} kernels {a_step(run)} are the autotuner's, "
            "which times its candidates"
        )


def _listed(counts: Sequence[int]) -> str:
    if len(counts) > 6:  # noqa: PLR2004 - more than a reader takes in
        return f"{min(counts):,} to {max(counts):,}"
    return " / ".join(f"{count:,}" for count in counts)


def _compile_rows(run: Run) -> Iterator[dict[str, Any]]:
    seen = compiling(run)
    for what, slices, spent in (
        ("compilation", seen.compiles, seen.compile_ns),
        ("autotuning", seen.tunings, seen.tuning_ns),
    ):
        for slice_, ns in zip(slices, spent, strict=True):
            yield {
                "what": what,
                "detail": run.name(slice_),
                "cpu_ns": ns,
                "step": int(step_of(run)[slice_]),
                "event": events(run, np.array([slice_]))[0],
            }


# host work that compiled code adds


def _added_rows(run: Run) -> Iterator[dict[str, Any]]:
    for name, words in _ADDED.items():
        slices = _named(run, name)
        if len(slices):
            yield {
                "what": "added on the host",
                "detail": words,
                "count": per_step(run, slices),
                "cpu_ns": round(per_step(run, slices, lengths(run, slices))),
                "event": events(run, slices[:1])[0],
            }


def _added_words(run: Run, regions: Ints) -> Iterator[str]:
    rows = list(_added_rows(run))
    if rows:
        told = ", ".join(f"{row['detail']} {duration(row['cpu_ns'])}" for row in rows)
        yield f"compiled calls add on the host, {a_step(run)}: {told}"
    frames = _frames(run, regions)
    if frames > 1:
        breaks = plural(frames - 1, "graph break")
        yield f"{frames} compiled regions {a_step(run)}: {breaks}, or functions compiled apart"


def _frames(run: Run, regions: Ints) -> int:
    """Compiled code objects a step: the first number of the region's id."""
    per: dict[int, set[str]] = {}
    for region in regions.tolist():
        match = _REGION.match(run.name(region))
        per.setdefault(int(step_of(run)[region]), set()).add(match["frame"] or "" if match else "")
    inside = [len(frames) for step, frames in per.items() if step >= 0 or not run.steps]
    return round(stats.median(inside) or 0)


def _region_rows(run: Run, regions: Ints) -> Iterator[dict[str, Any]]:
    names = run.trace.columns.name[run.host.row[regions]]
    for code in dict.fromkeys(names.tolist()):
        some = regions[names == code]
        yield {
            "what": "compiled region",
            "detail": run.trace.tables.name[code],
            "count": len(some) / step_count(run),
            "cpu_ns": round(int(lengths(run, some).sum()) / len(some)),
            "event": events(run, some[:1])[0],
        }


# kernels


def _fused_words(run: Run, fused: Sequence[_Fused]) -> Iterator[str]:
    plain = [f for f in fused if not f.template]
    by_name = {f.group.name: f for f in plain}
    if by_name:
        told = [f"{name} ({_ops(f.group)})" for name, f in list(by_name.items())[:3]]
        more = f" and {len(by_name) - 3} more" if len(by_name) > 3 else ""  # noqa: PLR2004 - as told above
        yield f"fused kernels and the ops inside: {'; '.join(told)}{more}"
    templates = [f for f in fused if f.template]
    if templates:
        names = ", ".join(dict.fromkeys(f.group.name for f in templates))
        yield f"GEMMs from Triton templates: {names}; a template's name lists origins that may have run elsewhere"
    extern = [g for g in groups(run) if g.identity.op_class == "gemm" and g.identity.family != "inductor"]
    kept = [g for g in extern if _in_region(run, g)]
    if kept:
        count = round(sum(len(g.activities) for g in kept) / step_count(run)) or 1
        nothing = "" if fused else "nothing was fused, "
        yield f"{nothing}{plural(count, 'GEMM')} {a_step(run)} left to the library as before"


def _ops(group: Group) -> str:
    """The ops of a fused kernel's name, views left out."""
    ops = [op for op in group.identity.fused_ops or () if op not in ("view", "_unsafe_view", "t", "permute", "clone")]
    return ", ".join(ops or group.identity.fused_ops or ("ops not named",))


def _in_region(run: Run, group: Group) -> bool:
    op = int(run.activities.op[group.activities[0]])
    return any(run.name(slice_).startswith((_REGIONS, "CompiledFunction")) for slice_ in run.ancestors(op))


def _fused_rows(run: Run, fused: Sequence[_Fused]) -> Iterator[dict[str, Any]]:
    for one in fused:
        yield {
            "what": "template kernel" if one.template else "fused kernel",
            "detail": f"{one.group.identity.short}: {_ops(one.group)}{_launched(run, one.group)}",
            "kernel": one.group.name,
            "ops": list(one.group.identity.fused_ops or ()),
            "ops_certain": not one.template,
            "grid": _launch_list(run, one.group, "grid"),
            "block": _launch_list(run, one.group, "block"),
            "count": len(one.group.activities) / step_count(run),
            "gpu_ns": round(one.group.mean_ns),
            "event": event(run, one.group.activities[0]),
        }


def _launch_list(run: Run, group: Group, which: Literal["grid", "block"]) -> list[int] | None:
    """The grid or the block of a group's kernels; ``None`` where it is not recorded or not always the same."""
    columns = run.trace.columns
    codes = np.unique((columns.grid if which == "grid" else columns.block)[run.activities.row[list(group.activities)]])
    return extent(run.trace.tables.decoded(int(codes[0]))) if len(codes) == 1 else None


def _launched(run: Run, group: Group) -> str:
    """``, 24,576 blocks of 128 threads``: an autotuner may choose otherwise in another run of the same kernel."""
    grid, block = (_launch_list(run, group, which) for which in ("grid", "block"))
    if not grid or not block:
        return ""
    return f"; {plural(math.prod(grid), 'block')} of {plural(math.prod(block), 'thread')}"


# inputs of a CUDA graph


def _static_copies(run: Run) -> Ints:
    """Copies into the fixed addresses of a graph's inputs, launched by the call that launched the graph."""
    found: Ints = np.flatnonzero(np.isin(run.activities.op, static_copies(run)) & ~run.activities.in_graph)
    return found


def _static_ns(run: Run, static: Ints) -> int:
    return int((run.activities.end_ns - run.activities.start_ns)[static].sum())


def _static_words(run: Run, static: Ints) -> Iterator[str]:
    if len(static):
        spent = _static_ns(run, static)
        yield (
            f"each replay first copies its inputs to the graph's fixed addresses: {duration(spent / step_count(run))} "
            f"{a_step(run)}, {percent(spent, busy_in_periods_ns(run))} of GPU busy"
        )


def _static_rows(run: Run, static: Ints) -> list[dict[str, Any]]:
    if not len(static):
        return []
    return [
        {
            "what": "static-input copy",
            "detail": run.identity(int(static[0])).short,
            "count": len(static) / step_count(run),
            "gpu_ns": round(_static_ns(run, static) / step_count(run)),
            "event": event(run, int(static[0])),
        }
    ]


def _advice(run: Run, regions: Ints, static: Ints) -> Advice | None:
    seen = compiling(run)
    if seen.compiles and _recompiled(run, regions):
        saves = (sum(seen.compile_ns) + sum(seen.tuning_ns)) // step_count(run)
        return Advice(
            "Stop recompiling: mark the size that changes as dynamic (torch._dynamo.mark_dynamic, or compile with "
            "dynamic=True), or pad inputs to a few sizes; TORCH_LOGS=recompiles names the guard that failed.",
            saves,
            waiting=True,
        )
    if seen.dominates:
        return Advice("Warm up before profiling: compilation is inside the recorded steps.", None)
    if len(static):
        return Advice(
            "Write the next input straight into the graph's static buffer (or keep the input tensor and mark it with "
            "torch._dynamo.mark_static_address), and the copy before each replay goes away.",
            _static_ns(run, static) // step_count(run),
        )
    return None


READING = Reading("compiled", ASK, answer)
