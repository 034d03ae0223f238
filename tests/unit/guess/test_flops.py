"""FLOPs of a guess are those that PyTorch's own counter finds, for what it counts."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

from foretrace.guess import guess

MATRIX = {"gemm", "conv", "attention"}


class Mixed(nn.Module):
    """A convolution, projections with and without a bias, a batched product and a matrix-vector product."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False)
        self.inner, self.head = nn.Linear(64, 48), nn.Linear(48, 7, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[n, 3, 16, 16] → [n, 8, 7]."""
        tokens = self.inner(self.conv(x).flatten(2).softmax(-1))
        mixed = tokens @ tokens.transpose(1, 2) @ tokens
        return self.head(mixed)


def _counted(call: Any, *args: Any) -> int:
    with FlopCounterMode(display=False) as counter:
        call(*args)
    return int(counter.get_total_flops())


def _guessed(call: Any, *args: Any, grad: bool | None = None) -> int:
    kernels = guess(call, *args, on="h200", grad=grad).kernels
    return sum(kernel.flops or 0 for kernel in kernels if kernel.op_class in MATRIX)


def test_forward_of_many_products() -> None:
    """Convolution, addmm, bmm and mm together, each written down from its sizes."""
    x = torch.randn(4, 3, 16, 16)
    conv = 2 * 4 * 8 * 64 * 27  # images × channels × positions × (3 · 3 · 3)
    gemms = 2 * 32 * 64 * 48 + 2 * 4 * 8 * 8 * 48 * 2 + 2 * 32 * 48 * 7
    assert _guessed(Mixed(), x) == conv + gemms
    assert _counted(Mixed(), x) == conv + gemms


def test_forward_and_backward() -> None:
    """A step of training: the counter and the guess agree on the backward's products too."""
    model, x = Mixed(), torch.randn(4, 3, 16, 16)

    def step() -> None:
        model(x).sum().backward()

    assert _guessed(step) == _counted(step) > 0


@pytest.mark.parametrize("causal", [False, True])
def test_attention(*, causal: bool) -> None:
    """The counter takes a causal mask for none; the guess counts what the mask leaves, half of it."""
    q, k, v = (torch.randn(2, 4, 32, 16, dtype=torch.bfloat16) for _ in range(3))

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    whole = 2 * 2 * 4 * 32 * 32 * (16 + 16)  # a multiply-add for each pair, head and width, for scores and values
    assert sdpa_flop_count(q.shape, k.shape, v.shape) == whole
    assert _guessed(attend, q, k, v) == (whole // 2 if causal else whole)
