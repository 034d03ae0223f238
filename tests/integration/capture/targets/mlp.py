"""Factories that the capture tests profile."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional


class GeGLU(nn.Module):
    """A gated MLP without biases."""

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(dim, hidden, bias=False)
        self.up_proj = nn.Linear(dim, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, dim, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``[rows, dim]`` to ``[rows, dim]``."""
        return self.down_proj(functional.gelu(self.gate_proj(x), approximate="tanh") * self.up_proj(x))


def geglu(dim: int = 16, hidden: int = 32, rows: int = 4, device: str = "cpu") -> tuple[nn.Module, tuple[torch.Tensor]]:
    """A small MLP and its input."""
    return GeGLU(dim, hidden).to(device), (torch.randn(rows, dim, device=device),)


def training(dim: int = 16) -> tuple[object, tuple[()]]:
    """A step of training that takes no arguments."""
    model = GeGLU(dim, dim)
    x = torch.randn(4, dim)

    def step() -> None:
        model(x).sum().backward()

    return step, ()


def scaled(*, factor: float) -> tuple[object, tuple[torch.Tensor], dict[str, float]]:
    """A function with keyword arguments."""

    def scale(x: torch.Tensor, *, by: float) -> torch.Tensor:
        return x * by

    return scale, (torch.ones(8),), {"by": factor}


def wrong_shapes() -> tuple[nn.Module, tuple[torch.Tensor]]:
    """A module that cannot take its input."""
    return nn.Linear(3, 3), (torch.ones(2, 5),)


def not_a_tuple() -> tuple[nn.Module, torch.Tensor]:
    """The mistake of writing ``model, x``."""
    return nn.Linear(3, 3), torch.ones(2, 3)


def failing() -> None:
    """A factory that raises."""
    raise RuntimeError("no checkpoint here")


not_callable = 3
