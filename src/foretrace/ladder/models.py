"""The two modules of the road, as factories that `foretrace profile` can build too.

``foretrace profile foretrace.ladder.models:geglu -- --batch 8`` profiles one of them alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional

from foretrace.errors import MissingDependencyError

if TYPE_CHECKING:
    from collections.abc import Callable

HUB_REPOSITORY, HUB_LAYER = "kernels-community/liger_kernels", "LigerGEGLUMLP"


class GeGLU(nn.Module):
    """``down(gelu(gate(x)) · up(x))`` with the tanh form of GELU and no biases.

    Args:
        dim: Width of input and output.
        hidden: Width between the projections.
    """

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(dim, hidden, bias=False)
        self.up_proj = nn.Linear(dim, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, dim, bias=False)
        self.multiply: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = gelu_mul

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[..., dim] → [..., dim]."""
        gate = self.gate_proj(x)
        up = self.up_proj(x)
        out: torch.Tensor = self.down_proj(self.multiply(gate, up))
        return out


def gelu_mul(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """``gelu(gate) · up`` as two eager ops, [..., hidden] each."""
    return functional.gelu(gate, approximate="tanh") * up


def linear(
    *, batch: int = 1024, in_dim: int = 32, out_dim: int = 64, device: str = "cpu"
) -> tuple[nn.Module, tuple[torch.Tensor]]:
    """One ``nn.Linear`` with a bias on [batch, in_dim]; bf16 on an accelerator, f32 on the CPU."""
    dtype = _dtype(device)
    return nn.Linear(in_dim, out_dim, device=device, dtype=dtype), (_input(batch, in_dim, device=device, dtype=dtype),)


def geglu(
    *, batch: int = 64, seq: int = 128, dim: int = 768, hidden: int = 3072, device: str = "cpu"
) -> tuple[GeGLU, tuple[torch.Tensor]]:
    """The articles' MLP on [batch, seq, dim]; bf16 on an accelerator, f32 on the CPU."""
    dtype = _dtype(device)
    model = GeGLU(dim, hidden).to(device=device, dtype=dtype)
    return model, (_input(batch, seq, dim, device=device, dtype=dtype),)


def liger(
    *, batch: int = 64, seq: int = 128, dim: int = 768, hidden: int = 3072, device: str = "cpu"
) -> tuple[nn.Module, tuple[torch.Tensor]]:
    """The same MLP with Liger's hand-tuned GELU·mul kernel, from the Hub if it is within reach, else as installed.

    Raises:
        MissingDependencyError: It is neither, or there is no GPU to run it.
    """
    if device == "cpu":
        raise MissingDependencyError(
            "Liger's kernels are written in Triton and need a GPU", hint="run on a CUDA machine"
        )
    model, arguments = geglu(batch=batch, seq=seq, dim=dim, hidden=hidden, device=device)
    return _with_hub_layer(model) or _with_installed_kernel(model), arguments


def fused(
    *, batch: int = 64, seq: int = 128, dim: int = 768, hidden: int = 3072, device: str = "cpu"
) -> tuple[nn.Module, tuple[torch.Tensor]]:
    """The same MLP as foretrace's fused layer: one kernel.

    Raises:
        MissingDependencyError: There is no GPU to run it: elsewhere the layer is plain PyTorch, which eager shows.
    """
    if device == "cpu":
        raise MissingDependencyError("foretrace's fused kernels are written in Triton", hint="they need a GPU")
    from foretrace.fused import GeGLUMLP  # noqa: PLC0415 - imports Triton

    model, arguments = geglu(batch=batch, seq=seq, dim=dim, hidden=hidden, device=device)
    layer = GeGLUMLP(dim, hidden, approximate="tanh", device=device, dtype=arguments[0].dtype)
    layer.load_state_dict(model.state_dict())
    return layer, arguments


def _with_hub_layer(model: GeGLU) -> nn.Module | None:
    """``model`` with the Hub's forward, or ``None`` where it cannot be had (no package, no network, no such layer)."""
    try:
        import kernels  # noqa: PLC0415 - optional

        layer = kernels.LayerRepository(HUB_REPOSITORY, layer_name=HUB_LAYER, version=1)
        kernels.replace_kernel_forward_from_hub(GeGLU, HUB_LAYER)
        with kernels.use_kernel_mapping({HUB_LAYER: {"cuda": layer}}, inherit_mapping=False):
            swapped: nn.Module = kernels.kernelize(model, mode=kernels.Mode.INFERENCE, use_fallback=False)
    except Exception:  # noqa: BLE001 - whatever the reason is, the installed package comes next
        return None
    return swapped


def _with_installed_kernel(model: GeGLU) -> GeGLU:
    try:
        from liger_kernel.ops import LigerGELUMulFunction  # noqa: PLC0415 - optional
    except ImportError:
        raise MissingDependencyError(
            "Liger's kernels are neither on the Hub within reach nor installed", hint="pip install liger-kernel"
        ) from None
    model.multiply = LigerGELUMulFunction.apply
    return model


def _dtype(device: str) -> torch.dtype:
    return torch.float32 if device == "cpu" else torch.bfloat16


def _input(*shape: int, device: str, dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(*shape, device=device, dtype=dtype)
