"""What a capture ran on and how fast it was without the profiler: the content of ``NAME.env.json``.

The file is one JSON object with the fields of `Environment` as keys; unknown is ``null``. Times are nanoseconds,
sizes bytes.
"""

from __future__ import annotations

import importlib.metadata
import platform
import shlex
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import torch

import foretrace
from foretrace.capture import accelerator, machine, recording
from foretrace.capture.baseline import UNKNOWN, Baseline
from foretrace.capture.files import rank_and_world_size

if TYPE_CHECKING:
    from foretrace.capture.machine import Clocks, Device
    from foretrace.capture.new_shapes import NewShape
    from foretrace.capture.numerics import Numerics
    from foretrace.capture.schedule import Schedule
    from foretrace.capture.timing import Timing

SCHEMA = "foretrace.env/1"
_PACKAGES = ("triton", "numpy", "liger-kernel", "kernels", "transformers")


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Everything that is known about a capture and is not in its trace.

    Attributes:
        schema: ``foretrace.env/1``.
        name: Stem of the two files.
        time: When it was written, UTC, ISO 8601.
        target: What was profiled, as it was asked for.
        variant: ``eager``, ``compile``…
        region: Name of the ``record_function`` scope around each step.
        schedule: Steps skipped, warmed up in, recorded; ``None`` for a script that ran as it is.
        grad: Whether autograd recorded the forward.
        unprofiled: The step without the profiler.
        first_call_ns: The very first run: compilation, lazy initialisation and the run itself.
        steady_ns: ``unprofiled.host_ns``, to stand beside ``first_call_ns``.
        compile_cache_hits: Graphs that came from Inductor's cache during the first call; above 0 the first call
            is no measure of a cold compile.
        peak_memory_bytes: Most memory that PyTorch's allocator held: in the steps after warm-up, or in
            all of a script; ``None`` where nobody counts (the CPU).
        scopes: How many modules have a scope in the trace.
        scope_overhead_ns: What these scopes add to ``unprofiled.host_ns``; within the spread it can be negative.
        activities: What the profiler was asked to collect (``CPU``, ``CUDA``…).
        device_events: Whether any event of an accelerator is in the trace.
        device: The device that did the work.
        clocks: Its clocks.
        versions: Of foretrace, Python, torch, CUDA and the packages that matter, those that are installed.
        system: Operating system and machine.
        command: The command line.
        rank: This process's rank, where a launcher started several.
        world_size: How many it started.
        git_commit: Commit of the repository that holds the target.
        git_dirty: Whether tracked files there differ from the commit.
        numerics: Errors against eager PyTorch in fp32, where variants were compared.
        new_shapes: What the first calls at two other shapes cost, where variants were compared.
    """

    schema: str = SCHEMA
    name: str
    time: str
    target: str | None
    variant: str | None
    region: str | None
    schedule: Schedule | None
    grad: bool
    unprofiled: Timing | None
    first_call_ns: int | None
    steady_ns: int | None
    compile_cache_hits: int | None
    peak_memory_bytes: int | None
    scopes: int
    scope_overhead_ns: int | None
    activities: tuple[str, ...]
    device_events: bool | None
    device: Device
    clocks: Clocks | None
    versions: dict[str, str]
    system: str
    command: str
    rank: int | None
    world_size: int | None
    git_commit: str | None
    git_dirty: bool | None
    numerics: Numerics | None = None
    new_shapes: tuple[NewShape, ...] = ()

    @classmethod
    def collect(
        cls,
        profiler: torch.profiler.profile,
        *,
        name: str,
        device: torch.device,
        source: Path,
        target: str | None,
        variant: str | None,
        region: str | None = None,
        schedule: Schedule | None = None,
        baseline: Baseline = UNKNOWN,
        scopes: int = 0,
    ) -> Environment:
        """Ask the machine about itself, right after ``profiler`` has finished.

        ``source`` is a path in the repository of the target, ``baseline`` what was measured before the profiler
        started; the others are the attributes that bear their names.
        """
        unprofiled = baseline.unprofiled
        rank, world_size = rank_and_world_size()
        commit, dirty = machine.git_state(source)
        return cls(
            name=name,
            time=datetime.now(UTC).isoformat(timespec="seconds"),
            target=target,
            variant=variant,
            region=region,
            schedule=schedule,
            grad=torch.is_grad_enabled(),
            unprofiled=unprofiled,
            first_call_ns=baseline.first_call_ns,
            steady_ns=None if unprofiled is None else unprofiled.host_ns,
            compile_cache_hits=baseline.compile_cache_hits,
            peak_memory_bytes=accelerator.peak_memory_bytes(device),
            scopes=scopes,
            scope_overhead_ns=baseline.scope_overhead_ns,
            activities=tuple(activity.name for activity in accelerator.activities()),
            device_events=recording.has_device_events(profiler),
            device=machine.describe(device),
            clocks=machine.clocks(device),
            versions=versions(),
            system=f"{platform.system()} {platform.release()} {platform.machine()}",
            command=_command_line(),
            rank=rank,
            world_size=world_size,
            git_commit=commit,
            git_dirty=dirty,
        )

    def to_json(self) -> bytes:
        """The file's content: indented JSON in UTF-8 that ends with a line feed."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n"


def _command_line() -> str:
    """As it was typed: ``python -m foretrace`` puts the path of ``__main__.py`` where the program's name belongs."""
    program = Path(sys.argv[0])
    name = program.parent.name if program.name == "__main__.py" else sys.argv[0]
    return shlex.join([name, *sys.argv[1:]])


def versions() -> dict[str, str]:
    """Versions by name; what is not installed is not named."""
    found = {
        "foretrace": foretrace.__version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
    }
    runtimes = {"cuda": torch.version.cuda, "hip": torch.version.hip, "xpu": getattr(torch.version, "xpu", None)}
    found |= {runtime: version for runtime, version in runtimes.items() if version is not None}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
