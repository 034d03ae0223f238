"""The one family of errors that foretrace raises at people."""

from __future__ import annotations


class ForetraceError(Exception):
    """What happened, where, and what to do next.

    The command line prints ``error: <message>``, an empty line and ``hint: <hint>`` on stderr and exits with
    ``exit_code``; nobody sees a traceback.

    Args:
        message: One line: what happened, and where (file, byte, event).
        hint: The next command or step, or ``None`` when there is none to give.
    """

    exit_code = 2

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if hint is not None:
            self.add_note(f"hint: {hint}")  # what a traceback shows to those who call foretrace from Python


class InputError(ForetraceError):
    """The file, target or option that was given cannot be used."""


class TraceError(InputError):
    """The input is no trace that can be read; the message names what it is instead."""


class MissingDependencyError(ForetraceError):
    """A part that was asked for needs a package that is not installed."""


class PartialInputError(ForetraceError):
    """The input was read only in part and ``--strict`` was given."""

    exit_code = 3
