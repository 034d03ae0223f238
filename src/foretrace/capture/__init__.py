"""Run a module, a function or a script under ``torch.profiler`` and write its trace, with its environment beside it.

This room speaks to the rest of foretrace only through the files that it writes: ``NAME.json.gz``, the trace, and
``NAME.env.json``, an `Environment`. Module scopes in a trace begin with `MODULE_SCOPE_PREFIX`.
"""

from __future__ import annotations

import importlib.util

from foretrace.errors import MissingDependencyError

if importlib.util.find_spec("torch") is None:
    _message = "profiling needs PyTorch, which is not installed"
    raise MissingDependencyError(_message, hint="pip install 'foretrace[torch]'")

from foretrace.capture.captured import Captured
from foretrace.capture.environment import Environment
from foretrace.capture.recorder import capture_target, claim_files, records_grad
from foretrace.capture.schedule import Schedule
from foretrace.capture.scopes import PREFIX as MODULE_SCOPE_PREFIX
from foretrace.capture.script import capture_script
from foretrace.capture.session import Session, profile
from foretrace.capture.target import Script, Target, Workload, parse_target
from foretrace.capture.timing import Timing
from foretrace.capture.variants import Variant, register_variant, variant_names

__all__ = [
    "MODULE_SCOPE_PREFIX",
    "Captured",
    "Environment",
    "Schedule",
    "Script",
    "Session",
    "Target",
    "Timing",
    "Variant",
    "Workload",
    "capture_script",
    "capture_target",
    "claim_files",
    "parse_target",
    "profile",
    "records_grad",
    "register_variant",
    "variant_names",
]
