"""``foretrace redact``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from foretrace.cli.output import Output
from foretrace.errors import InputError
from foretrace.render.safe import visible
from foretrace.share.redact import removed
from foretrace.share.redacted import redact_trace


def redact(
    trace: str,
    *,
    output: Annotated[Path, Parameter(name=["--output", "-o"])],
    stacks: bool = False,
    force: bool = False,
) -> None:
    """Write a copy of a trace without what is private in it.

    Tokens and other secrets, environment variables, host and user names and absolute paths go, wherever they stand:
    metadata, names, arguments, stacks. Times, ids and shapes stay, so the copy reads like the trace. A malformed trace
    is written in its repaired form.

    Args:
        trace: The trace.
        output: The copy; compressed when its name ends in `.gz`.
        stacks: Remove Python stacks too.
        force: Overwrite the copy if it is there.
    """
    Output(output=output, force=force).check()
    if output.exists() and Path(trace).exists() and output.samefile(trace):
        raise InputError(f"`{output}` is the trace itself", hint="give the copy another name")
    redaction = redact_trace(trace, output, stacks=stacks)
    lines = [f"`{output}` written: removed {removed(redaction.counts)}."]
    lines += [f"note: {note.text}" for note in redaction.notes]
    talk = sys.stdout if output.is_file() else sys.stderr  # a copy that goes to stdout stands there alone
    talk.write("".join(f"{visible(line)}\n" for line in lines))
