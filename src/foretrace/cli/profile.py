"""``foretrace profile``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from foretrace.cli.hub_job import HERE, Where, profile_on_hub
from foretrace.cli.output import STDOUT, Output
from foretrace.cli.progress import working
from foretrace.errors import ForetraceError, InputError
from foretrace.report.profile import document, profile_record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foretrace.capture import Captured


def profile(
    target: str,
    *arguments: Annotated[str, Parameter(allow_leading_hyphen=True)],
    variants: Annotated[str, Parameter(name="--variants")] = "eager",
    region: str | None = None,
    wait: int = 1,
    warmup: int = 1,
    active: int = 3,
    traces: Annotated[Path, Parameter(name="--out")] = Path("traces"),
    where: Where = HERE,
    grad: bool = False,
    stacks: bool = False,
    memory: bool = False,
    no_scopes: bool = False,
    table: bool = False,
    out: Output = STDOUT,
) -> int:
    """Profile a module in one or several variants, or a script as it is.

    TARGET is `path/to/file.py:factory` or `package.module:factory`; the factory returns the module (or any callable)
    and its arguments, `(module, (x,))`. What follows `--` are the factory's keyword arguments: `-- --dim 768`. A file
    without a factory is run as a script, and what follows `--` are its arguments.

    Each variant gets a trace and, beside it, a NAME.env.json with what it ran on and how long a step takes without the
    profiler.

    Args:
        target: What to profile.
        arguments: Arguments of the factory or script, after `--`.
        variants: Comma-separated: `eager`, `compile`, `compile:max-autotune`, `compile:reduce-overhead`,
            `compile:dynamic`, or a name registered by the target's file.
        region: Name of the scope around each step; the factory's name unless given.
        wait: Steps that the profiler skips.
        warmup: Steps in which it runs and forgets.
        active: Steps that it records.
        traces: Folder for the traces.
        where: Where to profile.
        grad: Let autograd record a module's forward.
        stacks: Record Python stacks: slow, and large files.
        memory: Record allocations.
        no_scopes: Do not name the modules in the trace (each name costs about 10 µs of CPU per call).
        table: Print the profiler's own table too.
        out: How and where to show the report.
    """
    out.check()
    if where.where == "hf-jobs":
        flags = {"grad": grad, "stacks": stacks, "memory": memory, "no-scopes": no_scopes, "table": table}
        asked = ["--variants", variants, "--wait", str(wait), "--warmup", str(warmup), "--active", str(active)]
        asked += [f"--{flag}" for flag, on in flags.items() if on]
        asked += [*(["--region", region] if region is not None else []), *(["--", *arguments] if arguments else [])]
        return _emit(profile_on_hub(target, asked, where, traces, force=out.force), out)
    from foretrace import capture  # noqa: PLC0415 - imports torch

    found = capture.parse_target(target, list(arguments))
    rows = 20 if table else None
    captured: Sequence[Captured]
    with working() as progress:
        if isinstance(found, capture.Script):
            captured = (
                capture.capture_script(
                    found,
                    out=traces,
                    stacks=stacks,
                    memory=memory,
                    table_rows=rows,
                    force=out.force,
                    progress=progress,
                ),
            )
        else:
            names = _variants(variants)
            captured = capture.capture_target(
                found,
                variants=names,
                compare=len(names) > 1,
                out=traces,
                region=region,
                schedule=capture.Schedule(wait, warmup, active),
                scopes=not no_scopes,
                grad=grad,
                stacks=stacks,
                memory=memory,
                table_rows=rows,
                force=out.force,
                progress=progress,
            )
    return _report(captured, out)


def _variants(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise InputError("no variant was named", hint="--variants eager,compile")
    return names


def _report(captured: Sequence[Captured], out: Output) -> int:
    failed = [one.error for one in captured if one.error is not None]
    if len(failed) == len(captured):
        raise failed[0]
    for one in captured:
        if one.table is not None:
            sys.stdout.write(f"{one.variant or 'script'}\n{one.table}\n\n")
    return _emit([(one.variant or "script", str(one.files.trace), _said(one.error)) for one in captured], out)


def _emit(variants: Sequence[tuple[str, str, str | None]], out: Output) -> int:
    record = profile_record(variants)
    out.emit(lambda: document(record), record.to_json)
    return int(any(failed is not None for _, _, failed in variants))


def _said(error: ForetraceError | None) -> str | None:
    if error is None:
        return None
    return f"{error.message} ({error.hint})" if error.hint else error.message
