# /// script
# requires-python = ">=3.11"
# dependencies = ["foretrace[torch]"]
#
# [tool.uv.sources]
# foretrace = { path = "..", editable = true }
# ///
"""A GeGLU MLP: guess five kernels eager and four compiled, then look.

uv run 03_simple_mlp.py --batch 64 --seq 128 --dim 768 --hidden 3072 [--compile]
"""

from __future__ import annotations

import argparse

import torch
from torch import nn
from torch.nn import functional

import foretrace


class SimpleGeGLU(nn.Module):
    """``down(gelu(gate(x)) · up(x))``, tanh form, no biases."""

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(dim, hidden, bias=False)
        self.up_proj = nn.Linear(dim, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, dim, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[batch, seq, dim] → [batch, seq, dim]."""
        activated = functional.gelu(self.gate_proj(x), approximate="tanh")
        out: torch.Tensor = self.down_proj(activated * self.up_proj(x))
        return out


def main() -> None:
    """Profile the forward and print the reading."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--seq", type=int, default=128)
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--hidden", type=int, default=3072)
    parser.add_argument("--compile", action="store_true")
    arguments = parser.parse_args()

    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    mlp = SimpleGeGLU(arguments.dim, arguments.hidden).to(device=device, dtype=dtype)
    x = torch.randn(arguments.batch, arguments.seq, arguments.dim, device=device, dtype=dtype)
    forward = torch.compile(mlp) if arguments.compile else mlp

    name = "mlp_compiled" if arguments.compile else "mlp_eager"
    modules = None if arguments.compile else mlp  # named scopes would end up in the compiled graph
    with torch.no_grad(), foretrace.profile(name, region="mlp_fwd", modules=modules, force=True) as session:
        for _ in session.steps():
            forward(x)
    print(foretrace.in_words(foretrace.read(session.files.trace)))


if __name__ == "__main__":
    main()
