"""Two CUDA devices: the layer under FSDP2 and under tensor parallelism trains as it does alone, by the same kernels.

Tolerance: ``_error`` is the norm of the difference over the norm of the fp64 reference. Two ranks round once more than
one does, where partial outputs or gradients are rounded to bf16 and summed; one rounding to bf16 is 1.7e-3 (see
``test_fused.py``) and independent of the others, so squares add. The factor of 1.1 covers the luck of the draw.
"""

from __future__ import annotations

import copy
import math
import os
import time
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import distributed, multiprocessing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from foretrace.fused import GatedMLP

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor, nn

WORLD = 2
# on an H200 both this shape and the half of its hidden features take the fused kernels, forward and backward
ROWS, DIM, HIDDEN = 8192, 768, 3072
ROUNDING = 1.7e-3
SECONDS = 240

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.slow,
    pytest.mark.skipif(torch.cuda.device_count() < WORLD, reason="needs two CUDA devices"),
]


def _layer(device: torch.device, dtype: torch.dtype) -> GatedMLP:
    """The same weights on every rank, which bf16 holds exactly."""
    torch.manual_seed(0)
    return GatedMLP(DIM, HIDDEN, activation="gelu_tanh").bfloat16().to(device, dtype)


def _data(rank: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Rank's rows, and the gradient of its output."""
    dice = torch.Generator().manual_seed(1 + rank)
    x, dy = (torch.randn(ROWS, DIM, generator=dice).to(device, torch.bfloat16) for _ in range(2))
    return x, dy


def _step(layer: nn.Module, x: Tensor, dy: Tensor) -> dict[str, Tensor]:
    """Output and all gradients, whole on every rank."""
    layer.zero_grad()
    x = x.detach().requires_grad_()
    y = layer(x)
    y.backward(dy)
    found = {"y": y.detach(), "x": x.grad}
    for name, parameter in layer.named_parameters():
        gradient = parameter.grad
        found[name] = gradient.full_tensor() if isinstance(gradient, DTensor) else gradient
    return {name: tensor.double() for name, tensor in found.items()}


def _expected(layer: nn.Module, rank: int, batches: list[tuple[Tensor, Tensor]]) -> dict[str, Tensor]:
    """What one device finds: the rank's own output and gradient of x, and the weights' gradients over all batches."""
    steps = [_step(layer, *batch) for batch in batches]
    own = steps[min(rank, len(steps) - 1)]
    return {
        name: own[name] if name in ("y", "x") else torch.stack([step[name] for step in steps]).mean(0) for name in own
    }


def _error(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).norm() / expected.norm())


def _launched(layer: nn.Module, x: Tensor, dy: Tensor) -> Counter[str]:
    """How often a step launches each of our kernels on this rank, by the profiler."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        _step(layer, x, dy)
        torch.cuda.synchronize()
    on_device = [e.name for e in profile.events() if e.device_type == torch.autograd.DeviceType.CUDA]
    return Counter(name for name in on_device if name.startswith("foretrace_"))


def _shard(layer: nn.Module, mesh: Any, mode: str) -> None:
    if mode == "tensor parallel":
        plan = {"gate_proj": ColwiseParallel(), "up_proj": ColwiseParallel(), "down_proj": RowwiseParallel()}
        parallelize_module(layer, mesh, plan)
    elif mode == "fsdp2":
        fully_shard(layer, mesh=mesh)
    else:
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        fully_shard(layer, mesh=mesh, mp_policy=policy)


def _check(rank: int, folder: str, mode: str) -> None:
    """One rank: ``mode`` against the layer alone, in bf16 and in fp64, on the same data."""
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(WORLD), LOCAL_RANK=str(rank))
    device = torch.device("cuda", rank)
    torch.cuda.set_device(device)
    store, timeout = f"file://{folder}/store", timedelta(seconds=SECONDS // 2)
    distributed.init_process_group(
        "nccl", init_method=store, rank=rank, world_size=WORLD, timeout=timeout, device_id=device
    )
    # tensor parallel ranks share their rows, others have rows of their own
    batches = [_data(r, device) for r in range(1 if mode == "tensor parallel" else WORLD)]
    alone = _layer(device, torch.bfloat16)
    exact = _expected(copy.deepcopy(alone).double(), rank, [(x.double(), dy.double()) for x, dy in batches])
    single = _expected(alone, rank, batches)
    shared = _layer(device, torch.float32 if mode == "fsdp2 in mixed precision" else torch.bfloat16)
    _shard(shared, init_device_mesh(device.type, (WORLD,)), mode)
    mine = batches[min(rank, len(batches) - 1)]
    found = _step(shared, *mine)
    assert found.keys() == exact.keys()
    for name, wanted in exact.items():
        allowed = 1.1 * math.hypot(_error(single[name], wanted), ROUNDING)
        assert _error(found[name], wanted) <= allowed, f"{name} on rank {rank}"
    if "H200" in torch.cuda.get_device_name(device):
        wanted_kernels = {"foretrace_gated_forward": 1, "foretrace_gated_backward": 1}
    else:
        wanted_kernels = {"foretrace_glu": 1, "foretrace_glu_backward": 1}
    assert _launched(shared, *mine) == wanted_kernels, f"on rank {rank}"
    # a rank that fails raises before this, and its end ends the other
    distributed.barrier()
    distributed.destroy_process_group()


@pytest.mark.parametrize("mode", ["fsdp2", "fsdp2 in mixed precision", "tensor parallel"])
def test_two_devices(mode: str, tmp_path: Path) -> None:
    """Output and gradients are as near to fp64's as alone, and each rank launches one kernel forward and one back."""
    ranks = multiprocessing.spawn(_check, args=(str(tmp_path), mode), nprocs=WORLD, join=False)
    until = time.monotonic() + SECONDS
    while not ranks.join(timeout=5):
        if time.monotonic() > until:
            for process in ranks.processes:
                process.kill()
            pytest.fail(f"the ranks were not done after {SECONDS} s")
