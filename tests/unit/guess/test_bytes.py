"""Bytes and sizes of what an op launches beside its own kernel, counted by hand."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from foretrace.guess import guess


def table(call: Any, *args: Any, grad: bool = False) -> list[tuple[str, int | None]]:
    """Each kernel's op, without the namespace, and its bytes."""
    made = guess(call, *args, on="h200", grad=grad)
    return [((k.op or "").removeprefix("aten::"), k.bytes) for k in made.kernels]


def test_a_convolution_and_its_bias() -> None:
    """The bias is added to the whole result, and its gradient sums a whole gradient."""
    x = torch.ones(2, 3, 8, 8, requires_grad=True)
    out, weight = 2 * 4 * 6 * 6 * 4, 4 * 3 * 9 * 4
    conv = nn.Conv2d(3, 4, 3)
    assert table(conv, x)[1] == ("add_", 2 * out + 4 * 4)
    made = guess(lambda t: conv(t).square().sum().backward(), x, on="h200")
    dgrad, wgrad, bias = [k for k in made.kernels if k.phase == "backward"][-3:]
    assert dgrad.bytes == wgrad.bytes == out + weight + 2 * 3 * 64 * 4
    assert (bias.op, bias.bytes) == ("aten::sum", out + 4 * 4)
    assert dgrad.flops == wgrad.flops == made.kernels[0].flops == 2 * 2 * 4 * 36 * 27


def test_whose_convolution_it_is() -> None:
    """A transposed one says so; one channel a group in fp32 is PyTorch's own kernel, with its bias inside."""
    x = torch.ones(2, 8, 8, 8)
    assert table(nn.ConvTranspose2d(8, 4, 2, bias=False), x)[0][0] == "cudnn_convolution_transpose"
    depthwise = nn.Conv2d(8, 8, 3, groups=8)
    assert [op for op, _ in table(depthwise, x)] == ["_conv_depthwise2d"]
    assert [op for op, _ in table(nn.Conv1d(8, 8, 3, groups=8), x[0])] == ["_conv_depthwise2d"]
    last = x.to(memory_format=torch.channels_last)
    assert [op for op, _ in table(depthwise, last)] == ["cudnn_convolution", "add_"]


@pytest.mark.parametrize(
    ("norm", "x", "ops"),
    [
        (nn.BatchNorm2d(4), torch.ones(2, 4, 3, 3), ["add_", "cudnn_batch_norm"]),
        (nn.BatchNorm2d(4).bfloat16(), torch.ones(2, 4, 3, 3).bfloat16(), ["add_", *["native_batch_norm"] * 3]),
        (nn.BatchNorm1d(4), torch.ones(2, 4), ["add_", *["native_batch_norm"] * 3]),
        (nn.BatchNorm1d(4).eval(), torch.ones(2, 4), ["native_batch_norm"]),
        (nn.InstanceNorm2d(4), torch.ones(2, 4, 3, 3), ["native_batch_norm"] * 3),
    ],
)
def test_whose_batch_norm_it_is(norm: nn.Module, x: torch.Tensor, ops: list[str]) -> None:
    """CuDNN has fp32 weights and images; PyTorch the rest, in three kernels where statistics are taken."""
    assert [op for op, _ in table(norm, x)] == ops


def test_what_the_table_does_not_say() -> None:
    """Each tensor once in and once out; of an indexed one as much as comes out."""
    x = torch.ones(2, 4, 8, 8)
    assert table(lambda t: functional.interpolate(t, scale_factor=2.0), x) == [
        ("upsample_nearest2d", 5 * x.numel() * 4)
    ]
    assert table(lambda _: torch.arange(64), x) == [("arange", 64 * 8)]
    rows = torch.zeros(3, dtype=torch.long)
    assert table(lambda t: t[rows], torch.ones(1000, 8)) == [("index", 2 * 3 * 8 * 4 + 3 * 8)]


def test_zeros_are_written_once() -> None:
    """A gradient put into zeros costs the zeros and what is put, not the table twice."""
    weight = torch.ones(1000, 8, requires_grad=True)
    rows = torch.zeros(3, dtype=torch.long)
    backward = table(lambda w: functional.embedding(rows, w).sum().backward(), weight, grad=True)[-2:]
    assert backward == [("fill_", 1000 * 8 * 4), ("embedding_dense_backward", 2 * 3 * 8 * 4 + 3 * 8)]
    assert table(lambda t: functional.pad(t, (1, 1)), torch.ones(4, 8)) == [
        ("fill_", 4 * 10 * 4),
        ("copy_", 2 * 4 * 8 * 4),
    ]


def test_losses_end_in_a_reduction() -> None:
    """A value an element, then their mean."""
    x = torch.ones(4, 8)
    for loss in (functional.mse_loss, functional.smooth_l1_loss, functional.huber_loss):
        assert table(loss, x, x) == [(loss.__name__, 3 * 32 * 4), ("mean", 32 * 4 + 4)]


def test_a_loss_with_weights_is_reduced_and_copied() -> None:
    """Binary cross entropy multiplies by weights after its kernel, and its result takes the place of the losses."""
    x = torch.ones(4, 8)
    names = [name for name, _ in table(lambda t: functional.binary_cross_entropy(t, t, weight=t), x)]
    assert names == ["binary_cross_entropy", "mul_", "mean", "copy_"]
    assert [name for name, _ in table(lambda t: functional.binary_cross_entropy(t, t, reduction="none"), x)] == names[
        :1
    ]
