"""The product kernels in Triton's interpreter: fp16 and fp32, as its bf16 products are not right."""

from __future__ import annotations

import pytest
import torch

from foretrace.fused import reference
from foretrace.fused.kernels import gated_forward, rows


def _tensors(m: int, dim: int, hidden: int, dtype: torch.dtype) -> list[torch.Tensor]:
    shapes = (((m, dim), 1), ((hidden, dim), dim), ((hidden, dim), dim), ((dim, hidden), hidden))
    return [(torch.randn(s) / n**0.5).to(dtype) for s, n in shapes]


def _close(found: torch.Tensor, expected: torch.Tensor, dtype: torch.dtype) -> bool:
    # fp16 rounds h and the output once each: 2 x 2^-11 / sqrt(3) = 5.6e-4 of the norm at most; fp32 is exact to 1e-6
    bound = 6e-4 if dtype == torch.float16 else 1e-6
    return bool((found.double() - expected).norm() <= bound * expected.norm())


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
@pytest.mark.parametrize("shape", [(1, 128, 512), (5, 127, 431), (33, 64, 1024)])
def test_few_rows(shape: tuple[int, int, int], dtype: torch.dtype) -> None:
    """The pair of kernels for 1 to 64 rows, K split where it is long, sizes that fill no tile."""
    tensors = _tensors(*shape, dtype)
    expected = reference.gated_mlp(*(t.double() for t in tensors), activation="silu")
    assert _close(rows.forward(*tensors, "silu"), expected, dtype)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh", "none"])
def test_gated_product(activation: str, dtype: torch.dtype) -> None:
    """h, and gate and up where they are saved, from x of odd sizes and a row stride of its own."""
    x, gate, up, _ = _tensors(37, 40, 45, dtype)
    x = torch.cat((x, x), 1)[:, :40]
    h, saved_gate, saved_up = (torch.full((37, 45), torch.nan, dtype=dtype) for _ in range(3))
    small = gated_forward.Config(bm=16, bn=16, bk=16)
    gated_forward.gated_forward(x, gate, up, h, (saved_gate, saved_up), activation, small)
    exact_gate, exact_up = x.double() @ gate.double().t(), x.double() @ up.double().t()
    assert _close(saved_gate, exact_gate, dtype)
    assert _close(saved_up, exact_up, dtype)
    assert _close(h, reference.glu(exact_gate, exact_up, activation), dtype)
