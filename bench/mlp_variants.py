"""The articles' MLP with every hand-tuned variant at hand, and one that is slower on purpose: a target for profiles.

foretrace profile bench/mlp_variants.py:geglu --variants eager,compile,liger,fused -- --batch 1 --seq 512
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from foretrace.capture import register_variant
from foretrace.ladder import models

if TYPE_CHECKING:
    from collections.abc import Callable


def geglu(batch: int = 64, seq: int = 128, dim: int = 768, hidden: int = 3072) -> tuple[nn.Module, tuple[torch.Tensor]]:
    """The GeGLU MLP on the GPU, bf16."""
    return models.geglu(batch=batch, seq=seq, dim=dim, hidden=hidden, device="cuda")


class Slower(nn.Module):
    """The same with its output copied ``times`` times more: pointwise work that nobody asked for."""

    def __init__(self, inner: nn.Module, times: int) -> None:
        super().__init__()
        self.inner = inner
        self.times = times

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[..., dim] → [..., dim]."""
        y: torch.Tensor = self.inner(x)
        for _ in range(self.times):
            y = y * 1.0
        return y


def slower(batch: int = 64, seq: int = 128, times: int = 2) -> tuple[nn.Module, tuple[torch.Tensor]]:
    """The MLP with about 5 % more GPU time at the articles' shape (two passes over 12.6 MB, 6 to 7 µs each)."""
    model, arguments = geglu(batch, seq)
    return Slower(model, times), arguments


def _liger(call: Callable[..., object], _args: tuple[Any, ...], _kwargs: object) -> Callable[..., object]:
    from liger_kernel.ops import LigerGELUMulFunction  # noqa: PLC0415 - only this variant needs it

    assert isinstance(call, models.GeGLU), "the variant knows this file's module"
    call.multiply = LigerGELUMulFunction.apply
    return call


def _fused(call: Callable[..., object], _args: tuple[Any, ...], _kwargs: object) -> Callable[..., object]:
    from foretrace.fused import GeGLUMLP  # noqa: PLC0415 - only this variant needs it

    assert isinstance(call, models.GeGLU), "the variant knows this file's module"
    weight = call.gate_proj.weight
    layer = GeGLUMLP(weight.shape[1], weight.shape[0], approximate="tanh", device=weight.device, dtype=weight.dtype)
    layer.load_state_dict(call.state_dict())
    return layer


if importlib.util.find_spec("liger_kernel") is not None:
    register_variant("liger", _liger)
register_variant("fused", _fused)
