"""The modules of the recorded traces, written from what is said of them, as factories that `foretrace guess` takes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable

Built = tuple[Any, tuple[Any, ...]]


class GeGLU(nn.Module):
    """``down(gelu(gate(x)) · up(x))``, no biases, in the order gate, GELU, up, mul, down."""

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(dim, hidden, bias=False)
        self.up_proj = nn.Linear(dim, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, dim, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[..., dim] → [..., dim]."""
        gate = functional.gelu(self.gate_proj(x), approximate="tanh")
        return self.down_proj(gate * self.up_proj(x))


def linear(*, rows: int, dim: int, out: int) -> Built:
    """One linear layer with a bias."""
    return nn.Linear(dim, out, dtype=torch.bfloat16), (_random(rows, dim),)


def geglu(*, batch: int, seq: int, dim: int, hidden: int, dtype: str = "bfloat16", mode: str = "") -> Built:
    """The articles' MLP; ``mode`` compiles it in one of ``torch.compile``'s modes."""
    kind = getattr(torch, dtype)
    model = GeGLU(dim, hidden).to(kind)
    called = torch.compile(model, mode=mode) if mode else model
    return called, (torch.randn(batch, seq, dim, dtype=kind),)


def attention(*, fused: bool) -> Built:
    """Causal attention over 16 heads of 64, by hand or by PyTorch."""

    def naive(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        hidden = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool, device=q.device).triu(1)
        return scores.masked_fill(hidden, float("-inf")).softmax(-1) @ v

    def sdpa(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    return (sdpa if fused else naive), tuple(_random(4, 16, 1024, 64) for _ in range(3))


def two_streams() -> Built:
    """The two projections once more beside the whole MLP (on streams of their own in the trace)."""
    model = GeGLU(768, 3072).to(torch.bfloat16)

    def step(x: torch.Tensor) -> torch.Tensor:
        model.gate_proj(x)
        model.up_proj(x)
        return model(x)

    return step, (_random(8, 128, 768),)


def read_back() -> Built:
    """The MLP, a sum that is read back, and a copy from pageable memory."""
    model = GeGLU(768, 3072).to(torch.bfloat16)

    def step(x: torch.Tensor, buffer: torch.Tensor, host: torch.Tensor) -> float:
        total = model(x).float().sum().item()
        buffer.copy_(host)
        return total

    return step, (_random(8, 128, 768), torch.zeros(1024, 1024), torch.zeros(1024, 1024))


def new_shape(*, seq: int) -> Built:
    """A compiled MLP on an input that is drawn in the step."""
    model = torch.compile(GeGLU(768, 3072).to(torch.bfloat16))
    return (lambda: model(_random(4, seq, 768))), ()


def train(*, compiled: bool = False) -> Built:
    """Forward, backward and AdamW of the MLP; the gradient of the output is given."""
    model = GeGLU(768, 3072).to(torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters())
    called: Callable[..., torch.Tensor] = torch.compile(model) if compiled else model
    x, grad = _random(64, 128, 768).requires_grad_(), _random(64, 128, 768)

    def step() -> None:
        x.grad = None
        called(x).backward(grad)
        optimizer.step()
        optimizer.zero_grad()

    return step, ()


class RmsNorm(nn.Module):
    """The root-mean-square norm in single ops, in f32."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[..., dim] → [..., dim]."""
        full = x.float()
        return self.weight * (full * torch.rsqrt(full.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype)


class Layer(nn.Module):
    """One decoder layer with rotary positions, grouped keys and values, an empty cache and SwiGLU."""

    def __init__(self, dim: int, heads: int, kv_heads: int, hidden: int) -> None:
        super().__init__()
        width = dim // heads
        self.heads, self.kv_heads, self.width = heads, kv_heads, width
        self.input_norm, self.mlp_norm = RmsNorm(dim), RmsNorm(dim)
        self.q_proj = nn.Linear(dim, dim, bias=False)
        self.k_proj = nn.Linear(dim, kv_heads * width, bias=False)
        self.v_proj = nn.Linear(dim, kv_heads * width, bias=False)
        self.o_proj = nn.Linear(dim, dim, bias=False)
        self.gate_proj = nn.Linear(dim, hidden, bias=False)
        self.up_proj = nn.Linear(dim, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, dim, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        """[batch, seq, dim] → the same; the rotary tables are [1, seq, width]."""
        x = x + self.attend(self.input_norm(x), cos.unsqueeze(1), sin.unsqueeze(1))
        y = self.mlp_norm(x)
        return x + self.down_proj(functional.silu(self.gate_proj(y)) * self.up_proj(y))

    def attend(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        """Attention, [batch, seq, dim] → the same."""
        batch, seq, _ = x.shape
        q = self.q_proj(x).view(batch, seq, self.heads, self.width).transpose(1, 2)
        k = self.k_proj(x).view(batch, seq, self.kv_heads, self.width).transpose(1, 2)
        v = self.v_proj(x).view(batch, seq, self.kv_heads, self.width).transpose(1, 2)
        q, k = q * cos + _rotated(q) * sin, k * cos + _rotated(k) * sin
        k = torch.cat([k.new_empty(0), k], dim=-2)
        v = torch.cat([v.new_empty(0), v], dim=-2)
        out = functional.scaled_dot_product_attention(q, k, v, is_causal=seq > 1, enable_gqa=True)
        return self.o_proj(out.transpose(1, 2).reshape(batch, seq, -1))


def _rotated(x: torch.Tensor) -> torch.Tensor:
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


class Llama(nn.Module):
    """A small Llama: 4 layers of width 1024 with 16 heads, 4 of them for keys and values, and 32,000 words."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(32_000, 1024)
        self.layers = nn.ModuleList(Layer(1024, 16, 4, 2816) for _ in range(4))
        self.norm = RmsNorm(1024)
        self.head = nn.Linear(1024, 32_000, bias=False)
        self.register_buffer("frequencies", torch.ones(32))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """[batch, seq] of words → [batch, seq, 32000] scores."""
        x = self.embed(tokens)
        positions = (torch.arange(tokens.shape[1], device=tokens.device) + 0).unsqueeze(0)
        angles = (self.frequencies[None, :, None].float() @ positions[:, None, :].float()).transpose(1, 2)
        both = torch.cat((angles, angles), dim=-1)
        cos, sin = both.cos() * 1.0, both.sin() * 1.0
        cos, sin = cos.to(x.dtype), sin.to(x.dtype)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.head(self.norm(x))


def llama(*, seq: int) -> Built:
    """The Llama on 4 sequences."""
    return Llama().to(torch.bfloat16), (torch.zeros(4, seq, dtype=torch.long),)


def _random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.bfloat16)
