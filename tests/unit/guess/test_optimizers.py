"""Optimizers and gradient clipping as an accelerator runs them, on a machine without one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

from foretrace.guess import guess_built

if TYPE_CHECKING:
    from collections.abc import Callable

    from foretrace.verdict import Guess


def stepped(finish: Callable[[nn.Module, Any], None], **options: Any) -> Guess:
    """A step of Adam's over two layers, ``finish`` between the backward and the step."""

    def build() -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
        model = nn.Sequential(nn.Linear(16, 32), nn.Linear(32, 16))
        optimizer = torch.optim.Adam(model.parameters(), **options)

        def step(x: torch.Tensor) -> None:
            model(x).sum().backward()
            finish(model, optimizer)
            optimizer.step()

        return step, (torch.ones(4, 16),), {}

    return guess_built(build, on="h200")


def after_backward(made: Guess) -> list[str]:
    """Ops after the last one of the backward."""
    last = max(i for i, kernel in enumerate(made.kernels) if kernel.phase == "backward")
    return [(kernel.op or "").removeprefix("aten::") for kernel in made.kernels[last + 1 :]]


def test_clipping_works_on_lists() -> None:
    """Norms of all gradients in one op of two kernels over zeros, then one kernel that scales them all."""
    made = stepped(lambda model, _: nn.utils.clip_grad_norm_(model.parameters(), 1.0))
    ops = after_backward(made)
    norms = ["fill_", "_foreach_norm", "_foreach_norm"]
    scaled = ["cat", "linalg_vector_norm", "add", "reciprocal", "mul", "clamp", "_foreach_mul_"]
    assert ops[:10] == norms + scaled
    assert ops[10] == "_foreach_lerp_"


def test_clipping_by_value_works_on_lists() -> None:
    """Two kernels, whatever the number of parameters."""
    ops = after_backward(stepped(lambda model, _: nn.utils.clip_grad_value_(model.parameters(), 1.0)))
    assert ops[:2] == ["_foreach_clamp_min_", "_foreach_clamp_max_"]


def test_a_capturable_step_counts_on_the_device() -> None:
    """Its counters lie on the device, where the bias correction is computed too."""
    ops = after_backward(stepped(lambda _model, _: None, capturable=True))
    assert ops[0] == "_foreach_add_"
    assert ops.count("_foreach_pow") == 2
    assert {kernel.op_class for kernel in stepped(lambda *_: None, capturable=True).kernels[-10:]} == {"optimizer"}


def test_pytorch_is_left_as_it_was() -> None:
    """After a guess a CPU's parameters are refused again."""
    stepped(lambda *_: None, capturable=True)
    layer = nn.Linear(2, 2)
    optimizer = torch.optim.Adam(layer.parameters(), capturable=True)
    layer(torch.ones(1, 2)).sum().backward()
    with pytest.raises(AssertionError, match="capturable"):
        optimizer.step()
