"""The Hub kernel: built from the source, loaded and used by the ``kernels`` library on the CPU."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor, nn

kernels = pytest.importorskip("kernels")

if TYPE_CHECKING:
    from types import ModuleType

BUILD = Path(__file__).parents[3] / "hub" / "build.py"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The kernel, built by its own command's function into a fresh folder."""
    spec = importlib.util.spec_from_file_location("hub_build", BUILD)
    assert spec is not None
    assert spec.loader is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    out = tmp_path_factory.mktemp("hub")
    assert [v.name for v in module.build(out)] == ["torch-cpu", "torch-cuda", "torch-rocm"]
    return out


class Mlp(nn.Module):
    """A model's own gated MLP."""

    def __init__(self, act: nn.Module) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(16, 24, bias=False)
        self.up_proj = nn.Linear(16, 24, bias=True)
        self.down_proj = nn.Linear(24, 16, bias=False)
        self.act_fn = act

    def forward(self, x: Tensor) -> Tensor:
        """``[..., 16]`` to the same."""
        result: Tensor = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))
        return result


def _kernelized(built: Path, layer: str, act: nn.Module) -> tuple[nn.Module, nn.Module]:
    class Adopted(Mlp):
        """A class of its own: the library changes it."""

    kernels.replace_kernel_forward_from_hub(Adopted, layer)
    model, plain = nn.Sequential(Adopted(act)), Mlp(act)
    plain.load_state_dict(model[0].state_dict())
    mapping = {layer: {"cpu": kernels.LocalLayerRepository(built, layer_name=layer)}}
    with kernels.use_kernel_mapping(mapping):
        mode = kernels.Mode.TRAINING | kernels.Mode.TORCH_COMPILE
        return kernels.kernelize(model, mode=mode, device="cpu", use_fallback=False), plain


@pytest.mark.parametrize(
    ("layer", "act"),
    [
        ("GeGLUMLP", nn.GELU(approximate="tanh")),
        ("GeGLUMLP", nn.GELU()),
        ("SwiGLUMLP", nn.SiLU()),
        ("GatedMLP", nn.ReLU()),
    ],
)
def test_a_layer_serves_a_module(built: Path, layer: str, act: nn.Module) -> None:
    """Value and gradients through the Hub's layer are the module's own, for training and compilation."""
    model, plain = _kernelized(built, layer, act)
    x = torch.randn(5, 16)
    torch.testing.assert_close(model(x), plain(x))
    model(x).sum().backward()
    plain(x).sum().backward()
    for ours, theirs in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)


def test_a_mismatch_is_refused(built: Path) -> None:
    """``kernelize`` does not look at the activation; the layer does."""
    model, _ = _kernelized(built, "SwiGLUMLP", nn.GELU())
    with pytest.raises(TypeError, match="computes gelu; this layer is for silu"):
        model(torch.randn(2, 16))
    model, _ = _kernelized(built, "GatedMLP", nn.Tanh())
    with pytest.raises(TypeError, match=r"act_fn is Tanh\(\), which no fused gated MLP computes"):
        model(torch.randn(2, 16))


def test_the_package_has_functions_and_its_own_operators(built: Path) -> None:
    """``get_local_kernel`` gives the functions; operators live beside an installed foretrace's, not on top of them."""
    module = kernels.get_local_kernel(built)
    gate = torch.randn(3, 4)
    torch.testing.assert_close(module.swiglu(gate, gate), nn.functional.silu(gate) * gate)
    # by name: a package that was loaded before keeps its parts
    ops = importlib.import_module(f"{module.__name__}.ops")
    namespace = ops.glu_forward._qualname.split("::")[0]
    assert namespace.startswith("_foretrace_mlp_cpu_")
