# /// script
# requires-python = ">=3.11"
# dependencies = ["foretrace[torch,fused]", "torch<2.12"]  # Triton 3.6, for an H200
#
# [tool.uv.sources]
# foretrace = { path = "..", editable = true }
# ///
"""The same GeGLU MLP with its layers fused, one kernel on an H200 where eager takes five: swap, profile, read.

uv run 04_fused_mlp.py --batch 64 --seq 128 --dim 768 --hidden 3072
"""

from __future__ import annotations

import argparse

import torch
from torch import nn
from torch.nn import functional

import foretrace
from foretrace.fused import GatedMLP, replace


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
    """Swap, say what was swapped and which path it takes, profile the forward and print the reading."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--seq", type=int, default=128)
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--hidden", type=int, default=3072)
    arguments = parser.parse_args()

    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    plain = SimpleGeGLU(arguments.dim, arguments.hidden).to(device=device, dtype=dtype)
    x = torch.randn(arguments.batch, arguments.seq, arguments.dim, device=device, dtype=dtype)
    with torch.no_grad():
        expected = plain(x)

    swap = replace(plain)
    fused = swap.model
    assert isinstance(fused, GatedMLP), swap.refused
    choice = fused.explain(arguments.batch * arguments.seq)
    print(f"{swap.replaced[0].was} → {fused.activation} by the `{choice.path}` path: {choice.why}")

    with torch.no_grad(), foretrace.profile("mlp_fused", region="mlp_fwd", modules=fused, force=True) as session:
        for _ in session.steps():
            y = fused(x)
    difference = (y - expected).float().norm() / expected.float().norm()
    print(f"difference from before the swap: {difference:.1e} of the norm")
    print(foretrace.in_words(foretrace.read(session.files.trace)))


if __name__ == "__main__":
    main()
