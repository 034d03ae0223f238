"""Honest precision: guesses at 20 random modules, committed before anybody records them.

    python bench/generated_modules.py guess     # writes bench/guesses/NN_variant.toml; commit them
    python bench/generated_modules.py record [COMMIT]    # on the device: profiles the modules and scores the guesses

A module is a function of its seed alone: depth, widths, rows, type, biases, norms, activations, residuals, gates and
attention. ``record`` names the commit that last touched the guesses and refuses when they differ from it; on a machine
with a copy and no history it takes the commit's name.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from guess_accuracy import score, table
from torch import nn
from torch.nn import functional

import foretrace
from foretrace.guess import guess_built
from foretrace.verdict import check, read_guess, to_toml

HERE = Path(__file__).parent
GUESSES = HERE / "guesses"
COUNT = 20
DEVICE = "NVIDIA H200"
VARIANTS = ("eager", "compile")
WIDTHS = (128, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096)
ROWS = ((1, 1), (1, 7), (2, 64), (8, 128), (4, 512), (16, 256), (32, 256))
ACTIVATIONS = (nn.ReLU, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid, nn.LeakyReLU)


class Gated(nn.Module):
    """A gated MLP: ``down(activation(gate(x)) · up(x))``."""

    def __init__(self, dim: int, hidden: int, activation: nn.Module, *, bias: bool) -> None:
        super().__init__()
        self.gate, self.up = nn.Linear(dim, hidden, bias=bias), nn.Linear(dim, hidden, bias=bias)
        self.down, self.activation = nn.Linear(hidden, dim, bias=bias), activation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[..., dim] → [..., dim]."""
        return self.down(self.activation(self.gate(x)) * self.up(x))


