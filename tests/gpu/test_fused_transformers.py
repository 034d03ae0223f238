"""``replace`` on models of the transformers library, built from small configurations; on the CPU where installed."""

from __future__ import annotations

import copy

import pytest
import torch

from foretrace.fused import replace
from foretrace.fused.identify import OTHER

transformers = pytest.importorskip("transformers")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SIZES = {
    "vocab_size": 128,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "pad_token_id": 0,
}
# what each family's MLP computes, as its configuration says
MODELS = {
    "Llama": "silu",
    "Mistral": "silu",
    "Qwen2": "silu",
    "Qwen3": "silu",
    "Gemma": "gelu_tanh",
    "Gemma2": "gelu_tanh",
    "Gemma3Text": "gelu_tanh",
    "Phi3": "silu",
    "Granite": "silu",
    "Olmo2": "silu",
}
pytestmark = pytest.mark.filterwarnings("ignore")


def _model(family: str) -> torch.nn.Module:
    torch.manual_seed(0)
    config = getattr(transformers, f"{family}Config")(**SIZES)
    model: torch.nn.Module = transformers.AutoModelForCausalLM.from_config(config)
    return model.to(DEVICE).eval()


@pytest.mark.parametrize("family", MODELS)
def test_every_layer_is_replaced(family: str) -> None:
    """Both layers' MLPs are found with the family's activation, keys stay, and logits agree in fp32 to 1e-5."""
    model = _model(family)
    tokens = torch.arange(24, device=DEVICE).view(2, 12)
    keys = list(model.state_dict())
    with torch.no_grad():
        before = model(tokens).logits
        swap = replace(model)
        after = swap.model(tokens).logits
    assert [r.activation for r in swap.replaced] == [MODELS[family]] * 2
    assert swap.refused == ()
    assert list(model.state_dict()) == keys
    assert (after - before).norm() <= 1e-5 * before.norm()


def test_multipliers_are_refused() -> None:
    """Falcon-H1 scales gate and down: its MLPs stay, with the reason."""
    if not hasattr(transformers, "FalconH1Config"):
        pytest.skip("this transformers has no Falcon-H1")
    module = pytest.importorskip("transformers.models.falcon_h1.modeling_falcon_h1")
    config = transformers.FalconH1Config(hidden_size=64, intermediate_size=128, mlp_multipliers=[0.9, 1.1])
    swap = replace(torch.nn.Sequential(module.FalconH1MLP(config)))
    assert swap.replaced == ()
    assert [r.why for r in swap.refused] == [f"{OTHER}: it calls mul 3 times"]


@pytest.mark.gpu
@pytest.mark.skipif(DEVICE == "cpu", reason="no CUDA device")
@pytest.mark.parametrize("family", ["Llama", "Gemma"])
def test_bf16_logits_are_no_further_from_fp64(family: str) -> None:
    """In bf16 the swapped model's logits are no further from fp64's than 1.1 times the model's own were."""
    model = _model(family).bfloat16()
    tokens = torch.arange(24, device=DEVICE).view(2, 12)
    with torch.no_grad():
        exact = copy.deepcopy(model).double()(tokens).logits
        before = model(tokens).logits.double()
        after = replace(model).model(tokens).logits.double()
    assert (after - exact).norm() <= 1.1 * (before - exact).norm()
