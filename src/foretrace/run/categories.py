"""What an event is, by its category: the one table, for today's names and the old capitalised ones.

Categories are those of Kineto's ``ActivityType.h``; launch rows are told by their suffix (``cuda_runtime``,
``xpu_driver``, ``privateuse1_runtime``…), so that a new backend's launches link without a new name here.
"""

from __future__ import annotations

from enum import IntEnum


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
    """The profiler's own."""


HOST = (Kind.OPERATOR, Kind.ANNOTATION, Kind.LAUNCH, Kind.PYTHON)
DEVICE = (Kind.KERNEL, Kind.COPY, Kind.SET)

_KINDS = {
    "cpu_op": Kind.OPERATOR,
    "Operator": Kind.OPERATOR,
    "user_annotation": Kind.ANNOTATION,
    "python_function": Kind.PYTHON,
    "Runtime": Kind.LAUNCH,
    "kernel": Kind.KERNEL,
    "Kernel": Kind.KERNEL,
    "gpu_memcpy": Kind.COPY,
    "Memcpy": Kind.COPY,
    "gpu_memset": Kind.SET,
    "Memset": Kind.SET,
    "cuda_sync": Kind.SYNC,
    "xpu_sync": Kind.SYNC,
    "overhead": Kind.OVERHEAD,
}
_LAUNCH_SUFFIXES = ("_runtime", "_driver")


def kind_of(category: str) -> Kind:
    """The `Kind` of a category; `Kind.OTHER` for bookkeeping rows and names that nobody knows."""
    if category.endswith(_LAUNCH_SUFFIXES):
        return Kind.LAUNCH
    return _KINDS.get(category, Kind.OTHER)
