"""The kernels as ops of a trace: launched past the dispatcher, they would stand there without op and shapes."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor
from torch.autograd import profiler

_NOTHING = nullcontext()


def recorded(name: str, *tensors: Tensor | None) -> AbstractContextManager[object]:
    """Show the one kernel launched inside as an op ``foretrace::name`` of these tensors, where a profiler looks on."""
    if not profiler._is_profiler_enabled:  # noqa: SLF001 - as Inductor asks before it records its kernels
        return _NOTHING
    return torch._C._profiler._RecordFunctionFast(f"foretrace::{name}", tensors)  # noqa: SLF001 - as above
