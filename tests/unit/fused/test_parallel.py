"""Two ranks on the CPU: the layer under tensor parallelism and under FSDP2 trains as it does alone."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
import torch
from torch import distributed, multiprocessing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from foretrace.fused import GatedMLP

if TYPE_CHECKING:
    from pathlib import Path

WORLD = 2


def _layer() -> GatedMLP:
    torch.manual_seed(0)
    return GatedMLP(8, 12, activation="silu", bias=True)


def _train(layer: torch.nn.Module, x: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    y = layer(x)
    y.pow(2).sum().backward()
    gradients = {}
    for name, parameter in layer.named_parameters():
        gradient = parameter.grad
        assert gradient is not None, name
        gradients[name] = gradient.full_tensor() if isinstance(gradient, DTensor) else gradient
    return y.detach(), gradients


def _check(rank: int, folder: str, mode: str) -> None:
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(WORLD))
    distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=WORLD)
    mesh = init_device_mesh("cpu", (WORLD,))
    torch.manual_seed(1)
    x, alone, shared = torch.randn(4, 8, requires_grad=True), _layer(), _layer()
    expected = _train(alone, x)
    assert x.grad is not None
    dx, x.grad = x.grad, None
    if mode == "tensor parallel":
        plan = {"gate_proj": ColwiseParallel(), "up_proj": ColwiseParallel(), "down_proj": RowwiseParallel()}
        parallelize_module(shared, mesh, plan)
    elif mode == "fsdp2":
        fully_shard(shared, mesh=mesh)
    else:
        parallelize_module(shared, mesh, {"gate_proj": RowwiseParallel()})
        with pytest.raises(NotImplementedError, match="the gate weight is sharded as"):
            shared(x)
        distributed.destroy_process_group()
        return
    found = _train(shared, x)
    torch.testing.assert_close(found[0], expected[0])
    torch.testing.assert_close(x.grad, dx)
    for name, gradient in expected[1].items():
        torch.testing.assert_close(found[1][name], gradient)
    distributed.barrier()  # a rank that leaves first takes gloo's threads of the other with it
    distributed.destroy_process_group()


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["tensor parallel", "fsdp2", "sharded another way"])
def test_two_ranks(mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Output and all gradients equal those of one process; another sharding is refused in words."""
    monkeypatch.setenv("TRITON_INTERPRET", "0")  # the wiring is what is tested: plain PyTorch computes
    multiprocessing.spawn(_check, args=(str(tmp_path), mode), nprocs=WORLD)
