"""The Hub package, built by its own command, in models of the transformers library; small and plain on the CPU.

Tolerance: the logits and the MLPs' gradients, in bf16, are no further from those of an fp64 copy than 1.1 times the
model's own were, as in ``test_fused.py``: a fused path rounds less often than eager does, and the factor covers the
luck of the draw. The MLPs' weights are drawn by their fan-in and embeddings are of unit size: with the 0.02 of a
configuration, one of the two would be lost beside the other, and an MLP that is 2 % off would pass.
"""

from __future__ import annotations

import copy
import importlib
import importlib.util
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

kernels = pytest.importorskip("kernels", reason="needs the kernels library: pip install kernels")
transformers = pytest.importorskip("transformers", reason="needs transformers built for this kernels library")

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import Tensor, nn

BUILD = Path(__file__).parents[2] / "hub" / "build.py"
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
H200 = DEVICE == "cuda" and "H200" in torch.cuda.get_device_name()
LAYERS = 2
# 8 × 512 rows of 768 × 3072 take the fused kernels on an H200, forward and backward
BATCH, LENGTH, DIM, HIDDEN = (8, 512, 768, 3072) if DEVICE == "cuda" else (2, 16, 64, 128)
FORWARD, BACKWARD = (
    ("foretrace_gated_forward", "foretrace_gated_backward") if H200 else ("foretrace_glu", "foretrace_glu_backward")
)
# the Hub's layer for each family's MLP
HUB_LAYERS = {"Gemma": "GeGLUMLP", "Llama": "SwiGLUMLP"}


def _interpreted() -> bool:
    """Whether other tests of this process made Triton interpret its kernels on the CPU."""
    if DEVICE == "cpu":
        return False
    pointwise = importlib.import_module("foretrace.fused.kernels.pointwise")
    return type(pointwise.foretrace_glu).__name__ == "InterpretedFunction"


pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(_interpreted(), reason="this process interprets Triton's kernels on the CPU"),
]
modes = pytest.mark.parametrize("training", [False, True], ids=["inference", "training"])
families = pytest.mark.parametrize("family", HUB_LAYERS)
needs_cuda = pytest.mark.skipif(DEVICE == "cpu", reason="no CUDA device, and transformers' KernelConfig knows no CPU")
needs_config = pytest.mark.skipif(
    not hasattr(transformers, "KernelConfig") or not transformers.utils.import_utils.is_kernels_available(),
    reason="this transformers has no KernelConfig or wants another kernels library",
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package, built by its own command's function into a fresh folder."""
    spec = importlib.util.spec_from_file_location("hub_build", BUILD)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    out = tmp_path_factory.mktemp("hub")
    module.build(out)
    return out


@pytest.fixture(autouse=True)
def _adopting() -> Iterator[None]:
    """Both families' MLP classes ask for the Hub's layers, as long as a test runs."""
    classes = {family: _mlp_class(family) for family in HUB_LAYERS}
    for family, cls in classes.items():
        kernels.replace_kernel_forward_from_hub(cls, HUB_LAYERS[family])
    yield
    for cls in classes.values():
        del cls.kernel_layer_name, cls.kernel_condition


def _mlp_class(family: str) -> Any:
    name = family.lower()
    return getattr(importlib.import_module(f"transformers.models.{name}.modeling_{name}"), f"{family}MLP")


def _model(family: str, *, training: bool) -> Any:
    torch.manual_seed(0)
    heads = {"num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": DIM // 4}
    sizes = {"hidden_size": DIM, "intermediate_size": HIDDEN, "num_hidden_layers": LAYERS, "vocab_size": 256}
    config = getattr(transformers, f"{family}Config")(**sizes, **heads, pad_token_id=0)
    model = transformers.AutoModelForCausalLM.from_config(config)
    for weight in _mlp_weights(model).values():
        torch.nn.init.normal_(weight, std=weight.shape[1] ** -0.5)
    embeddings = model.get_input_embeddings()
    torch.nn.init.normal_(embeddings.weight, std=1 / float(getattr(embeddings, "embed_scale", 1.0)))
    return model.to(DEVICE, torch.bfloat16).train(training)


def _mlp_weights(model: nn.Module) -> dict[str, nn.Parameter]:
    return {name: parameter for name, parameter in model.named_parameters() if ".mlp." in name}


def _tokens() -> Tensor:
    dice = torch.Generator().manual_seed(1)
    return torch.randint(1, 256, (BATCH, LENGTH), generator=dice).to(DEVICE)


def _results(model: Any, call: Callable[..., Any], *, training: bool) -> dict[str, Tensor]:
    """The logits by ``call``, and in training the gradients of every MLP's weights, from one seed."""
    with torch.set_grad_enabled(training):
        logits = call(_tokens(), use_cache=False).logits
    if not training:
        return {"logits": logits}
    weights = _mlp_weights(model)
    dlogits = torch.randn(logits.shape, generator=torch.Generator().manual_seed(2)).to(DEVICE, logits.dtype)
    gradients = torch.autograd.grad(logits, list(weights.values()), dlogits)
    return {"logits": logits.detach(), **dict(zip(weights, gradients, strict=True))}


def _error(found: Tensor, expected: Tensor) -> float:
    return float((found.double() - expected).norm() / expected.norm())


def _agree(after: dict[str, Tensor], before: dict[str, Tensor], exact: dict[str, Tensor]) -> None:
    for name, wanted in exact.items():
        assert _error(after[name], wanted) <= 1.1 * _error(before[name], wanted), name


def _is_ours(model: Any) -> bool:
    """Whether every MLP's forward comes from the built package, whose modules are named after its content."""
    return all(layer.mlp.forward.__module__.startswith("_foretrace_mlp_") for layer in model.model.layers)


def _launched(call: Callable[[], object]) -> Counter[str]:
    """How often ``call`` launches each of our kernels, by the profiler."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        call()
        torch.cuda.synchronize()
    on_device = [e.name for e in profile.events() if e.device_type == torch.autograd.DeviceType.CUDA]
    return Counter(name for name in on_device if name.startswith("foretrace_"))


def _check(model: Any, call: Callable[..., Any], before: list[dict[str, Tensor]], *, training: bool) -> None:
    """``call`` is the Hub's layers: by their module, by their results, and on a GPU by what is launched."""
    assert _is_ours(model)
    _agree(_results(model, call, training=training), *before)
    if DEVICE == "cuda":
        launched = _launched(lambda: _results(model, call, training=training))
        assert launched == {FORWARD: LAYERS} | ({BACKWARD: LAYERS} if training else {})


def _before(model: Any, *, training: bool) -> list[dict[str, Tensor]]:
    """The model's own results, and those of an fp64 copy."""
    assert not _is_ours(model)
    exact = copy.deepcopy(model).double()
    return [_results(each, each, training=training) for each in (model, exact)]


def _kernelized(model: Any, built: Path, family: str, mode: Any) -> Any:
    layer = HUB_LAYERS[family]
    mapping = {layer: {DEVICE: kernels.LocalLayerRepository(built, layer_name=layer)}}
    with kernels.use_kernel_mapping(mapping, inherit_mapping=False):
        return kernels.kernelize(model, mode=mode, device=DEVICE)


def _config(built: Path, family: str) -> Any:
    layer = HUB_LAYERS[family]
    return transformers.KernelConfig({layer: {DEVICE: f"{built}:{layer}"}}, use_local_kernel=True)


@families
@modes
def test_kernelize(family: str, built: Path, *, training: bool) -> None:
    """``kernelize`` with the local package: both MLPs run the Hub's layer and the model computes what it did."""
    model = _model(family, training=training)
    before = _before(model, training=training)
    mode = kernels.Mode.TRAINING if training else kernels.Mode.INFERENCE
    model = _kernelized(model, built, family, mode)
    _check(model, model, before, training=training)


@pytest.mark.slow
@families
@modes
def test_kernelize_and_compile(family: str, built: Path, *, training: bool) -> None:
    """The same kernelized for ``torch.compile``, which finds no graph break in the whole model."""
    model = _model(family, training=training)
    before = _before(model, training=training)
    mode = kernels.Mode.TRAINING if training else kernels.Mode.INFERENCE
    model = _kernelized(model, built, family, mode | kernels.Mode.TORCH_COMPILE)
    torch.compiler.reset()
    compiled = torch.compile(model, fullgraph=True, backend="inductor" if DEVICE == "cuda" else "aot_eager")
    _check(model, compiled, before, training=training)


@needs_cuda
@needs_config
@families
@modes
def test_kernel_config(family: str, built: Path, *, training: bool) -> None:
    """``set_use_kernels`` of transformers with a ``KernelConfig`` of the local package does the same."""
    model = _model(family, training=training)
    before = _before(model, training=training)
    model.set_use_kernels(True, _config(built, family))  # noqa: FBT003 - transformers' own signature
    assert model.use_kernels
    _check(model, model, before, training=training)


@needs_cuda
@families
def test_one_token(family: str, built: Path) -> None:
    """A single row, as in generation, takes kernels of ours too, and its logits are no worse than eager's."""
    model, token = _model(family, training=False), _tokens()[:1, :1]

    def logits(each: Any) -> Tensor:
        with torch.no_grad():
            found: Tensor = each(token, use_cache=False).logits
        return found

    plain, exact = logits(model), logits(copy.deepcopy(model).double())
    model = _kernelized(model, built, family, kernels.Mode.INFERENCE)
    after = logits(model)
    launched = _launched(lambda: logits(model))
    assert sum(launched.values()) >= LAYERS, launched
    # one row of 256 logits is no large sample: twice, as two models equally far from the exact result may differ
    assert _error(after, exact) <= 2 * _error(plain, exact)
