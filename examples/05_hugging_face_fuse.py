"""Decoders of the transformers library, built from a configuration: guess what fused MLPs buy a model, then look.

pip install 'foretrace[torch,fused]' 'torch<2.12' transformers
foretrace fuse 05_hugging_face_fuse.py:gemma --check --measure
foretrace fuse 05_hugging_face_fuse.py:llama --check --measure -- --layers 4 --batch 2 --seq 4096
"""

from __future__ import annotations

from typing import Any

import torch
import transformers
from torch import nn

VOCABULARY = 1024


def gemma(
    *, layers: int = 2, batch: int = 1, seq: int = 4096, dim: int = 2048, hidden: int = 16384, heads: int = 8
) -> tuple[nn.Module, tuple[torch.Tensor], dict[str, Any]]:
    """Layers as wide as Gemma 2B's: tanh GELU, one head of keys and values."""
    return _decoder("Gemma", layers, (batch, seq), (dim, hidden), (heads, 1))


def llama(
    *, layers: int = 2, batch: int = 1, seq: int = 4096, dim: int = 4096, hidden: int = 14336, heads: int = 32
) -> tuple[nn.Module, tuple[torch.Tensor], dict[str, Any]]:
    """Layers as wide as Llama 3 8B's: SiLU, a quarter as many heads of keys and values."""
    return _decoder("Llama", layers, (batch, seq), (dim, hidden), (heads, max(1, heads // 4)))


def _decoder(
    family: str, layers: int, shape: tuple[int, int], widths: tuple[int, int], heads: tuple[int, int]
) -> tuple[nn.Module, tuple[torch.Tensor], dict[str, Any]]:
    """A decoder in bf16 for inference with a head over a small vocabulary, and tokens [batch, seq] to call it with."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    config = getattr(transformers, f"{family}Config")(
        num_hidden_layers=layers,
        hidden_size=widths[0],
        intermediate_size=widths[1],
        num_attention_heads=heads[0],
        num_key_value_heads=heads[1],
        head_dim=widths[0] // heads[0],
        vocab_size=VOCABULARY,
        max_position_embeddings=max(8192, shape[1]),
        pad_token_id=0,
    )
    auto: Any = transformers.AutoModelForCausalLM
    with torch.device(device):
        model: nn.Module = auto.from_config(config, dtype=torch.bfloat16)
    tokens = torch.randint(1, VOCABULARY, shape, device=device)
    return model.eval(), (tokens,), {"use_cache": False}
