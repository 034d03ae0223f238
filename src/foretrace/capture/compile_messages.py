"""Listen to what ``torch.compile`` says about recompilations, limits and graph breaks while a capture runs."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from torch._guards import CompileContext
from torch._logging._internal import log_state

if TYPE_CHECKING:
    from collections.abc import Iterator

# the loggers behind TORCH_LOGS="recompiles,graph_breaks", and the one that warns of the limit
_DETAILS = (
    "torch._dynamo.guards.__recompiles",
    "torch._dynamo.symbolic_convert.__graph_breaks",
    "torch._dynamo.convert_frame.__graph_breaks",
    "torch._dynamo.exc.__graph_breaks",
)
_WARNINGS = "torch._dynamo.convert_frame"
_ARTIFACTS = {"recompiles", "graph_breaks"}
"""Dynamo asks by these names whether anybody listens, and words no message otherwise."""


@contextmanager
def collected() -> Iterator[list[str]]:
    """The messages logged inside the block, line by line, each behind its compile id (``[0/1]``)."""
    lines: list[str] = []
    handler = _Lines(lines)
    loggers = [logging.getLogger(name) for name in _DETAILS]
    before = [(logger, logger.level, logger.propagate) for logger in loggers]
    new = _ARTIFACTS - log_state.artifact_names
    log_state.artifact_names |= new
    for logger, level, _ in before:
        if not level:  # nobody asked for these on the screen
            logger.propagate = False
        logger.setLevel(logging.DEBUG)
    listened = [*loggers, logging.getLogger(_WARNINGS)]
    for logger in listened:
        logger.addHandler(handler)
    try:
        yield lines
    finally:
        log_state.artifact_names -= new
        for logger in listened:
            logger.removeHandler(handler)
        for logger, level, propagate in before:
            logger.setLevel(level)
            logger.propagate = propagate


class _Lines(logging.Handler):
    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        compile_id = CompileContext.current_compile_id()
        prefix = f"[{compile_id}] " if compile_id is not None else ""
        self._lines += [prefix + line for line in record.getMessage().splitlines()]
