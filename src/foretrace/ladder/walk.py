"""Walk the road: state the guess, get the trace, look, compare."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

from foretrace import stats
from foretrace.errors import ForetraceError
from foretrace.ladder import claims
from foretrace.ladder.facts import facts_of
from foretrace.ladder.rungs import chosen
from foretrace.report import ladder as report
from foretrace.run import read
from foretrace.units import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from foretrace.ladder.facts import Facts
    from foretrace.ladder.rungs import Rung
    from foretrace.run import Run


def walk_recorded(part: str = "all") -> report.Ladder:
    """Walk ``part`` of the road (``linear``, ``mlp`` or ``all``) over the traces shipped with foretrace."""
    folder = resources.files("foretrace.ladder") / "recorded"

    def trace(rung: Rung) -> Path:
        with resources.as_file(folder / rung.recorded) as path:
            return path

    rungs, runs = _walk(part, trace)
    device = next((run.device_name for run in runs if run.device_name), None) or "an unknown device"
    return report.Ladder(device, recorded=True, rungs=rungs, notes=("Recorded traces: nothing ran on this machine.",))


def walk_live(
    part: str,
    capture: Callable[[Rung], Path],
    *,
    device: str,
    notes: tuple[str, ...] = (),
) -> report.Ladder:
    """Walk ``part`` of the road with traces made on the spot.

    Args:
        part: ``linear``, ``mlp`` or ``all``.
        capture: Profiles a rung and returns its trace; a `ForetraceError` skips the rung with its reason.
        device: What it runs on, in words.
        notes: What a reader should know about this machine.
    """
    rungs, _ = _walk(part, capture)
    return report.Ladder(device, recorded=False, rungs=rungs, notes=notes)


def _walk(part: str, trace: Callable[[Rung], Path]) -> tuple[tuple[report.Rung, ...], list[Run]]:
    walked: dict[str, Facts] = {}
    runs: list[Run] = []
    rungs = []
    for rung in chosen(part):
        try:
            path = trace(rung)
        except ForetraceError as error:
            why = f"{error.message} ({error.hint})" if error.hint else error.message
            rungs.append(report.Rung(rung.name, rung.title, rung.setup, skipped=why))
            continue
        run = read(path)
        runs.append(run)
        facts = facts_of(run)
        rungs.append(_report(rung, run, facts, walked, str(path)))
        walked[rung.name] = facts
    return tuple(rungs), runs


def _report(rung: Rung, run: Run, facts: Facts, walked: Mapping[str, Facts], path: str) -> report.Rung:
    findings = [claim.against(facts, walked) for claim in rung.claims]
    before = walked.get(rung.since) if rung.since else None
    return report.Rung(
        name=rung.name,
        title=rung.title,
        setup=rung.setup,
        trace=path,
        guesses=tuple(report.Guess(f.claim, f.verdict, f.why) for f in findings),
        surprises=claims.surprises(facts),
        kernels=_kernels(run),
        on_gpu=_gpu_change(before, facts),
        on_cpu=_cpu_change(before, facts),
        kernels_per_step=stats.median(facts.per_step) if facts.on_gpu else None,
        gpu_ns=facts.gpu_ns,
        cpu_ns=facts.cpu_ns,
        first_call_ns=run.environment.first_call_ns if run.environment else None,
    )


def _kernels(run: Run) -> tuple[report.KernelRow, ...]:
    rows = []
    for kernel in run.kernels(run.steps[-1].activities).tolist():
        activity = run.activity(kernel)
        chain = activity.chain[1:] if activity.region else activity.chain
        rows.append(
            report.KernelRow(
                activity.identity.short, activity.op, activity.module, chain, activity.launch, activity.dur_ns
            )
        )
    return tuple(rows)


def _gpu_change(before: Facts | None, now: Facts) -> str:
    if not now.on_gpu:
        return "not visible on a CPU"
    if before is None:
        return plural(len(now.kernels), "kernel")
    old, new = [k.name for k in before.kernels], [k.name for k in now.kernels]
    added = [k for k in now.kernels if k.name not in old]
    removed = sum(name not in new for name in old)
    if not added and not removed:
        return "the same kernels"
    families = ", ".join(dict.fromkeys(k.identity.family for k in added))
    return f"{removed} → {len(added)} {families}, {len(new) - len(added)} same"


def _cpu_change(before: Facts | None, now: Facts) -> str:
    if before is None:
        return plural(now.ops.total(), "op")
    return f"−{(before.ops - now.ops).total()} +{(now.ops - before.ops).total()} ops"
