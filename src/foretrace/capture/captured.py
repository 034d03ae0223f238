"""What became of one capture: its files, or the reason why there are none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from foretrace.capture.environment import Environment
    from foretrace.capture.files import OutputFiles
    from foretrace.errors import ForetraceError


@dataclass(frozen=True, slots=True)
class Captured:
    """What became of one capture.

    Attributes:
        variant: Its variant; ``None`` for a script.
        files: Where it was (to be) written.
        environment: What is known besides the trace; ``None`` when it failed.
        table: The profiler's own table, when it was asked for.
        error: Why it failed; ``None`` when it did not.
        traceback: Where in the user's code it failed, as Python prints it; ``None`` when it did not.
    """

    variant: str | None
    files: OutputFiles
    environment: Environment | None = None
    table: str | None = None
    error: ForetraceError | None = None
    traceback: str | None = None
