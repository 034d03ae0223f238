"""Results as text, for people who call foretrace from Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foretrace.render.to_terminal import to_terminal
from foretrace.report.shown import document_of

if TYPE_CHECKING:
    from foretrace.diff import Diff
    from foretrace.run import Run
    from foretrace.verdict import Guess


def in_words(what: Run | Diff | Guess, *, width: int = 100) -> str:
    """What ``foretrace read``, ``diff`` or ``guess`` shows of a result, without styles.

    Args:
        what: What `foretrace.read`, `foretrace.diff` or `foretrace.guess` gave.
        width: Columns.

    Raises:
        InputError: ``what`` is none of them.
    """
    return to_terminal(document_of(what), width=width, styled=False)
