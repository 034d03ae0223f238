"""Many ranks or many runs: traces are read where an executor likes, their small summaries held against each other."""

from __future__ import annotations

from foretrace.fleet.executors import executor
from foretrace.fleet.jobs import Job
from foretrace.fleet.read import Failed, Fleet, find, read_fleet
from foretrace.fleet.summary import Summary, summarize

__all__ = ["Failed", "Fleet", "Job", "Summary", "executor", "find", "read_fleet", "summarize"]
