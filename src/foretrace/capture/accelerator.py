"""The device that does the work: which one it is, how to wait for it, and what it can tell about memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.profiler import ProfilerActivity, supported_activities

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def current_device() -> torch.device:
    """The machine's accelerator, or the CPU where there is none."""
    if not torch.accelerator.is_available():
        return torch.device("cpu")
    found = torch.accelerator.current_accelerator()
    return torch.device("cpu") if found is None else with_index(found)


def find_device(*values: object) -> torch.device:
    """The device that works on ``values``.

    The first tensor off the CPU decides; tensors are found in modules, and inside tuples, lists and dicts. A module
    without one is the CPU's work. A function alone tells nothing, even when its arguments are on the CPU: it may
    copy them, so the machine's accelerator is taken.
    """
    for tensor in _tensors(values):
        if tensor.device.type not in {"cpu", "meta"}:
            return with_index(tensor.device)
    has_module = any(isinstance(value, torch.nn.Module) for value in values)
    return torch.device("cpu") if has_module else current_device()


def with_index(device: torch.device | str) -> torch.device:
    """``device`` with its index: ``cuda`` is the current one of the CUDA devices."""
    device = torch.device(device)
    if device.type == "cpu" or ":" in str(device):  # an index that is missing is unknown to PyTorch's stubs
        return device
    current = getattr(torch.get_device_module(device), "current_device", None)
    return torch.device(device.type, int(current()) if current is not None else 0)


def activities() -> tuple[ProfilerActivity, ...]:
    """What the profiler can collect here: the CPU's, and those of the accelerator that is present."""
    kind = current_device().type.upper()
    return tuple(
        activity
        for activity in sorted(supported_activities(), key=lambda one: one.value)  # type: ignore[no-untyped-call]
        if activity.name in {"CPU", kind}
    )


def synchronize(device: torch.device) -> None:
    """Wait until ``device`` has done all that was queued; nothing to wait for on the CPU."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


def reset_peak_memory(device: torch.device) -> None:
    """Start to watch for the peak of allocated memory anew, where the device counts it."""
    reset = getattr(torch.get_device_module(device), "reset_peak_memory_stats", None)
    if reset is not None and device.type != "cpu":
        reset(device)


def peak_memory_bytes(device: torch.device) -> int | None:
    """The most that PyTorch's allocator held since the last reset; ``None`` where nobody counts (the CPU)."""
    peak = getattr(torch.get_device_module(device), "max_memory_allocated", None)
    return None if peak is None or device.type == "cpu" else int(peak(device))


def _tensors(values: Iterable[object]) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, torch.nn.Module):
            yield from value.parameters()
            yield from value.buffers()
        elif isinstance(value, dict):
            yield from _tensors(value.values())
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)
