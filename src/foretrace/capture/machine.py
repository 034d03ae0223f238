"""The machine that a capture ran on: its device, its clocks, and the commit that was checked out."""

from __future__ import annotations

import functools
import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path

import torch

_COMMAND_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Device:
    """The device that did the work.

    Attributes:
        type: As in ``torch.device``: ``cpu``, ``cuda``, ``xpu``, ``mps``.
        name: The maker's name for it.
        index: Which one of its kind; ``None`` on the CPU.
        count: How many of its kind this process sees; for the CPU the threads that PyTorch uses.
        memory_bytes: Its own memory.
        capability: CUDA compute capability, ``9.0``.
        multiprocessors: Streaming multiprocessors, or the like.
        driver: Version of the driver.
    """

    type: str
    name: str | None
    index: int | None
    count: int | None
    memory_bytes: int | None = None
    capability: str | None = None
    multiprocessors: int | None = None
    driver: str | None = None


@dataclass(frozen=True, slots=True)
class Clocks:
    """What ``nvidia-smi`` says after the last step, when the device may have slowed down already."""

    sm_mhz: int | None
    memory_mhz: int | None
    max_sm_mhz: int | None
    max_memory_mhz: int | None
    power_limit_w: float | None
    temperature_c: int | None


def describe(device: torch.device) -> Device:
    """What PyTorch and the driver know about ``device``."""
    if device.type == "cpu":
        return Device("cpu", _cpu_name(), None, torch.get_num_threads())
    module = torch.get_device_module(device)
    count = torch.accelerator.device_count()
    if not hasattr(module, "get_device_properties"):
        return Device(device.type, None, device.index, count)
    about = module.get_device_properties(device)
    is_cuda = device.type == "cuda"
    return Device(
        device.type,
        about.name,
        device.index,
        count,
        memory_bytes=getattr(about, "total_memory", None),
        capability=f"{about.major}.{about.minor}" if is_cuda else None,
        multiprocessors=getattr(about, "multi_processor_count", None),
        driver=_nvidia_driver(about.uuid) if is_cuda else getattr(about, "driver_version", None),
    )


def clocks(device: torch.device) -> Clocks | None:
    """The clocks of a CUDA device; ``None`` for others, or when ``nvidia-smi`` does not answer."""
    if device.type != "cuda":
        return None
    fields = "clocks.sm,clocks.mem,clocks.max.sm,clocks.max.mem,power.limit,temperature.gpu"
    said = _nvidia_smi(torch.cuda.get_device_properties(device).uuid, fields)
    if said is None:
        return None
    numbers = [float(value) if value.replace(".", "", 1).isdigit() else None for value in said]
    sm, memory, max_sm, max_memory, _, temperature = (None if one is None else int(one) for one in numbers)
    return Clocks(sm, memory, max_sm, max_memory, numbers[4], temperature)


def git_state(directory: Path) -> tuple[str | None, bool | None]:
    """The commit at ``directory`` and whether tracked files differ from it; ``None`` outside a repository."""
    git = ("git", "--no-optional-locks", "-C", str(directory))
    commit = _output(*git, "rev-parse", "HEAD")
    if commit is None:
        return None, None
    changed = _output(*git, "status", "--porcelain", "--untracked-files=no")
    return commit, None if changed is None else bool(changed)


@functools.cache
def _nvidia_driver(uuid: object) -> str | None:
    said = _nvidia_smi(uuid, "driver_version")
    return said[0] if said else None


def _nvidia_smi(uuid: object, fields: str) -> list[str] | None:
    """What ``nvidia-smi`` says about one GPU, by its UUID: PyTorch counts only the visible ones, the tool all."""
    said = _output("nvidia-smi", f"--id=GPU-{uuid}", f"--query-gpu={fields}", "--format=csv,noheader,nounits")
    values = [value.strip() for value in said.split(",")] if said else []
    return values if len(values) == fields.count(",") + 1 else None


def _output(*words: str) -> str | None:
    """What a command prints; ``None`` when it is missing, fails or hangs."""
    try:
        done = subprocess.run(  # noqa: S603 - fixed programs, no shell
            words, capture_output=True, text=True, timeout=_COMMAND_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _cpu_name() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or None
