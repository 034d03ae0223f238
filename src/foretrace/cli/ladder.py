"""``foretrace ladder``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from foretrace.cli.output import STDOUT, Output
from foretrace.cli.progress import working
from foretrace.errors import InputError
from foretrace.ladder.walk import walk_recorded
from foretrace.render.to_markdown import to_markdown
from foretrace.report.ladder import document

if TYPE_CHECKING:
    from foretrace.report.ladder import Ladder

_DEFAULT_OUT = Path("traces") / "ladder"


def ladder(
    part: Literal["linear", "mlp", "all"] = "all",
    *,
    device: Literal["auto", "cpu", "cuda"] = "auto",
    recorded: bool = False,
    traces: Annotated[Path | None, Parameter(name="--out")] = None,
    batch: int | None = None,
    seq: int = 128,
    dim: int = 768,
    hidden: int = 3072,
    in_dim: int = 32,
    out_dim: int = 64,
    out: Output = STDOUT,
) -> None:
    """Walk the road from `nn.Linear` to a fused MLP: guess, profile, read, compare.

    Each rung says what it expects the GPU to run before it looks, profiles the module for real, and says which guesses
    held, which broke, and what was there instead. Traces and a Markdown report are kept.

    Args:
        part: The linear layer, the GeGLU MLP, or both.
        device: Where to run; `auto` takes a GPU where PyTorch sees one.
        recorded: Walk the H200 traces that come with foretrace; nothing runs here, and no torch is needed.
        traces: Folder for the traces and the report; `traces/ladder` unless given.
        batch: Rows of the linear layer (1024), or sequences of the MLP (64; 4 on a CPU).
        seq: Tokens of each sequence.
        dim: Width of the MLP.
        hidden: Width between its projections.
        in_dim: Inputs of the linear layer.
        out_dim: Its outputs.
        out: How and where to show it.
    """
    out.check()
    if recorded:
        walked = walk_recorded(part)
    else:
        traces = traces or _DEFAULT_OUT
        report = traces / "ladder.md"
        if report.exists() and not out.force:
            raise InputError(f"`{report}` is already there", hint="give another `--out`, or `--force` to walk again")
        walked = _live(part, device, traces, out, (batch, seq, dim, hidden, in_dim, out_dim))
    if traces is not None:
        traces.mkdir(parents=True, exist_ok=True)
        (traces / "ladder.md").write_text(to_markdown(document(walked)), encoding="utf-8")
        sys.stderr.write(f"traces and report are in {traces}\n")
    out.emit(lambda: document(walked), walked.to_json)


def _live(
    part: str, device: str, traces: Path, out: Output, sizes: tuple[int | None, int, int, int, int, int]
) -> Ladder:
    from foretrace.ladder import live  # noqa: PLC0415 - imports torch, which recorded rungs do without

    with working() as progress:
        return live.walk(part, live.Shapes(*sizes), device=device, out=traces, force=out.force, progress=progress)
