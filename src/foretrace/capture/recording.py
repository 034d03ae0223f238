"""The torch profiler as captures use it: how one is made, and what a finished one holds."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import torch
from torch._C._autograd import DeviceType

from foretrace.capture import accelerator
from foretrace.capture.scopes import PREFIX

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch._C._autograd import _KinetoEvent

    from foretrace.capture.schedule import Schedule

_STEP = "ProfilerStep#"


def new_profiler(schedule: Schedule | None, *, stacks: bool, memory: bool) -> torch.profiler.profile:
    """A profiler that collects shapes on the CPU and on the accelerator; without a schedule it records all."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # its stage reports would stand between our lines on stderr
    steps = None
    if schedule is not None:
        steps = torch.profiler.schedule(wait=schedule.wait, warmup=schedule.warmup, active=schedule.active, repeat=1)
    return torch.profiler.profile(
        activities=accelerator.activities(),
        schedule=steps,
        record_shapes=True,
        profile_memory=memory,
        with_stack=stacks,
    )


def has_operators(profiler: torch.profiler.profile, region: str | None) -> bool:
    """Whether anything was recorded besides the scopes that a capture opens itself."""
    return any(event.name() != region and not event.name().startswith((_STEP, PREFIX)) for event in _events(profiler))


def has_device_events(profiler: torch.profiler.profile) -> bool:
    """Whether any event of an accelerator was recorded."""
    return any(event.device_type() != DeviceType.CPU for event in _events(profiler))


def table(profiler: torch.profiler.profile, rows: int) -> str:
    """The profiler's own table of operators, the costliest first: on the accelerator, if it did anything."""
    place = "device" if has_device_events(profiler) else "cpu"
    return str(profiler.key_averages().table(sort_by=f"self_{place}_time_total", row_limit=rows))


def _events(profiler: torch.profiler.profile) -> Sequence[_KinetoEvent]:
    # prof.events() would build Python objects and a tree of all of them first
    results = profiler.profiler and profiler.profiler.kineto_results
    return results.events() if results else ()
