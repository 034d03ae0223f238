"""``foretrace read``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from foretrace import devices, readings
from foretrace.cli.load import load
from foretrace.cli.output import STDOUT, Output
from foretrace.errors import InputError, PartialInputError
from foretrace.report.overview import asked, overview
from foretrace.report.page import page_of
from foretrace.report.read import read_record
from foretrace.report.selection import Selection, select

if TYPE_CHECKING:
    from collections.abc import Callable

    from foretrace.run import Run


def read(
    trace: str | None = None,
    /,
    *,
    ask: Annotated[tuple[str, ...], Parameter(consume_multiple=True)] = (),
    step: int | None = None,
    region: str | None = None,
    device_spec: str | None = None,
    strict: bool = False,
    guess_first: bool = False,
    no_cache: bool = False,
    out: Output = STDOUT,
) -> None:
    """Read a profiler trace in words.

    The first line says what the trace holds; then what bounds it, what ran, what to do first, and what else is worth
    knowing. Kineto traces of `torch.profiler` are read as they are: JSON, gzip or zip, a file, a folder with one trace
    in it, a URL, or `-` for a pipe.

    Args:
        trace: The trace.
        ask: Answer these questions in full instead (`--ask bound idle`, `--ask all`): window, steps, kernels, chain,
            metadata, queries, launch, idle, bound, roofline, gemm_choice, variance, compiled, round_trips, modules,
            memory, graphs, syncs, copies, streams, collectives, first.
        step: Only the step with this number, as in `ProfilerStep#N`.
        region: Only what runs inside the `record_function` of this name.
        device_spec: Take the device's limits from here: a name in `foretrace devices`, or a TOML file.
        guess_first: Ask for a guess before anything is shown, then mark it.
        strict: Exit with 3 when the file had to be repaired or is cut short.
        no_cache: Keep and use nothing from earlier readings of the file; today nothing is kept.
        out: How and where to show it.
    """
    del no_cache  # nothing is kept yet
    trace, ask = _apart(trace, ask)
    out.check()
    device = devices.resolve(device_spec) if device_spec is not None else None
    mark = _guessed() if guess_first else None
    run = load(trace, device)
    if strict and run.repaired:
        raise _partial(run)
    selection = Selection(step, region)
    run = select(run, selection)
    answers = readings.ask(run, ask)
    if mark is not None:
        mark(run)
    out.emit(
        lambda: asked(run, answers, ask, selection) if ask else overview(run, answers, selection),
        lambda: read_record(run, answers, selection),
        lambda: page_of(run, answers, told=bool(ask)),
    )


def _guessed() -> Callable[[Run], None] | None:
    """What marks the reader's guess once the run is there; ``None`` when the reader has none."""
    from foretrace.cli.guess_first import ask, mark  # noqa: PLC0415 - only who guesses waits for it

    stated = ask()
    return None if stated is None else partial(mark, stated)


def _apart(trace: str | None, ask: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """``--ask bound idle TRACE`` takes the trace for a question: the last word that is no question is the trace."""
    questions = {"all", *(known.question for known in readings.READINGS)}
    if trace is None and ask and not questions.issuperset(_words(ask[-1:])):
        trace, ask = ask[-1], ask[:-1]
    if trace is None:
        raise InputError("no trace was given", hint="`foretrace read TRACE`; `foretrace read --help` shows the options")
    return trace, readings.named(_words(ask))


def _words(ask: tuple[str, ...]) -> tuple[str, ...]:
    """Questions may be listed with commas too."""
    return tuple(word for listed in ask for word in listed.replace(",", " ").split())


def _partial(run: Run) -> PartialInputError:
    why = "; ".join(run.repairs)
    return PartialInputError(f"`{run.trace.path}` was read only in part: {why}", hint="without --strict it is shown")
