"""Guesses at this package's own gated MLPs: the kernels of the path that the named device would take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402 - after the skip
from torch.utils.checkpoint import checkpoint  # noqa: E402 - as above

import foretrace  # noqa: E402 - as above
from foretrace.fused import GeGLUMLP, SwiGLUMLP, geglu, paths, plan, replace  # noqa: E402 - imports torch
from foretrace.guess import fusion  # noqa: E402 - as above
from foretrace.guess.api import guess_built  # noqa: E402 - as above

if TYPE_CHECKING:
    from pathlib import Path

    from foretrace.guess.api import Variant

GATED = ["foretrace::gated_forward", "aten::mm"]
POINTWISE = ["aten::mm", "aten::mm", "foretrace::pointwise", "aten::mm"]


def _ops(
    module: nn.Module, *args: Tensor, on: str = "h200", grad: bool = False, variant: Variant = "eager"
) -> list[str | None]:
    return [kernel.op for kernel in foretrace.guess(module, *args, on=on, grad=grad, variant=variant).kernels]


def _layer(dtype: torch.dtype = torch.bfloat16, *, bias: bool = False) -> nn.Module:
    return SwiGLUMLP(768, 3072, bias=bias, dtype=dtype)


@pytest.mark.parametrize("variant", ["eager", "compile"])
@pytest.mark.parametrize(
    ("module", "rows", "on", "expected"),
    [
        (_layer(), 8192, "h200", ["foretrace::gated_mlp"]),
        (_layer(), 4096, "h200", GATED),
        (_layer(), 1, "h200", ["foretrace::gate_up", "foretrace::down"]),
        (_layer(torch.float32), 8192, "h200", POINTWISE),
        (_layer(), 8192, "NVIDIA A100 SXM4 80GB", POINTWISE),
        (_layer(bias=True), 8192, "h200", ["aten::addmm", "aten::addmm", "foretrace::pointwise", "aten::addmm"]),
        (SwiGLUMLP(767, 3072, dtype=torch.bfloat16), 8192, "h200", POINTWISE),
    ],
)
def test_the_path_of_the_named_device(
    module: nn.Module, rows: int, on: str, expected: list[str], variant: Variant
) -> None:
    """By the table, as on that device; what no kernel of this package serves goes through cuBLAS. Compiled or not."""
    x = next(module.parameters()).new_empty(rows, next(module.parameters()).shape[1])
    assert _ops(module, x, on=on, variant=variant) == expected


class Normed(nn.Module):
    """A layer between what a compiler fuses."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.mlp = nn.RMSNorm(768, dtype=torch.bfloat16), _layer()

    def forward(self, x: Tensor) -> Tensor:
        """``[rows, 768]``."""
        y: Tensor = self.mlp(self.norm(x)) + x
        return y


def test_a_compiler_fuses_around_the_layer() -> None:
    """The operator stays whole, under its module's name."""
    made = foretrace.guess(Normed(), torch.empty(8192, 768, dtype=torch.bfloat16), on="h200", variant="compile")
    assert made.graphs == 1
    assert [(k.op_class, k.op, k.source) for k in made.kernels][1] == ("gemm", "foretrace::gated_mlp", "mlp")
    assert [k.op_class for k in made.kernels] == ["reduction", "gemm", "pointwise"]


def test_a_device_of_an_unknown_number_of_multiprocessors(tmp_path: Path) -> None:
    """Nobody can share out one kernel there: two."""
    spec = tmp_path / "mine.toml"
    spec.write_text('name = "NVIDIA H200"\nvendor = "NVIDIA"\ncompute_capability = "9.0"\n', encoding="utf-8")
    assert _ops(_layer(), torch.empty(8192, 768, dtype=torch.bfloat16), on=str(spec)) == GATED


def test_no_word_of_cublas_where_it_does_nothing() -> None:
    """The one kernel of a whole MLP clears nothing first; cuBLAS's down projection may."""
    made = [foretrace.guess(_layer(), torch.empty(rows, 768, dtype=torch.bfloat16), on="h200") for rows in (8192, 4096)]
    whole, halved = (guess.notes for guess in made)
    assert not any("cuBLAS" in note for note in whole)
    assert any("cuBLAS" in note for note in halved)


