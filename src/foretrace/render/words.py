"""A run as text, for people who call foretrace from Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foretrace.readings import ask
from foretrace.render.to_terminal import to_terminal
from foretrace.report.overview import overview
from foretrace.report.selection import Selection

if TYPE_CHECKING:
    from foretrace.run import Run


def in_words(run: Run, *, width: int = 100) -> str:
    """What ``foretrace read`` shows of a run, without styles.

    Args:
        run: What `foretrace.read` gave.
        width: Columns.
    """
    return to_terminal(overview(run, ask(run), Selection()), width=width, styled=False)
