"""Capture a target in several variants, each with modules of its own."""

from __future__ import annotations

import contextlib
import gc
import traceback
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from foretrace.capture import accelerator, compile_messages, new_shapes, numerics
from foretrace.capture.captured import Captured
from foretrace.capture.files import OutputFiles
from foretrace.capture.progress import Progress, silent
from foretrace.capture.schedule import Schedule
from foretrace.capture.session import Options, Session
from foretrace.capture.target import in_one_line
from foretrace.capture.variants import find_variant, forget_compiled_code, require_compiler
from foretrace.errors import ForetraceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from foretrace.capture.target import Target, Workload
    from foretrace.capture.variants import Variant

_SEED = 0


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
    compare: bool


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
    compare: bool = False,
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
        compare: Afterwards compare each variant's results with eager in fp32, and run it at two other shapes.
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
        compare=compare,
    )
    found = [find_variant(variant) for variant in dict.fromkeys(variants)]
    files = claim_files(stem, [variant.name for variant in found], out, force=force)
    expected = _reference(request) if compare else None
    return tuple(_capture(request, variant, one, expected, progress) for variant, one in zip(found, files, strict=True))


def claim_files(stem: str, variants: Sequence[str], out: str | Path, *, force: bool) -> list[OutputFiles]:
    """The files of each variant's capture, seen to be free to write.

    Raises:
        InputError: One is there already and may not be replaced, or their directory cannot be made.
    """
    files = [OutputFiles(Path(out), f"{stem}_{variant}", force) for variant in variants]
    for one in files:
        one.claim()
    return files


def records_grad(workload: Workload, *, grad: bool) -> bool:
    """Whether autograd looks on: where it is asked to, and at any callable that is no module, which may train."""
    return grad or not isinstance(workload.call, torch.nn.Module)


def _reference(request: _Request) -> tuple[torch.Tensor, ...] | None:
    with torch.set_grad_enabled(request.grad):
        return numerics.reference(_workload(request))


def _workload(request: _Request) -> Workload:
    """A workload of its own, always from the same seed."""
    gc.collect()
    torch.manual_seed(_SEED)
    return request.target.build()


def _capture(
    request: _Request,
    variant: Variant,
    files: OutputFiles,
    expected: tuple[torch.Tensor, ...] | None,
    progress: Progress,
) -> Captured:
    forget_compiled_code()
    workload = _workload(request)
    try:
        session = _run(request, variant, files, workload, expected, progress)
    except ForetraceError as error:
        return _failed(variant, files, error)
    table = None if request.table_rows is None else session.table(request.table_rows)
    return Captured(variant.name, files, session.environment, table)


def _failed(variant: Variant, files: OutputFiles, error: ForetraceError) -> Captured:
    """The failure with its traceback as text: a live one holds tensors, and the next variant needs their room."""
    text = "".join(traceback.format_exception(error))
    one: BaseException | None = error
    while one is not None:
        one.__traceback__ = None
        one = one.__context__
    return Captured(variant.name, files, error=error, traceback=text)


def _run(
    request: _Request,
    variant: Variant,
    files: OutputFiles,
    workload: Workload,
    expected: tuple[torch.Tensor, ...] | None,
    progress: Progress,
) -> Session:
    device = accelerator.find_device(_owner(workload.call), workload.args, dict(workload.kwargs))
    if variant.compiles:
        require_compiler(device)
    grad = records_grad(workload, grad=request.grad)
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
    with torch.set_grad_enabled(grad):
        with (
            compile_messages.collected() as said,
            Session(files, options) as session,
            _told_as(request.target, variant),
        ):
            for _ in session.steps():
                call(*workload.args, **workload.kwargs)
        files.write_compile_log(said)
        if request.compare:
            options.progress("comparing", 0, 0)
            _compare(session, workload, call, expected, device)
    return session


def _compare(
    session: Session,
    workload: Workload,
    call: Callable[..., object],
    expected: tuple[torch.Tensor, ...] | None,
    device: torch.device,
) -> None:
    """Add to the environment what is only measured when variants are compared."""
    assert session.environment is not None, "a session that ended well has written one"
    found = None
    if expected is not None:
        found = numerics.errors(numerics.results(call, workload.args, dict(workload.kwargs)), expected)
    shapes = new_shapes.measure(workload, call, partial(accelerator.synchronize, device))
    session.environment = replace(session.environment, numerics=found, new_shapes=shapes)
    session.files.amend(session.environment.to_json())


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
    except (Exception, SystemExit) as error:
        message = f"`{target.text}` failed as `{variant.name}`: {in_one_line(error)}"
        alone = variant.name == "eager"
        hint = "call it by itself to see where" if alone else "see whether `--variants eager` runs"
        raise ForetraceError(message, hint=hint) from error
