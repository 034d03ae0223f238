"""The document of whatever foretrace returns: a run, a comparison, a guess; nothing is loaded before one is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from foretrace.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from foretrace.diff import Diff
    from foretrace.report.document import Document
    from foretrace.run import Run
    from foretrace.verdict import Guess


def document_of(what: Any) -> Document:  # noqa: ANN401 - one of `SHOWN`
    """What the command of the same name shows of it.

    Raises:
        InputError: It is none of them.
    """
    kind = type(what)
    make = SHOWN.get((kind.__module__, kind.__name__))
    if make is None:
        raise InputError(f"nothing to say of a `{kind.__name__}`", hint="give a run, a comparison or a guess")
    return make(what)


def _run(run: Run) -> Document:
    from foretrace.readings import ask  # noqa: PLC0415 - loaded when something is shown
    from foretrace.report.overview import overview  # noqa: PLC0415 - as above

    return overview(run, ask(run))


def _diff(found: Diff) -> Document:
    from foretrace.report.diff import diff_document  # noqa: PLC0415 - loaded when something is shown

    return diff_document(found)


def _guess(guess: Guess) -> Document:
    from foretrace.report.guess import guess_document  # noqa: PLC0415 - loaded when something is shown

    return guess_document(guess)


SHOWN: dict[tuple[str, str], Callable[[Any], Document]] = {
    ("foretrace.run.model", "Run"): _run,
    ("foretrace.diff.records", "Diff"): _diff,
    ("foretrace.verdict.records", "Guess"): _guess,
}
"""Types by module and name."""
