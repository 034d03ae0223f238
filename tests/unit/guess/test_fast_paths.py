"""PyTorch's transformer modules in evaluation: what their own fused ops call on a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from foretrace.guess import guess

if TYPE_CHECKING:
    from foretrace.guess.api import Variant

BF16 = torch.bfloat16
LAYER = ["addmm", "_cudnn_attention_forward", "addmm", "add_", "native_layer_norm"]
LAYER += ["_addmm_activation", "addmm", "add_", "native_layer_norm"]


def ops(module: nn.Module, *args: torch.Tensor, **options: Any) -> list[str]:
    """Kernels by op, without the namespace."""
    return [(k.op or "").removeprefix("aten::") for k in guess(module, *args, on="h200", **options).kernels]


def layer(**options: Any) -> nn.Module:
    """A small one in bf16."""
    return nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, **options).to(BF16)


@pytest.mark.parametrize("variant", ["eager", "compile"])
def test_an_encoder_evaluates_in_nine_kernels_a_layer(variant: Variant) -> None:
    """Activations go into the epilogue and residuals are added in place; Inductor leaves the op whole."""
    model = nn.TransformerEncoder(layer(), 2).eval()
    made = guess(model, torch.ones(2, 16, 64, dtype=BF16), on="h200", variant=variant)
    assert [(k.op or "").removeprefix("aten::") for k in made.kernels] == [*LAYER, *LAYER]
    assert {k.source for k in made.kernels} == {"layers.0", "layers.1"}


def test_training_or_gradients_take_the_other_way() -> None:
    """With dropout, or where autograd records, every part is an op of its own."""
    x = torch.ones(2, 16, 64, dtype=BF16)
    assert "native_dropout" in ops(layer(), x)
    assert "relu" in ops(layer().eval(), x, grad=True)


def test_norms_may_come_first() -> None:
    """The same kernels in another order."""
    found = ops(layer(norm_first=True).eval(), torch.ones(2, 16, 64, dtype=BF16))
    assert found == [LAYER[4], *LAYER[:4], LAYER[8], *LAYER[5:8]]


def test_weights_that_are_asked_for_are_computed() -> None:
    """Attention gives its weights by default, and then takes two products and a softmax."""
    x = torch.ones(2, 16, 64, dtype=BF16)
    attention = nn.MultiheadAttention(64, 4, batch_first=True).to(BF16).eval()
    scores = ["mm", "_transform_bias_rescale_qkv", "bmm", "_softmax", "bmm", "copy_", "addmm"]
    assert ops(attention, x, x, x) == [*scores, "sum", "div_"]
    assert ops(attention, x, x, x, need_weights=False) == ["addmm", "_cudnn_attention_forward", "addmm"]


def test_a_mask_takes_the_way_with_scores() -> None:
    """One masked softmax instead of an attention kernel."""
    mask = torch.zeros(16, 16, dtype=torch.bool)
    assert "_masked_softmax" in ops(layer().eval(), torch.ones(2, 16, 64, dtype=BF16), mask)


def test_attention_beside_other_ops_compiles() -> None:
    """What attention calls there is in place until the graph's guards are made."""

    class Attends(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            """[B, H, T, D] → the same."""
            return functional.scaled_dot_product_attention(x @ x.mT @ x, x, x)

    assert "_cudnn_attention_forward" in ops(Attends(), torch.ones(1, 2, 16, 64, dtype=BF16), variant="compile")


def test_padding_is_computed_where_the_mask_is_unknown() -> None:
    """Whether it could be cut off depends on the mask's values, and the guess says what it took."""
    model = nn.TransformerEncoder(layer(), 1).eval()
    mask = torch.zeros(2, 16, dtype=torch.bool)
    made = guess(model, torch.ones(2, 16, 64, dtype=BF16), src_key_padding_mask=mask, on="h200")
    assert "aten::_masked_softmax" in [kernel.op for kernel in made.kernels]
    assert any(note.startswith("whether all padding comes last depends on data") for note in made.notes)
