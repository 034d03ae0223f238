"""The model of one run."""

from __future__ import annotations

from foretrace.run.build import build, read
from foretrace.run.categories import Kind
from foretrace.run.model import Activities, Activity, Host, Run, Step
from foretrace.run.tree import ROOT

__all__ = ["ROOT", "Activities", "Activity", "Host", "Kind", "Run", "Step", "build", "read"]
