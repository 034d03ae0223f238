"""Autocasting as an accelerator does it, on a machine without one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from foretrace.guess import guess, guess_built

if TYPE_CHECKING:
    from collections.abc import Callable

    from foretrace.verdict import Guess

BF16, F16 = torch.bfloat16, torch.float16


def under_autocast(function: Callable[..., Any], *args: Any, dtype: torch.dtype = BF16, device: str = "cuda") -> Guess:
    """The guess of ``function`` inside of ``torch.autocast``, about an H200."""

    def call(*given: Any) -> Any:
        with torch.autocast(device, dtype=dtype):
            return function(*given)

    return guess(call, *args, on="h200", grad=False)


def seen(made: Guess) -> list[tuple[str, str | None]]:
    """Each kernel's op, without the namespace, and the type it reads."""
    return [((k.op or "").removeprefix("aten::"), k.dtype) for k in made.kernels]


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_ops_that_need_range_are_cast_to_fp32(device: str) -> None:
    """Softmax, the norms, ``exp`` and ``pow`` run in fp32 there; the CPU's own autocast leaves them in bf16."""
    x = torch.ones(4, 8, dtype=BF16)
    copied = ("copy_", "bf16")
    assert seen(under_autocast(lambda t: t.softmax(-1), x, device=device)) == [copied, ("_softmax", "f32")]
    assert seen(under_autocast(torch.exp, x, device=device)) == [copied, ("exp", "f32")]
    assert seen(under_autocast(lambda t: t**2, x, device=device)) == [copied, ("pow", "f32")]
    normed = under_autocast(lambda t: functional.layer_norm(t, (8,)), x, device=device)
    assert seen(normed) == [copied, ("native_layer_norm", "f32")]
    assert seen(under_autocast(lambda t: functional.rms_norm(t, (8,)), x, device=device))[0] == copied


def test_a_sum_has_its_result_in_fp32() -> None:
    """One kernel that reads bf16 and writes fp32."""
    (kernel,) = under_autocast(lambda t: t.sum(-1), torch.ones(4, 8, dtype=BF16)).kernels
    assert (kernel.dtype, kernel.bytes) == ("bf16", 4 * 8 * 2 + 4 * 4)


def test_a_product_and_sampling_read_the_lower_type() -> None:
    """The CPU casts both to fp32; an accelerator multiplies on the way, and samples in the widest type of the two."""
    x, grid = torch.ones(1, 2, 4, 8, dtype=BF16), torch.zeros(1, 2, 2, 2, dtype=BF16)
    assert seen(under_autocast(lambda t: t.prod(), x)) == [("prod", "bf16")]
    assert seen(under_autocast(lambda t: t.prod(1), x)) == [("prod", "bf16")]
    sampled = under_autocast(lambda t, at: functional.grid_sample(t, at, align_corners=False), x, grid)
    assert seen(sampled) == [("grid_sampler_2d", "bf16")]


def test_half_precision_softmax_casts_on_its_way() -> None:
    """fp16 to fp32 is one kernel, asked for by autocast or by hand; bf16 is cast first."""
    x = torch.ones(4, 8, dtype=F16)
    assert seen(under_autocast(lambda t: t.log_softmax(-1), x, dtype=F16)) == [("_log_softmax", "f16")]
    by_hand = guess(lambda t: functional.softmax(t, dim=-1, dtype=torch.float32), x, grad=False)
    assert seen(by_hand) == [("_softmax", "f16")]
    by_hand = guess(lambda t: functional.softmax(t, dim=-1, dtype=torch.float32), x.bfloat16(), grad=False)
    assert seen(by_hand) == [("copy_", "bf16"), ("_softmax", "f32")]


def test_what_only_the_cpu_casts_is_left_alone() -> None:
    """Padding by reflection stays in bf16, which the CPU would cast."""
    made = under_autocast(lambda t: functional.pad(t, (1, 1), mode="reflect"), torch.ones(1, 4, 8, dtype=BF16))
    assert seen(made)[0][0] == "reflection_pad1d"


