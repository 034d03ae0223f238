"""Capture a target in several variants, or a script as it is."""

from __future__ import annotations

import contextlib
import runpy
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from foretrace.capture import accelerator, recording
from foretrace.capture.environment import Environment
from foretrace.capture.files import OutputFiles
from foretrace.capture.progress import Progress, silent
from foretrace.capture.schedule import Schedule
from foretrace.capture.session import Options, Session
from foretrace.capture.target import in_one_line
from foretrace.capture.variants import find_variant, require_compiler
from foretrace.errors import ForetraceError, InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from foretrace.capture.target import Script, Target, Workload
    from foretrace.capture.variants import Variant

_SEED = 0


@dataclass(frozen=True, slots=True)
class Captured:
    """What became of one capture.

    Attributes:
        variant: Its variant; ``None`` for a script.
        files: Where it was (to be) written.
        environment: What is known besides the trace; ``None`` when it failed.
        table: The profiler's own table, when it was asked for.
        error: Why it failed, with the cause as its ``__cause__``; ``None`` when it did not.
    """

    variant: str | None
    files: OutputFiles
    environment: Environment | None = None
    table: str | None = None
    error: ForetraceError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """The options of `capture_target` that every variant shares."""

    target: Target
    schedule: Schedule
    region: str
    scopes: bool
    grad: bool
    unprofiled: bool
    stacks: bool
    memory: bool
    table_rows: int | None


def capture_target(
    target: Target,
    *,
    variants: Sequence[str] = ("eager",),
    out: str | Path = "traces",
    name: str | None = None,
    region: str | None = None,
    schedule: Schedule | None = None,
    scopes: bool = True,
    grad: bool = False,
    unprofiled: bool = True,
    stacks: bool = False,
    memory: bool = False,
    table_rows: int | None = None,
    force: bool = False,
    progress: Progress = silent,
) -> tuple[Captured, ...]:
    """Profile ``target`` in each of ``variants``; files are called ``NAME_VARIANT``.

    Each variant has a workload of its own, built anew from the same random seed. One that fails does not cost the
    others; its `Captured` says why.

    Args:
        target: What to profile.
        variants: Names of variants.
        out: Directory for the files.
        name: Stem of the files; the factory's name unless given.
        region: Name of the scope around each step; ``name`` unless given.
        schedule: Steps to skip, to warm up in, to record; 1, 1 and 3 unless given.
        scopes: Name the modules in the trace, where the variant keeps them.
        grad: Let autograd record a module's forward. A callable that is no module is called as it is: it may be
            a whole training step.
        unprofiled: Time the step without the profiler first.
        stacks: Record Python stacks.
        memory: Record allocations.
        table_rows: Rows of the profiler's own table, if it is wanted.
        force: Replace files that exist.
        progress: Called with what is being done, how much is done, and how much there is.

    Raises:
        InputError: No such variant, a file that exists, or a factory that fails.
    """
    stem = name or target.name
    request = _Request(
        target=target,
        schedule=schedule or Schedule(),
        region=region or stem,
        scopes=scopes,
        grad=grad,
        unprofiled=unprofiled,
        stacks=stacks,
        memory=memory,
        table_rows=table_rows,
    )
    found = [find_variant(variant) for variant in dict.fromkeys(variants)]
    files = [OutputFiles(Path(out), f"{stem}_{variant.name}", force) for variant in found]
    for one in files:
        one.claim()
    return tuple(_capture(request, variant, one, progress) for variant, one in zip(found, files, strict=True))


def _capture(request: _Request, variant: Variant, files: OutputFiles, progress: Progress) -> Captured:
    torch.manual_seed(_SEED)
    workload = request.target.build()
    try:
        session = _run(request, variant, files, workload, progress)
        table = None if request.table_rows is None else session.table(request.table_rows)
    except ForetraceError as error:
        return Captured(variant.name, files, error=error)
    return Captured(variant.name, files, session.environment, table)


