"""Measure the paths at given shapes on this machine's GPU and write the table that ``plan`` reads."""

from __future__ import annotations

import datetime as dt
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from foretrace.fused import plan
from foretrace.fused.functional import gated_mlp

from . import measure, table

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from torch import Tensor

SHAPES = (
    (1, 768, 3072),
    (16, 768, 3072),
    (64, 768, 3072),
    (256, 768, 3072),
    (2048, 768, 3072),
    (8192, 768, 3072),
    (1, 2048, 16384),
    (16, 2048, 16384),
    (64, 2048, 16384),
    (256, 2048, 16384),
    (8192, 2304, 9216),
    (8192, 2048, 16384),
    (8192, 4096, 14336),
)
SETS = 3
"""Sets of buffers in turn, so that no call finds its data in a cache."""


def tune(folder: Path, shapes: Iterable[tuple[int, int, int]] = SHAPES, *, command: str = "foretrace tune") -> Path:
    """Time every path at every (rows, dim, hidden), in bf16, and write this device's table into ``folder``.

    Raises:
        RuntimeError: No CUDA device.
    """
    if not torch.cuda.is_available():
        msg = "tuning needs a CUDA device"
        raise RuntimeError(msg)
    rows = [row for shape in shapes for row in _measure(*shape)]
    content = {
        "device": torch.cuda.get_device_name(),
        "when": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "versions": {"torch": torch.__version__, "cuda": torch.version.cuda},
        "command": command,
        "rows": rows,
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / table.file_name(torch.cuda.get_device_name())
    path.write_text(table.text(content), encoding="utf-8")
    return path


def _measure(rows: int, dim: int, hidden: int) -> list[dict[str, Any]]:
    found, hopper = [], plan.is_hopper(torch.cuda.current_device())
    for mode in ("forward",) if rows <= plan.MAX_ROWS else ("forward", "training"):
        paths = plan.serving(rows, hopper=hopper, training=mode == "training")
        sets = data(rows, dim, hidden, training=mode == "training")
        raced = measure.launched([partial(_step, path, sets) for path in paths])
        us = {path: measure.middle([one.busy_us for one in ran]) for path, ran in zip(paths, raced, strict=True)}
        found.append({"mode": mode, "rows": rows, "dim": dim, "hidden": hidden, "us": us})
    return found


def data(rows: int, dim: int, hidden: int, *, training: bool) -> list[list[Tensor]]:
    """Sets of x and the three weights in bf16, scaled so that every product has unit variance."""
    make = partial(torch.randn, device="cuda", dtype=torch.bfloat16)
    shapes = (((rows, dim), 1), ((hidden, dim), dim), ((hidden, dim), dim), ((dim, hidden), hidden))
    return [[(make(s) / n**0.5).requires_grad_(training) for s, n in shapes] for _ in range(SETS)]


def _step(path: str, sets: list[list[Tensor]], i: int) -> None:
    tensors = sets[i % SETS]
    with plan.forced(path):
        y = gated_mlp(*tensors, activation="gelu_tanh")
        if y.requires_grad:
            torch.autograd.grad(y, tensors, y.detach())
