"""Recurrent networks and cells are guessed as the GPU's own ops, with figures worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from foretrace.guess import guess


def ops(call: Any, *args: Any, **options: Any) -> list[tuple[str | None, str]]:
    """Op and class of each kernel but fills, about an H200 unless another device is named."""
    made = guess(call, *args, **{"on": "h200", **options})
    return [(k.op, k.op_class) for k in made.kernels if k.op_class != "fill"]


@pytest.mark.parametrize(
    ("network", "flops"),
    [
        (nn.LSTM(8, 16), 24_576),  # 2 · 8 rows · (64·8 + 64·16)
        (nn.LSTM(8, 16, proj_size=4), 13_312),  # 2 · 8 rows · (64·8 + 64·4 + 4·16)
        (nn.GRU(8, 16, num_layers=2, bidirectional=True, batch_first=True), 110_592),  # 2 · 8 · 2 · (48·24 + 48·48)
        (nn.RNN(8, 16, nonlinearity="relu"), 6_144),  # 2 · 8 · (16·8 + 16·16)
    ],
)
def test_a_network_is_one_op_of_cudnn(network: nn.Module, flops: int) -> None:
    """Kernels are not counted, which a note says; operations are: every row meets every weight matrix."""
    made = guess(network, torch.ones(4, 2, 8), on="h200")
    assert [(k.op, k.flops) for k in made.kernels if k.op_class != "fill"] == [("aten::_cudnn_rnn", flops)]
    assert any(note.startswith("cuDNN runs a whole ") and "cannot be told" in note for note in made.notes)


def test_a_packed_sequence_is_one_op_too() -> None:
    """The rows of all sequences in one tensor: 2 · 7 rows · (8·8 + 8·8)."""
    packed = nn.utils.rnn.pack_padded_sequence(torch.ones(4, 2, 8), torch.tensor([4, 3]))
    made = guess(nn.RNN(8, 8), packed, on="h200")
    assert [k.flops for k in made.kernels if k.op == "aten::_cudnn_rnn"] == [1_792]


def test_the_backward_of_a_network_is_one_op() -> None:
    """Its gradients come from `_cudnn_rnn_backward`, with twice the operations."""
    network = nn.LSTM(8, 16)
    made = guess(lambda x: network(x)[0].sum().backward(), torch.ones(4, 2, 8), on="h200")
    (last,) = (k for k in made.kernels if k.op == "aten::_cudnn_rnn_backward")
    assert (last.phase, last.flops) == ("backward", 49_152)


def test_amd_has_its_own_library() -> None:
    """MIOpen's op on an AMD device."""
    assert ops(nn.GRU(8, 16), torch.ones(4, 2, 8), on="mi300x") == [("aten::miopen_rnn", "gemm")]


def test_a_cell_is_two_products_and_a_fused_kernel() -> None:
    """Backward adds the fused gradient and its sums for biases (one of an LSTM's, two of a GRU's) and the products."""
    products, gemm = [("aten::mm", "gemm")] * 2, ("aten::mm", "gemm")
    x, sums = torch.ones(2, 8), ("aten::sum", "reduction")
    lstm, gru = nn.LSTMCell(8, 16), nn.GRUCell(8, 16)
    assert ops(lstm, x) == [*products, ("aten::_thnn_fused_lstm_cell", "pointwise")]
    assert ops(gru, x) == [*products, ("aten::_thnn_fused_gru_cell", "pointwise")]
    backward = ops(lambda x: lstm(x)[0].sum().backward(), x)[4:]
    assert backward == [("aten::_thnn_fused_lstm_cell_backward_impl", "pointwise"), sums, gemm, gemm]
    backward = ops(lambda x: gru(x).sum().backward(), x)[4:]
    assert backward == [("aten::_thnn_fused_gru_cell_backward", "pointwise"), sums, sums, gemm, gemm]


def test_inductor_fuses_a_compiled_cell() -> None:
    """Nothing stands in for the cell there: one graph, two products, generated kernels."""
    made = guess(nn.LSTMCell(8, 16), torch.ones(2, 8), on="h200", variant="compile")
    assert made.graphs == 1
    assert [k.op_class for k in made.kernels].count("gemm") == 2


def test_networks_run_as_ever_after_a_guess() -> None:
    """What stood in for them is gone."""
    torch.manual_seed(0)
    network = nn.LSTM(8, 8)
    before = network(torch.ones(2, 2, 8))[0]
    guess(network, torch.ones(2, 2, 8), on="h200")
    assert torch.equal(network(torch.ones(2, 2, 8))[0], before)
    assert before.abs().sum() > 0
