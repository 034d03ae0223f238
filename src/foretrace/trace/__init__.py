"""A trace file as columns."""

from __future__ import annotations

from foretrace.trace.columns import NONE, Collective, Columns, Flows, Note, Tables, Trace
from foretrace.trace.folder import Member, traces_in
from foretrace.trace.read import read_trace
from foretrace.trace.times import LOST

__all__ = [
    "LOST",
    "NONE",
    "Collective",
    "Columns",
    "Flows",
    "Member",
    "Note",
    "Tables",
    "Trace",
    "read_trace",
    "traces_in",
]
