"""The road on this machine: each rung captured for real, through the same door as ``foretrace profile``."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from foretrace.capture import capture_target, parse_target
from foretrace.capture.progress import silent
from foretrace.capture.target import Target
from foretrace.errors import InputError
from foretrace.ladder.walk import walk_live

if TYPE_CHECKING:
    from pathlib import Path

    from foretrace.capture.progress import Progress
    from foretrace.ladder.rungs import Rung
    from foretrace.report.ladder import Ladder

CPU_BATCH = 4
"""Rows on a CPU are batch × seq: 4 × 128 keep a step of the MLP in tens of milliseconds on two cores."""


@dataclass(frozen=True, slots=True)
class Shapes:
    """The articles' flags; ``None`` takes the articles' value, or a CPU-sized one where there is no GPU."""

    batch: int | None = None
    seq: int = 128
    dim: int = 768
    hidden: int = 3072
    in_dim: int = 32
    out_dim: int = 64


def walk(part: str, shapes: Shapes, *, device: str, out: Path, force: bool, progress: Progress = silent) -> Ladder:
    """Profile and read every rung of ``part``; traces go to ``out``.

    Args:
        part: ``linear``, ``mlp`` or ``all``.
        shapes: Sizes of the two modules.
        device: ``cpu``, ``cuda`` or ``auto``.
        out: Directory for the traces.
        force: Replace traces that exist.
        progress: Called with what is being done, how much is done, and how much there is.

    Raises:
        InputError: CUDA was asked for and there is none, or a trace exists already.
    """
    device = _device(device)
    capture = functools.partial(_capture, shapes=shapes, device=device, out=out, force=force, progress=progress)
    return walk_live(part, capture, device=_named(device), notes=_notes(device, shapes))


def _capture(rung: Rung, *, shapes: Shapes, device: str, out: Path, force: bool, progress: Progress) -> Path:
    target = parse_target(f"foretrace.ladder.models:{rung.factory}", _arguments(rung, shapes, device))
    assert isinstance(target, Target), "a factory was named"
    (captured,) = capture_target(
        target,
        variants=(rung.variant,),
        out=out,
        name=rung.name,
        region=f"{rung.part}_fwd",
        force=force,
        progress=lambda what, done, total: progress(f"{rung.title}: {what.partition(': ')[2]}", done, total),
    )
    if captured.error is not None:
        raise captured.error
    return captured.files.trace


def _arguments(rung: Rung, shapes: Shapes, device: str) -> tuple[str, ...]:
    if rung.part == "linear":
        sizes = {"batch": shapes.batch or 1024, "in-dim": shapes.in_dim, "out-dim": shapes.out_dim}
    else:
        batch = shapes.batch or (CPU_BATCH if device == "cpu" else 64)
        sizes = {"batch": batch, "seq": shapes.seq, "dim": shapes.dim, "hidden": shapes.hidden}
    words = [word for name, size in sizes.items() for word in (f"--{name}", str(size))]
    return (*words, "--device", device)


def _device(wanted: str) -> str:
    if wanted == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if wanted == "cuda" and not torch.cuda.is_available():
        raise InputError("this PyTorch sees no CUDA device", hint="foretrace ladder --device cpu, or --recorded")
    return wanted


def _named(device: str) -> str:
    return torch.cuda.get_device_name() if device == "cuda" else f"this CPU ({os.cpu_count()} cores)"


def _notes(device: str, shapes: Shapes) -> tuple[str, ...]:
    if device != "cpu":
        return ()
    can = (
        "A CPU can show dispatch chains, views and what torch.compile adds and removes on the host. It cannot show "
        "kernels, launches or the GPU's waiting: `foretrace ladder --recorded` shows those of an H200."
    )
    if shapes.batch is not None:
        return (can,)
    return (can, f"The MLP runs {CPU_BATCH} × {shapes.seq} rows here, not the articles' 64 × 128.")
