"""``foretrace check``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path  # noqa: TC003 - cyclopts reads the annotation when it runs
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from foretrace.cli.guess import of_target
from foretrace.cli.load import load
from foretrace.cli.output import STDOUT, Output
from foretrace.errors import InputError
from foretrace.report.check import check_document, to_junit
from foretrace.report.page import page_of
from foretrace.verdict import check as hold
from foretrace.verdict import check_words, parse_words, read_guess
from foretrace.verdict.observed import observe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foretrace.run import Run
    from foretrace.verdict import Checked


def check(
    trace: str,
    *arguments: Annotated[str, Parameter(allow_leading_hyphen=True)],
    guess: Path | None = None,
    target: str | None = None,
    expect: str | None = None,
    variant: Literal["eager", "compile"] | None = None,
    on: str | None = None,
    grad: bool = False,
    exact: bool = False,
    junit: Path | None = None,
    out: Output = STDOUT,
) -> int:
    """Hold a guess against a trace: which kernels were confirmed, which broke, what ran unexpected.

    The guess is a file of `guess --write`, made here from a target, or given in words. Exits with 1 when it is broken.

    Args:
        trace: The trace, as for `read`.
        arguments: Arguments of the target's factory, after `--`.
        guess: A file of `guess --write`.
        target: Guess at this target first, about the trace's own device.
        expect: Count classes of kernels: `--expect "3 gemm, 2 pointwise"`.
        variant: For a target: eager or compile; what the trace shows unless given.
        on: For a target: another device than the trace's.
        grad: For a target: let autograd record a module's forward.
        exact: A kernel that was not guessed breaks the guess.
        junit: Write the rows to this file as JUnit test cases.
        out: How and where to show it.
    """
    out.check()
    if sum(way is not None for way in (guess, target, expect)) != 1:
        raise InputError("give one of `--guess`, `--target` and `--expect`", hint="`foretrace check --help` shows them")
    if arguments and target is None:
        raise InputError(f"`{arguments[0]}` is no option", hint="only a `--target` takes arguments, after `--`")
    if junit is not None and junit.exists() and not out.force:
        raise InputError(f"`{junit}` is already there", hint="give another name, or `--force` to overwrite it")
    words = parse_words(expect) if expect is not None else None
    stated = read_guess(guess) if guess is not None else None
    run = load(trace)
    if not len(run.activities):
        message = f"`{trace}` holds no GPU work: a guess cannot be held against it"
        raise InputError(message, hint="record it on a GPU, with ProfilerActivity.CUDA")
    if words is not None:
        checked = check_words(words, run, exact=exact)
    elif stated is not None:
        checked = hold(stated, run, exact=exact)
    else:
        checked = _of_target(run, target or "", arguments, variant, on, grad=grad, exact=exact)
    return _report(replace(checked, notes=(*checked.notes, *run.repairs)), run, junit, out)


def _of_target(
    run: Run,
    target: str,
    arguments: Sequence[str],
    variant: Literal["eager", "compile"] | None,
    on: str | None,
    *,
    grad: bool,
    exact: bool,
) -> Checked:
    compiled = any(one.identity.family == "inductor" for one in observe(run).work) or observe(run).graphs
    device = on or (run.device.name if run.device is not None else None)
    made = of_target(target, arguments, on=device, variant=variant or ("compile" if compiled else "eager"), grad=grad)
    return hold(made, run, exact=exact)


def _report(checked: Checked, run: Run, junit: Path | None, out: Output) -> int:
    about = run.trace.path or "trace"
    if junit is not None:
        try:
            junit.write_text(to_junit(checked, about), encoding="utf-8")
        except OSError as error:
            raise InputError(f"cannot write `{junit}`: {error.strerror}", hint="give another `--junit`") from error
    headline = " · ".join(part for part in (run.device_name, str(about)) if part)
    out.emit(lambda: check_document(checked, headline), checked.to_json, lambda: page_of(run, ()))
    return 0 if checked.held else 1