def _run(request: _Request, variant: Variant, files: OutputFiles, workload: Workload, progress: Progress) -> Session:
    device = accelerator.find_device(_owner(workload.call), workload.args, dict(workload.kwargs))
    if variant.compiles:
        require_compiler(device)
    is_module = isinstance(workload.call, torch.nn.Module)
    with _told_as(request.target, variant):
        call = variant.apply(workload)
    has_scopes = request.scopes and not variant.compiles
    options = Options(
        schedule=request.schedule,
        region=request.region,
        device=device,
        modules=_owner(call) if has_scopes else None,
        unprofiled=request.unprofiled,
        stacks=request.stacks,
        memory=request.memory,
        target=request.target.text,
        variant=variant.name,
        source=request.target.source,
        progress=lambda what, done, total: progress(f"{variant.name}: {what}", done, total),
    )
    with (
        torch.set_grad_enabled(request.grad or not is_module),
        Session(files, options) as session,
        _told_as(request.target, variant),
    ):
        for _ in session.steps():
            call(*workload.args, **workload.kwargs)
    return session


def _owner(call: Callable[..., object]) -> torch.nn.Module | None:
    """The module that is called: itself, or that of a method such as ``model.generate``."""
    owner = getattr(call, "__self__", call)
    return owner if isinstance(owner, torch.nn.Module) else None


@contextlib.contextmanager
def _told_as(target: Target, variant: Variant) -> Iterator[None]:
    """Whatever a user's code raises becomes an error that names it; other variants go on after that."""
    try:
        yield
    except ForetraceError:
        raise
    except Exception as error:
        message = f"`{target.text}` failed as `{variant.name}`: {in_one_line(error)}"
        alone = variant.name == "eager"
        hint = "call it by itself to see where" if alone else "see whether `--variants eager` runs"
        raise ForetraceError(message, hint=hint) from error


def capture_script(
    script: Script,
    *,
    out: str | Path = "traces",
    name: str | None = None,
    stacks: bool = False,
    memory: bool = False,
    table_rows: int | None = None,
    force: bool = False,
    progress: Progress = silent,
) -> Captured:
    """Run a script from beginning to end under the profiler: no schedule, no warm-up, nothing timed beside it.

    The script sees itself as ``__main__``, its own ``sys.argv``, and its directory first on ``sys.path``; leaving
    with ``sys.exit(0)`` is leaving in good order.

    Raises:
        InputError: A file exists, the script raises or exits with another status, or it runs no operator.
    """
    stem = name or script.path.stem
    files = OutputFiles(Path(out), stem, force)
    files.claim()
    device = accelerator.current_device()
    accelerator.reset_peak_memory(device)
    profiler = recording.new_profiler(None, stacks=stacks, memory=memory)
    progress(f"running {script.path.name}", 0, 0)
    with _as_main(script), profiler:
        _run_to_end(script)
        accelerator.synchronize(device)
    if not recording.has_operators(profiler, None):
        message = f"`{script.path}` ran no PyTorch operator in this process; nothing was written"
        raise InputError(message, hint="work in child processes is not seen: profile inside them")
    environment = Environment.collect(
        profiler,
        name=files.stem,
        device=device,
        source=script.path.resolve().parent,
        target=str(script.path),
        variant=None,
    )
    progress("writing the trace", 0, 0)
    files.write(profiler, environment.to_json())
    table = None if table_rows is None else recording.table(profiler, table_rows)
    return Captured(None, files, environment, table)


def _run_to_end(script: Script) -> None:
    hint = f"run `python {script.path}` by itself first"
    try:
        runpy.run_path(str(script.path), run_name="__main__")
    except SystemExit as end:
        if end.code not in (None, 0):
            message = f"`{script.path}` ended with exit status {end.code}; nothing was written"
            raise InputError(message, hint=hint) from end
    except Exception as error:
        message = f"`{script.path}` raised {in_one_line(error)}; nothing was written"
        raise InputError(message, hint=hint) from error


@contextlib.contextmanager
def _as_main(script: Script) -> Iterator[None]:
    argv, path = sys.argv, sys.path
    sys.argv = [str(script.path), *script.argv]
    sys.path = [str(script.path.resolve().parent), *path]
    try:
        yield
    finally:
        sys.argv, sys.path = argv, path
