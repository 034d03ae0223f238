"""Code that is written for a GPU, guessed without one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from foretrace.errors import InputError
from foretrace.guess import guess, guess_built


class OnCuda(nn.Module):
    """Names its device wherever it makes or moves a tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16, bias=False, device="cuda")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[..., 16] → the same."""
        return self.linear(x.to("cuda", non_blocking=True)) + torch.arange(16, device="cuda")


def test_a_device_by_name_in_compiled_code() -> None:
    """``device="cuda"`` inside of a forward is the device that the guess is about."""
    made = guess_built(lambda: (OnCuda(), (torch.ones(4, 16),), {}), on="h200", variant="compile")
    assert [(k.op or "").partition("_fused")[0] for k in made.kernels] == ["aten::mm", "triton_poi"]
    assert made.breaks == ()


@pytest.mark.parametrize("variant", ["eager", "compile"])
def test_waiting_for_the_device_launches_nothing(variant: Any) -> None:
    """``synchronize`` and marks for a profiler are left out, and break nothing."""
    layer = nn.Linear(16, 16)

    def call(x: torch.Tensor) -> torch.Tensor:
        torch.cuda.synchronize()
        torch.cuda.nvtx.range_push("layer")
        out: torch.Tensor = layer(x)
        torch.cuda.nvtx.range_pop()
        return out

    made = guess_built(lambda: (call, (torch.ones(4, 16),), {}), on="h200", variant=variant, grad=False)
    assert [k.op for k in made.kernels] == ["aten::addmm"]


def test_gradients_of_each_sample() -> None:
    """``torch.func``'s tensors have no storage of their own; the batch is one product."""
    layer = nn.Linear(16, 4)

    def loss(parameters: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(layer, parameters, (x,)).square().sum()

    def call(x: torch.Tensor) -> Any:
        parameters = {name: value.detach() for name, value in layer.named_parameters()}
        return torch.func.vmap(torch.func.grad(loss), (None, 0))(parameters, x)

    made = guess(call, torch.ones(8, 16), on="h200")
    assert [k.op for k in made.kernels if k.op_class == "gemm"] == ["aten::mm", "aten::bmm"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_cannot_be_compiled_is_said() -> None:
    """``torch.compile`` takes no ScriptModule; eager guesses do."""
    scripted = torch.jit.script(nn.Linear(4, 4))
    with pytest.raises(InputError, match=r"`torch\.compile` refuses it") as caught:
        guess_built(lambda: (scripted, (torch.ones(2, 4),), {}), variant="compile")
    assert "eager" in (caught.value.hint or "")


def test_a_long_error_is_cut() -> None:
    """What PyTorch lists by the page is left out, and Dynamo's explanation stands beside its title."""

    def fails(_: torch.Tensor) -> None:
        raise NotImplementedError("no kernel; " + "try another of these, " * 100)

    with pytest.raises(InputError) as caught:
        guess(fails, torch.ones(2))
    assert len(str(caught.value)) < 320
    assert "no kernel" in str(caught.value)

    def unknown(x: torch.Tensor) -> torch.Tensor:
        return x + torch.ones(3)

    with pytest.raises(InputError, match="Dynamo failed to run"):
        guess_built(lambda: (unknown, (torch.ones(2),), {}), variant="compile")