class Attention(nn.Module):
    """Self-attention of heads of 64."""

    def __init__(self, dim: int, *, bias: bool, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = dim // 64, causal
        self.qkv, self.out = nn.Linear(dim, 3 * dim, bias=bias), nn.Linear(dim, dim, bias=bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[batch, seq, dim] → the same."""
        batch, seq, dim = x.shape
        q, k, v = self.qkv(x).view(batch, seq, 3, self.heads, 64).permute(2, 0, 3, 1, 4).unbind()
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(mixed.transpose(1, 2).reshape(batch, seq, dim))


class Residual(nn.Module):
    """``x + inner(norm(x))``."""

    def __init__(self, norm: nn.Module, inner: nn.Module) -> None:
        super().__init__()
        self.norm, self.inner = norm, inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[..., dim] → [..., dim]."""
        return x + self.inner(self.norm(x))


def module(*, seed: int, device: str = "cuda") -> tuple[nn.Module, tuple[torch.Tensor]]:
    """The module of a seed with its input."""
    draw = random.Random(seed)
    dtype = draw.choice((torch.bfloat16, torch.bfloat16, torch.float16, torch.float32))
    batch, seq = draw.choice(ROWS)
    dim = first = draw.choice(WIDTHS)
    layers: list[nn.Module] = []
    for _ in range(draw.randint(2, 6)):
        layer, dim = _layer(draw, dim)
        layers += layer
    if draw.random() < 0.3:  # noqa: PLR2004 - some end in a distribution
        layers.append(nn.Softmax(dim=-1))
    model = nn.Sequential(*layers).to(device, dtype).eval()
    return model, (torch.randn(batch, seq, first, device=device, dtype=dtype),)


def _layer(draw: random.Random, dim: int) -> tuple[list[nn.Module], int]:
    """The next layer and its width."""
    bias, activation = draw.random() < 0.5, draw.choice(ACTIVATIONS)()  # noqa: PLR2004 - evenly
    norm = draw.choice((nn.LayerNorm, nn.RMSNorm))(dim)
    kind = draw.choice(("linear", "linear", "gated", "attention", "norm"))
    if kind == "linear":
        width = draw.choice(WIDTHS)
        return [nn.Linear(dim, width, bias=bias), *([activation] if draw.random() < 0.7 else [])], width  # noqa: PLR2004
    if kind == "gated":
        return [Residual(norm, Gated(dim, draw.choice(WIDTHS), activation, bias=bias))], dim
    if kind == "attention":
        return [Residual(norm, Attention(dim, bias=bias, causal=draw.random() < 0.5))], dim  # noqa: PLR2004
    return [norm], dim


def guess() -> int:
    """Write every guess."""
    GUESSES.mkdir(exist_ok=True)
    for seed in range(COUNT):
        for variant in VARIANTS:
            made = guess_built(
                lambda seed=seed: (*module(seed=seed), {}), name=f"seed {seed}", on=DEVICE, variant=variant
            )
            _path(seed, variant).write_text(to_toml(made), encoding="utf-8")
            print(f"{seed:02} {variant:8}{made.sentence}")
    return 0


def record() -> int:
    """Profile every module here, hold its guess against the trace, and write the score."""
    commit = _commit()
    kept = {variant: (Counter[str](), Counter[str](), Counter[str]()) for variant in VARIANTS}
    misses: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(COUNT):
            for variant in VARIANTS:
                run = foretrace.read(_profiled(seed, variant, Path(folder)))
                stated = read_guess(_path(seed, variant))
                for total, count in zip(kept[variant], score(stated, run), strict=True):
                    total.update(count)
                checked = check(stated, run)
                print(f"{seed:02} {variant:8}{checked.sentence}", flush=True)
                odd = [
                    row
                    for row in checked.rows
                    if row.verdict in {"broken", "unknown"} or (row.observed and not row.guess)
                ]
                misses += [
                    {"seed": seed, "variant": variant, "verdict": row.verdict, "guess": row.guess, "why": row.why}
                    for row in odd
                    if row.op_class != "fill" and "× its floor" not in row.why
                ]
    tables = {variant: table(counts) for variant, counts in kept.items()}
    for variant, rows in tables.items():
        print(f"{variant:10}precision {rows['all']['precision']}  recall {rows['all']['recall']}")
    result = {
        "guesses_committed_in": commit,
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "guessed_with_torch": read_guess(_path(0, "eager")).torch,
        **tables,
        "misses": misses,
    }
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "generated_modules.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


def _profiled(seed: int, variant: str, folder: Path) -> Path:
    """A trace of three steps of the module on this machine's device."""
    torch._dynamo.reset()  # noqa: SLF001 - public in all but name
    model, args = module(seed=seed)
    called = torch.compile(model) if variant == "compile" else model
    with torch.no_grad():
        for _ in range(3):
            called(*args)
        torch.cuda.synchronize()
        path = folder / f"{seed:02}_{variant}.json.gz"
        schedule = torch.profiler.schedule(wait=1, warmup=1, active=3, repeat=1)
        with torch.profiler.profile(schedule=schedule, record_shapes=True) as profiler:
            for _ in range(5):
                with torch.profiler.record_function("step"):
                    called(*args)
                torch.cuda.synchronize()
                profiler.step()
    profiler.export_chrome_trace(str(path))
    return path


def _path(seed: int, variant: str) -> Path:
    return GUESSES / f"{seed:02}_{variant}.toml"


def _commit() -> str | None:
    """The commit that last touched the guesses; ``None`` outside a repository."""
    log = ["git", "log", "-1", "--format=%H", "--", "bench/guesses"]
    if len(sys.argv) > 2:  # noqa: PLR2004 - the name that was given
        return sys.argv[2]
    found = subprocess.run(log, cwd=HERE.parent, capture_output=True, text=True, check=False)
    changed = subprocess.run(
        ["git", "status", "--porcelain", "--", "bench/guesses"],
        cwd=HERE.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    if changed.stdout.strip():
        sys.exit("bench/guesses differs from the last commit: commit the guesses before recording")
    return found.stdout.strip() or None


if __name__ == "__main__":
    commands = {"guess": guess, "record": record}
    if len(sys.argv) < 2 or sys.argv[1] not in commands:  # noqa: PLR2004 - a name and a command
        sys.exit(__doc__)
    sys.exit(commands[sys.argv[1]]())
