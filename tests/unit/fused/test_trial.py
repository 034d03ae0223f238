"""What one trial in fp32 and without gradients would not see: another rank, the gradients, the type, the input."""

from __future__ import annotations

import copy
import pickle
from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - PyTorch's own convention
from torch.utils.checkpoint import checkpoint

from foretrace.fused import find, replace

if TYPE_CHECKING:
    from collections.abc import Callable


class Mlp(nn.Module):
    """A gated MLP as everybody writes it."""

    def __init__(self) -> None:
        super().__init__()
        self.gate_proj, self.up_proj = nn.Linear(16, 24, bias=False), nn.Linear(16, 24, bias=False)
        self.down_proj = nn.Linear(24, 16, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """``[..., 16]`` to the same."""
        result: Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return result


class ClampsItsInput(Mlp):
    """Changes what it is given, and computes from that."""

    def forward(self, x: Tensor) -> Tensor:
        """As `Mlp`'s."""
        return super().forward(x.clamp_(min=0))


class ForgetsItsInput(Mlp):
    """The right results, and an input that is gone."""

    def forward(self, x: Tensor) -> Tensor:
        """As `Mlp`'s."""
        result = super().forward(x)
        x.zero_()
        return result


class LooksBack(Mlp):
    """Mixes a sequence's tokens, which rows alone do not have."""

    def forward(self, x: Tensor) -> Tensor:
        """As `Mlp`'s."""
        return super().forward(x.roll(1, 1) if x.dim() > 2 else x)


class SmoothsRows(Mlp):
    """Plain for sequences, another function of rows."""

    def forward(self, x: Tensor) -> Tensor:
        """As `Mlp`'s."""
        return super().forward(x - x.mean(0) if x.dim() == 2 else x)


class Detached(Mlp):
    """The gate is not learnt."""

    def forward(self, x: Tensor) -> Tensor:
        """As `Mlp`'s."""
        result: Tensor = self.down_proj(F.silu(self.gate_proj(x)).detach() * self.up_proj(x))
        return result


class WithoutAutograd(Mlp):
    """Nothing is learnt."""

    def forward(self, x: Tensor) -> Tensor:
        """As `Mlp`'s."""
        with torch.no_grad():
            return super().forward(x)


class FrozenWeight(Mlp):
    """One weight is used without its gradient."""

    def forward(self, x: Tensor) -> Tensor:
        """As `Mlp`'s."""
        result: Tensor = self.down_proj(F.silu(self.gate_proj(x)) * F.linear(x, self.up_proj.weight.detach()))
        return result


class Checkpointed(Mlp):
    """Keeps nothing for its backward, which a fused layer would."""

    def forward(self, x: Tensor) -> Tensor:
        """As `Mlp`'s."""
        result: Tensor = checkpoint(super().forward, x, use_reentrant=False)
        return result


class GivesFloat(Mlp):
    """Its result is fp32 whatever comes in."""

    def forward(self, x: Tensor) -> Tensor:
        """As `Mlp`'s."""
        return super().forward(x).float()


class Masked(Mlp):
    """A second input, which its model may give it."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """As `Mlp`'s."""
        result = super().forward(x)
        return result if mask is None else result * mask


class OnlySequences(Mlp):
    """Asks for three dimensions."""

    def forward(self, x: Tensor) -> Tensor:
        """``[batch, rows, 16]`` to the same."""
        batch, rows, dim = x.shape
        return super().forward(x.reshape(batch * rows, dim)).view(batch, rows, dim)


class OnlyRows(Mlp):
    """Asks for two."""

    def forward(self, x: Tensor) -> Tensor:
        """``[rows, 16]`` to the same."""
        rows, dim = x.shape
        return super().forward(x).view(rows, dim)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (ClampsItsInput, "it calls clamp_"),
        (ForgetsItsInput, "it calls zero_"),
        (LooksBack, "it calls roll"),
        (SmoothsRows, "it gives other results for [rows, dim] than for [batch, rows, dim]"),
        (Detached, "its gradients are not those of the formula"),
        (WithoutAutograd, "its gradients are not those of the formula"),
        (FrozenWeight, "its gradients are not those of the formula"),
        (Checkpointed, "as if a part were kept from autograd or checkpointed"),
        (GivesFloat, "of bf16 it makes float32"),
        (Masked, "its forward takes more than one input: mask"),
    ],
)
def test_what_is_no_plain_gated_mlp_is_refused(make: Callable[[], nn.Module], why: str) -> None:
    """Each of these gives the formula's result for some input, and is another thing for others."""
    swap = replace(nn.Sequential(make()))
    assert swap.replaced == ()
    assert why in swap.refused[0].why


@pytest.mark.parametrize(("make", "shape"), [(OnlySequences, (2, 3, 16)), (OnlyRows, (6, 16))])
def test_a_module_may_ask_for_its_rank(make: Callable[[], nn.Module], shape: tuple[int, ...]) -> None:
    """Taking only sequences, or only rows, is no reason to refuse it."""
    model = nn.Sequential(make())
    before = copy.deepcopy(model)
    swap = replace(model)
    assert [one.activation for one in swap.replaced] == ["silu"]
    x = torch.randn(shape)
    torch.testing.assert_close(swap.model(x), before(x))
    torch.testing.assert_close(pickle.loads(pickle.dumps(swap.model))(x), before(x))


def test_a_weight_for_two_is_refused_in_words() -> None:
    """Gate and up that share their weight cannot be told apart by trying."""
    mlp = Mlp()
    mlp.up_proj.weight = mlp.gate_proj.weight
    assert replace(nn.Sequential(mlp)).refused[0].why == "`gate_proj` and `up_proj` share a parameter"


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")  # PyTorch's, of its quantization
def test_what_hides_its_weights_is_named() -> None:
    """Quantized linears have no parameters, and parametrized ones have hooks; neither is a matter of shapes."""
    quantized = torch.ao.quantization.quantize_dynamic(nn.Sequential(Mlp()), dtype=torch.qint8)
    assert "quantized" in replace(quantized).refused[0].why
    mlp = Mlp()
    nn.utils.parametrizations.weight_norm(mlp.up_proj)
    assert replace(nn.Sequential(mlp)).refused[0].why == "`up_proj` is parametrized"


def test_it_is_tried_wherever_it_is_asked_for() -> None:
    """Inside of inference mode and without gradients, as outside."""
    with torch.inference_mode():
        assert len(replace(nn.Sequential(Mlp())).replaced) == 1
    with torch.no_grad():
        swap = replace(nn.Sequential(Mlp()))
    assert len(swap.replaced) == 1
    assert all(parameter.grad is None and parameter.requires_grad for parameter in swap.model.parameters())


def test_attention_is_no_candidate() -> None:
    """Three square projections and a mask are attention; without more inputs they may be a gated MLP."""

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.query, self.key, self.value = (nn.Linear(16, 16) for _ in range(3))

        def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
            """``[batch, rows, 16]`` to the same."""
            result: Tensor = F.scaled_dot_product_attention(self.query(x), self.key(x), self.value(x), mask)
            return result

    assert find(nn.Sequential(Attention())) == {}
