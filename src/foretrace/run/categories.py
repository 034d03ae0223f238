"""What an event is, by its category: the one table, for today's names and the old capitalised ones.

Categories are those of Kineto's ``ActivityType.h``; launch rows are told by their suffix (``cuda_runtime``,
``xpu_driver``, ``privateuse1_runtime``…), so that a new backend's launches link without a new name here. The legacy
autograd profiler gives no category and names the process instead.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from foretrace.trace import Trace


class Kind(IntEnum):
    """The part an event plays."""

    OTHER = 0
    OPERATOR = 1
    ANNOTATION = 2
    LAUNCH = 3
    """A runtime or driver call: launches, copies, synchronizes, queries."""
    PYTHON = 4
    KERNEL = 5
    COPY = 6
    SET = 7
    SYNC = 8
    """The device side of a wait (``cuda_sync``): never work."""
    OVERHEAD = 9
    """The profiler's own; on the host side where it lies inside a call."""


HOST = (Kind.OPERATOR, Kind.ANNOTATION, Kind.LAUNCH, Kind.PYTHON)
DEVICE = (Kind.KERNEL, Kind.COPY, Kind.SET)

BOOKKEEPING = frozenset({"Trace", "external_correlation", "gpu_user_annotation", "cuda_event", "ac2g", "fwdbwd"})
RANGE_PROFILER = "cuda_profiler_range"

STEP_NAME = re.compile(r"ProfilerStep#(\d{1,18})")

_KINDS = {
    "cpu_op": Kind.OPERATOR,
    "Operator": Kind.OPERATOR,
    "user_annotation": Kind.ANNOTATION,
    "python_function": Kind.PYTHON,
    "Runtime": Kind.LAUNCH,
    "kernel": Kind.KERNEL,
    "Kernel": Kind.KERNEL,
    "mtia_ccp_events": Kind.KERNEL,
    "hpu_op": Kind.KERNEL,
    "gpu_memcpy": Kind.COPY,
    "Memcpy": Kind.COPY,
    "gpu_memset": Kind.SET,
    "Memset": Kind.SET,
    "cuda_sync": Kind.SYNC,
    "xpu_sync": Kind.SYNC,
    "overhead": Kind.OVERHEAD,
}
_LAUNCH_SUFFIXES = ("_runtime", "_driver")
_LEGACY_PROCESSES = {"CPU functions": Kind.OPERATOR, "CUDA functions": Kind.KERNEL}
_BACKENDS = {"xpu": "XPU", "mtia": "MTIA", "hpu": "HPU"}


def kind_of(category: str) -> Kind:
    """The `Kind` of a category; `Kind.OTHER` for bookkeeping rows and names that nobody knows."""
    if category.endswith(_LAUNCH_SUFFIXES):
        return Kind.LAUNCH
    return _KINDS.get(category, Kind.OTHER)


def kinds(trace: Trace) -> NDArray[np.int8]:
    """The `Kind` of every row of a trace, [rows]."""
    columns, tables = trace.columns, trace.tables
    of_category = np.array([kind_of(category) for category in tables.category], dtype=np.int8)
    found = of_category[columns.category] if len(of_category) else np.zeros(0, dtype=np.int8)
    without = [code for code, category in enumerate(tables.category) if not category]
    for code, process in enumerate(tables.process):
        if isinstance(process, str) and process in _LEGACY_PROCESSES:
            rows = np.isin(columns.category, without) & (columns.process == code)
            found[rows] = _LEGACY_PROCESSES[process]
    steps = [code for code, name in enumerate(tables.name) if STEP_NAME.fullmatch(name)]
    found[(found == Kind.OPERATOR) & np.isin(columns.name, steps)] = Kind.ANNOTATION  # as PyTorch 1.8 wrote them
    return found


def backend(trace: Trace) -> str | None:
    """The kind of device that the categories name, for files that name no device; ``None`` for CUDA and ROCm."""
    prefixes = _prefixes(trace)
    return next((name for prefix, name in _BACKENDS.items() if prefix in prefixes), None)


def captures_graphs(trace: Trace) -> bool:
    """Whether PyTorch captures CUDA graphs on the device: on NVIDIA's and AMD's, whose categories name no backend."""
    return _prefixes(trace).isdisjoint({*_BACKENDS, "privateuse1"})


def _prefixes(trace: Trace) -> set[str]:
    return {category.split("_")[0] for category in trace.tables.category}
