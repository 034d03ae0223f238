"""Factories that the tests guess at, as a user would write them."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional


class GeGLU(nn.Module):
    """A gated MLP, in the order gate, GELU, up, mul, down; optionally with a norm, biases or a graph break."""

    def __init__(self, dim: int, hidden: int, *, norm: bool, bias: bool, split: bool) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim) if norm else nn.Identity()
        self.gate_proj = nn.Linear(dim, hidden, bias=bias)
        self.up_proj = nn.Linear(dim, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, dim, bias=False)
        self.split = split

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[..., dim] → [..., dim]."""
        x = self.norm(x)
        gate = functional.gelu(self.gate_proj(x), approximate="tanh")
        if self.split:
            torch._dynamo.graph_break()
        return self.down_proj(gate * self.up_proj(x))


def geglu(
    *,
    batch: int = 64,
    seq: int = 128,
    dim: int = 768,
    hidden: int = 3072,
    norm: bool = False,
    bias: bool = False,
    split: bool = False,
    device: str = "cuda",
) -> tuple[nn.Module, tuple[torch.Tensor]]:
    """The articles' MLP in bf16, on the device that a user's code would name."""
    model = GeGLU(dim, hidden, norm=norm, bias=bias, split=split).to(device, torch.bfloat16)
    return model, (torch.randn(batch, seq, dim, device=device, dtype=torch.bfloat16),)


def linear(
    *, rows: int = 8192, dim: int = 4096, out: int = 4096, bias: bool = True
) -> tuple[nn.Module, tuple[torch.Tensor]]:
    """One linear layer."""
    return nn.Linear(dim, out, bias=bias, dtype=torch.bfloat16), (torch.randn(rows, dim, dtype=torch.bfloat16),)


def training() -> tuple[Any, tuple[()]]:
    """A whole step of training: forward, backward and AdamW."""
    model, (x,) = geglu()
    optimizer = torch.optim.AdamW(model.parameters())
    x.requires_grad_()
    grad = torch.randn_like(x)

    def step() -> None:
        x.grad = None
        model(x).backward(grad)
        optimizer.step()
        optimizer.zero_grad()

    return step, ()


def failing() -> tuple[Any, tuple[()]]:
    """A call that raises."""

    def call() -> None:
        raise ValueError("the tokens are missing")

    return call, ()
