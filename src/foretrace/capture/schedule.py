"""Which steps the profiler skips, warms up in, and records."""

from __future__ import annotations

from dataclasses import dataclass

from foretrace.errors import InputError


@dataclass(frozen=True, slots=True)
class Schedule:
    """Steps that the profiler skips, warms up in, and records, in this order and once.

    Raises:
        InputError: A negative number, or nothing to record.
    """

    wait: int = 1
    warmup: int = 1
    active: int = 3

    def __post_init__(self) -> None:
        if self.active < 1 or self.wait < 0 or self.warmup < 0:
            message = f"a schedule of {self} cannot be recorded"
            raise InputError(message, hint="`--active` is at least 1, `--wait` and `--warmup` are at least 0")

    def __str__(self) -> str:
        return f"wait {self.wait}, warmup {self.warmup}, active {self.active}"

    @property
    def steps(self) -> int:
        """All of them together."""
        return self.wait + self.warmup + self.active