class Stranger(nn.Module):
    """A gated MLP that knows nothing of this package."""

    def __init__(self) -> None:
        super().__init__()
        self.w1, self.w3 = (nn.Linear(768, 3072, bias=False) for _ in range(2))
        self.w2 = nn.Linear(3072, 768, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """``[rows, 768]``."""
        y: Tensor = self.w2(nn.functional.silu(self.w1(x)) * self.w3(x))
        return y


def test_a_factory_may_replace() -> None:
    """On fake weights a module is tried with weights of the trial's own, and the guess is of what replaced it."""

    def build() -> tuple[nn.Module, tuple[Tensor, ...], dict[str, Any]]:
        model = nn.Sequential(Stranger()).to(torch.bfloat16)
        return replace(model).model, (torch.empty(8192, 768, dtype=torch.bfloat16),), {}

    made = guess_built(build, on="h200")
    assert [kernel.op for kernel in made.kernels] == ["foretrace::gated_mlp"]
    assert made.flips_at is None  # fewer rows are other kernels


class Step(nn.Module):
    """A layer's forward and backward."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor, dy: Tensor) -> None:
        """``[rows, 768]`` both."""
        self.layer(x).backward(dy)


def test_a_training_step() -> None:
    """The real backward runs: one kernel for dG and dU, down's gradient, both weights' in one product, x's in two."""
    x, dy = (torch.empty(8192, 768, dtype=torch.bfloat16) for _ in range(2))
    step = Step(GeGLUMLP(768, 3072, dtype=torch.bfloat16))
    weights = ["foretrace::gated_backward", "aten::mm", "aten::mm"]
    assert _ops(step, x, dy, grad=True) == [*GATED, *weights]
    both = ["foretrace::gated_backward", "aten::mm", "aten::mm", "aten::addmm_", "aten::mm"]
    assert _ops(step, x.requires_grad_(), dy, grad=True)[: len(GATED) + len(both)] == [*GATED, *both]


def test_a_compiled_training_step() -> None:
    """The operators' own backward: the same kernels, in a graph of their own."""
    x, dy = (torch.empty(8192, 768, dtype=torch.bfloat16) for _ in range(2))
    step = Step(GeGLUMLP(768, 3072, dtype=torch.bfloat16))
    made = foretrace.guess(step, x, dy, on="h200", grad=True, variant="compile")
    forward = [("forward", op) for op in GATED]
    backward = [("backward", op) for op in ("foretrace::gated_backward", "aten::mm", "aten::mm")]
    added = [("backward", "aten::add_")] * 3  # to the gradients of the first step
    assert [(kernel.phase, kernel.op) for kernel in made.kernels] == [*forward, *backward, *added]


class Several(nn.Module):
    """A compiled layer that meets another number of rows again and again."""

    def __init__(self) -> None:
        super().__init__()
        self.mlp = torch.compile(_layer())

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """``[rows, 768]``."""
        return self.mlp(x), self.mlp(x[:4096]), self.mlp(x[:1024])


def test_sizes_that_a_compiler_has_made_symbols() -> None:
    """Every call's own path, with Inductor's own decision."""
    made = foretrace.guess(Several(), torch.empty(8192, 768, dtype=torch.bfloat16), on="h200")
    assert [kernel.op for kernel in made.kernels] == ["foretrace::gated_mlp", *GATED, *GATED]
    assert not any("modelled" in note for note in made.notes)


def test_a_model_of_the_compiler_knows_the_layers_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Inductor's own decision cannot be had, its operators are still no kernels."""

    def refuse(*_: object) -> None:
        raise NotImplementedError("another version")

    monkeypatch.setattr(fusion, "decide", refuse)
    x = torch.empty(4096, 768, dtype=torch.bfloat16)
    assert _ops(_layer(), x, variant="compile") == GATED


class Checkpointed(nn.Module):
    """A layer whose forward runs again in its backward."""

    def __init__(self) -> None:
        super().__init__()
        self.mlp = _layer()

    def forward(self, x: Tensor, dy: Tensor) -> None:
        """``[rows, 768]`` both."""
        checkpoint(self.mlp, x, use_reentrant=False).backward(dy)


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # Dynamo's own look at a tensor between two graphs
@pytest.mark.parametrize("variant", ["eager", "compile"])
def test_checkpointing(variant: Variant) -> None:
    """As on a device, where a compiler does not look into a backward."""
    x, dy = (torch.empty(8192, 768, dtype=torch.bfloat16) for _ in range(2))
    found = _ops(Checkpointed(), x, dy, grad=True, variant=variant)
    assert found[:7] == [*GATED, *GATED, "foretrace::gated_backward", "aten::mm", "aten::mm"]


class Autocast(nn.Module):
    """A layer in fp32 under autocast."""

    def __init__(self) -> None:
        super().__init__()
        self.mlp = _layer(torch.float32)

    def forward(self, x: Tensor) -> Tensor:
        """``[rows, 768]``."""
        with torch.autocast("cuda", dtype=torch.bfloat16):
            y: Tensor = self.mlp(x)
        return y


@pytest.mark.parametrize("variant", ["eager", "compile"])
def test_autocast(variant: Variant) -> None:
    """The layer's own path for the type that autocast casts to."""
    assert _ops(Autocast(), torch.empty(8192, 768), variant=variant)[-1] == "foretrace::gated_mlp"


class Gate(nn.Module):
    """The pointwise part alone."""

    def forward(self, gate: Tensor, up: Tensor) -> Tensor:
        """Two of a shape."""
        return geglu(gate, up)


def test_the_pointwise_part_and_what_is_left_behind() -> None:
    """One kernel; afterwards the layers are what they were, and run here as plain PyTorch."""
    before = (plan.runs_kernels, plan.unwatched, plan.path_for, paths.forward, paths.glu, plan.TRITON)
    assert _ops(Gate(), torch.empty(64, 32), torch.empty(64, 32)) == ["foretrace::pointwise"]
    assert before == (plan.runs_kernels, plan.unwatched, plan.path_for, paths.forward, paths.glu, plan.TRITON)
    y = GeGLUMLP(8, 16)(torch.ones(2, 8))
    assert y.shape == (2, 8)
    assert y.isfinite().all()
