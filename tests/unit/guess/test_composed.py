"""Ops that are written in others: what a trace has are the others."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from foretrace.guess import guess


def ops(call: Any, *args: Any, **options: Any) -> list[str]:
    """Kernels by op, without the namespace."""
    return [(k.op or "").removeprefix("aten::") for k in guess(call, *args, on="h200", **options).kernels]


class Mixed(nn.Module):
    """Ops that autograd takes apart: convolution, batch norm, linear, softmax, reshaping."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.linear = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[N, 3, H, W] → [N, H - 2, W - 2, 8]."""
        return self.linear(self.norm(self.conv(x)).permute(0, 2, 3, 1).contiguous()).log_softmax(-1)


@pytest.mark.parametrize("context", [torch.inference_mode, torch.no_grad])
def test_inference_mode_is_what_no_grad_is(context: Any) -> None:
    """In inference mode PyTorch hands on whole ops; a GPU runs the same kernels as without gradients."""
    model = Mixed().eval()

    def call(x: torch.Tensor) -> torch.Tensor:
        with context():
            return model(x)

    expected = ["cudnn_convolution", "add_", "cudnn_batch_norm", "copy_", "addmm", "_log_softmax"]
    assert ops(call, torch.ones(2, 3, 8, 8)) == expected


def test_inference_mode_with_autocast() -> None:
    """The casts are there too."""
    layer = nn.Linear(8, 8, bias=False)

    def call(x: torch.Tensor) -> torch.Tensor:
        with torch.inference_mode(), torch.autocast("cuda", dtype=torch.bfloat16):
            return layer(x)

    assert ops(call, torch.ones(2, 8)) == ["copy_", "copy_", "mm"]


def test_a_loss_of_several_kernels() -> None:
    """PyTorch writes it in pointwise ops and a mean, for every device."""
    x = torch.ones(4, 4)
    found = ops(functional.binary_cross_entropy_with_logits, x, x, grad=False)
    assert found == ["log_sigmoid_forward", "fill_", "sub_", "mul_", "sub_", "mean"]


def test_what_the_table_does_not_know_is_taken_apart() -> None:
    """A matrix of distances is a product and what prepares it."""
    x = torch.ones(64, 8)
    assert "mm" in ops(lambda t: torch.cdist(t, t), x)
    assert ops(torch.isinf, x) == ["abs", "eq"]


def test_a_logsumexp_is_its_parts() -> None:
    """Its result is written by another op that is taken apart too, into a tensor that grows on the way."""
    found = ["amax", "abs", "eq", "masked_fill_", "sub", "exp_", "sum", "log_", "add_"]
    assert ops(lambda t: t.logsumexp(-1), torch.ones(4, 8), grad=False) == found


def test_an_empty_tensor_takes_a_result() -> None:
    """It is made as large as what is written."""
    assert ops(lambda t: torch.sum(t, -1, out=torch.empty(0)), torch.ones(4, 8), grad=False) == ["sum"]
