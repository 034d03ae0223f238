"""Factories with gated MLPs: plain ones, those of a Llama, and one that must be refused."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - PyTorch's own convention


class Plain(nn.Module):
    """Three linears under names of their own, and exact GELU."""

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.w1, self.w3 = nn.Linear(dim, hidden), nn.Linear(dim, hidden)
        self.w2 = nn.Linear(hidden, dim)

    def forward(self, x: Tensor) -> Tensor:
        """``[..., dim]`` to the same."""
        out: Tensor = self.w2(F.gelu(self.w1(x)) * self.w3(x))
        return out

    def twice(self, x: Tensor) -> Tensor:
        """A method that a fused layer does not have."""
        out: Tensor = self(self(x))
        return out


class LlamaMLP(nn.Module):
    """As in a Llama; ``multiplier`` is what a Granite or muP model would put in."""

    def __init__(self, dim: int, hidden: int, multiplier: float = 1.0) -> None:
        super().__init__()
        self.gate_proj, self.up_proj = (nn.Linear(dim, hidden, bias=False) for _ in range(2))
        self.down_proj = nn.Linear(hidden, dim, bias=False)
        self.act_fn, self.multiplier = nn.SiLU(), multiplier

    def forward(self, hidden_state: Tensor) -> Tensor:
        """``[..., dim]`` to the same."""
        both = self.act_fn(self.gate_proj(hidden_state)) * self.up_proj(hidden_state)
        out: Tensor = self.down_proj(both * self.multiplier)
        return out


class Block(nn.Module):
    """A residual block around an MLP."""

    def __init__(self, mlp: nn.Module, dropout: float) -> None:
        super().__init__()
        self.norm, self.mlp, self.dropout = nn.LayerNorm(16), mlp, nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """``[batch, seq, 16]`` to the same."""
        out: Tensor = x + self.dropout(self.mlp(self.norm(x)))
        return out


class Generator(nn.Module):
    """A model with another method than its forward."""

    def __init__(self) -> None:
        super().__init__()
        self.mlp = Plain(16, 24)

    def generate(self, x: Tensor) -> Tensor:
        """All rows, then each alone."""
        return torch.cat([self.mlp(x), *(self.mlp(row) for row in x.split(1))])


def plain() -> tuple[nn.Module, tuple[Tensor]]:
    """A gated MLP that is the whole model, in fp32."""
    return Plain(16, 24), (torch.randn(6, 16),)


def method() -> tuple[object, tuple[Tensor]]:
    """The same inside a model, which is called through a method."""
    return Generator().generate, (torch.randn(6, 16),)


def lost_method() -> tuple[object, tuple[Tensor]]:
    """A method of the gated MLP itself."""
    return Plain(16, 24).twice, (torch.randn(6, 16),)


def llama(layers: int = 2, multiplier: float = 1.0, dropout: float = 0.0) -> tuple[nn.Module, tuple[Tensor]]:
    """A stack in bf16 whose last layer alone has the multiplier."""
    mlps = [LlamaMLP(16, 32, multiplier if i == layers - 1 else 1.0) for i in range(layers)]
    model = nn.Sequential(*(Block(mlp, dropout) for mlp in mlps))
    return model.to(torch.bfloat16), (torch.randn(2, 5, 16, dtype=torch.bfloat16),)


class Idle(nn.Module):
    """An expert that no token is routed to."""

    def __init__(self) -> None:
        super().__init__()
        self.router, self.expert = nn.Linear(16, 16), Plain(16, 24)

    def forward(self, x: Tensor) -> Tensor:
        """``[rows, 16]`` to the same."""
        return torch.cat([self.router(x), self.expert(x[:0])])


def idle() -> tuple[nn.Module, tuple[Tensor]]:
    """A gated MLP that is called with no rows."""
    return Idle(), (torch.randn(6, 16),)


def linear() -> tuple[nn.Module, tuple[Tensor]]:
    """No gated MLP anywhere."""
    return nn.Linear(4, 4), (torch.randn(2, 4),)


def function() -> tuple[object, tuple[Tensor]]:
    """A function that hides its model."""
    model = Plain(16, 24)
    return lambda x: model(x), (torch.randn(6, 16),)  # noqa: PLW0108 - the point


def infinite() -> tuple[nn.Module, tuple[Tensor]]:
    """Results that no tolerance can judge."""
    return Plain(16, 24), (torch.full((6, 16), float("inf")),)


def large() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A gated MLP of an article's sizes in bf16, with 8,192 rows: seconds of work on a CPU."""
    return LlamaMLP(768, 3072).to(torch.bfloat16), (torch.empty(64, 128, 768, dtype=torch.bfloat16),)


def mixed() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """The same with its down projection in fp32, under autocast."""
    mlp, (x,) = large()
    assert isinstance(mlp, LlamaMLP)
    mlp.down_proj.float()
    return Autocast(mlp), (x,)


class Autocast(nn.Module):
    """Calls a module under autocast to bf16."""

    def __init__(self, mlp: nn.Module) -> None:
        super().__init__()
        self.mlp = mlp

    def forward(self, x: Tensor) -> Tensor:
        """As the module's."""
        with torch.autocast("cpu", torch.bfloat16):
            out: Tensor = self.mlp(x)
        return out