def test_operands_meet_in_the_widest_type() -> None:
    """``scatter_add`` of bf16 into fp32 raises without autocast; inside, the smaller one is cast."""
    index = torch.zeros(4, 8, dtype=torch.long)
    made = under_autocast(lambda a, b: a.scatter_add(0, index, b), torch.ones(4, 8), torch.ones(4, 8, dtype=BF16))
    assert ("copy_", "bf16") in seen(made)


def test_attention_takes_the_lower_type() -> None:
    """Queries that a rotary embedding made fp32 are cast before a backend is chosen."""
    q, k = torch.ones(2, 4, 64, 32), torch.ones(2, 4, 64, 32, dtype=BF16)
    made = under_autocast(functional.scaled_dot_product_attention, q, k, k)
    assert seen(made) == [("copy_", "f32"), ("_cudnn_attention_forward", "bf16")]


def test_nothing_is_left_behind() -> None:
    """After a guess the CPU's autocast is the CPU's own."""
    under_autocast(lambda t: t.softmax(-1), torch.ones(4, 8, dtype=BF16))
    with torch.autocast("cpu", dtype=BF16):
        assert torch.ones(4, 8, dtype=BF16).softmax(-1).dtype == BF16


def scaled_step() -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """A step of mixed precision as PyTorch's own documentation has it."""
    layer = nn.Linear(64, 64)
    optimizer, scaler = torch.optim.SGD(layer.parameters(), lr=0.1), torch.amp.GradScaler()

    def step(x: torch.Tensor) -> None:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=F16):
            loss = functional.mse_loss(layer(x), x)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    return step, (torch.ones(8, 64),), {}


def test_a_scaled_step_is_taken() -> None:
    """The scaler scales, checks and unscales as if there were a GPU, looks once, and the optimizer steps."""
    made = guess_built(scaled_step, on="h200")
    ops = [op for op, _ in seen(made)]
    unscaled = ops.index("_amp_foreach_non_finite_check_and_unscale_")
    assert ops[unscaled + 1 :] == ["_local_scalar_dense", "_foreach_add_", "_amp_update_scale_"]
    assert not any("assumed" in note for note in made.notes)


def test_a_compiled_step_with_autocast() -> None:
    """A context inside of what is compiled, and the module in it, break no graph."""
    layer = nn.Linear(64, 64)

    def step(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cuda", dtype=BF16):
            return layer(x).softmax(-1)

    made = guess_built(lambda: (step, (torch.ones(8, 64),), {}), on="h200", variant="compile", grad=False)
    assert (made.graphs, made.breaks) == (1, ())
    assert [k.op for k in made.kernels if k.op_class == "gemm"] == ["aten::addmm"]
    assert "softmax" in (made.kernels[-1].op or "")


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # Dynamo looks at that of the loss
def test_a_compiled_step_with_a_scaler() -> None:
    """What is left outside of graphs is called as it is."""
    made = guess_built(scaled_step, on="h200", variant="compile")
    assert any(k.op == "aten::_amp_foreach_non_finite_check_and_unscale_" for k in made.kernels)


def test_who_asks_whether_there_is_autocast_is_told() -> None:
    """PyTorch's attention has no fast path under it, and asks so of the accelerator."""
    x = torch.ones(2, 16, 64)
    attention = nn.MultiheadAttention(64, 4, batch_first=True).eval()
    assert "add" in [op for op, _ in seen(under_autocast(lambda x: attention(x, x, x, need_weights=False), x))]

    def asking(x: torch.Tensor) -> torch.Tensor:
        return x.to(torch.get_autocast_dtype("cuda")) if torch.is_autocast_enabled() else x

    assert seen(under_autocast(asking, x)) == [("copy_", "f32")]
    assert not torch.is_autocast_enabled("cuda")
