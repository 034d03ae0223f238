"""Many ranks or many runs: traces are read where an executor likes, their small summaries held against each other."""

from __future__ import annotations

from foretrace.fleet.executors import executor
from foretrace.fleet.merge import Meeting, Meetings
from foretrace.fleet.read import Failed, Fleet, Job, find, read_fleet
from foretrace.fleet.summary import Summary, summarize

__all__ = ["Failed", "Fleet", "Job", "Meeting", "Meetings", "Summary", "executor", "find", "read_fleet", "summarize"]
