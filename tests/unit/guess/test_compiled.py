"""The compiled guess: the groups that Inductor would generate, graphs and breaks, stacks of equal blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional

from foretrace.guess import fusion, guess

if TYPE_CHECKING:
    import pytest

    from foretrace.verdict import Guess


def compiled(module: Any, *args: Any) -> Guess:
    """The compiled guess about an H200."""
    return guess(module, *args, on="h200", variant="compile")


class Block(nn.Module):
    """A residual MLP with a norm."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[..., dim] → [..., dim]."""
        return x + self.down(functional.gelu(self.up(self.norm(x))))


class Stack(nn.Module):
    """Blocks and a head."""

    def __init__(self, count: int, *, counted: bool = False) -> None:
        super().__init__()
        self.layers, self.head = nn.ModuleList(Block(16) for _ in range(count)), nn.Linear(16, 4)
        self.expected = count if counted else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[n, s, 16] → [n, s, 4]."""
        if self.expected is not None and len(self.layers) != self.expected:
            raise ValueError("a layer is missing")
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


class Broken(nn.Module):
    """Two layers with a break between them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[n, 8] → [n, 8]."""
        x = self.first(x).relu()
        torch._dynamo.graph_break()
        return self.second(x)


def test_norms_and_residuals_are_reductions_with_their_pointwise_ops() -> None:
    """The norm is one reduction, the activation one pointwise kernel, the residual joins the next kernel."""
    made = compiled(Block(16).to(torch.bfloat16), torch.ones(2, 3, 16, dtype=torch.bfloat16))
    assert [(k.op_class, k.fused_ops) for k in made.kernels if k.fused_ops] == [
        ("reduction", ("native_layer_norm",)),
        ("pointwise", ("gelu", "view")),
        ("pointwise", ("add", "view")),
    ]
    assert [k.source for k in made.kernels if k.op_class == "gemm"] == ["up", "down"]


def test_a_gpu_adds_a_bias_where_a_pointwise_op_follows() -> None:
    """In f32 Inductor on a GPU moves the bias from the GEMM into the activation's kernel; on a CPU it does not."""
    made = compiled(nn.Sequential(nn.Linear(8, 16), nn.ReLU()), torch.ones(4, 8))
    assert [k.op for k in made.kernels] == ["aten::mm", "triton_poi_fused_addmm_relu"]


def test_a_graph_break_is_counted_and_placed() -> None:
    """Two graphs, and the line of the user's code at which the first one ends."""
    made = compiled(Broken(), torch.ones(2, 8))
    assert made.graphs == 2
    (why,) = made.breaks
    assert "graph_break()" in why
    assert "in forward (test_compiled.py:" in why


def test_equal_blocks_are_extrapolated() -> None:
    """Of eight blocks three are compiled; kernels and names are those of compiling all, and a note says so."""
    few = compiled(Stack(8), torch.ones(2, 3, 16))
    all_of_them = compiled(Stack(8, counted=True), torch.ones(2, 3, 16))
    assert any("3 of 8 equal blocks in `layers`" in note for note in few.notes)
    assert not any("equal blocks" in note for note in all_of_them.notes)
    assert [(k.op, k.shapes) for k in few.kernels] == [(k.op, k.shapes) for k in all_of_them.kernels]
    gemms = [[k.source for k in made.kernels if k.op_class == "gemm"] for made in (few, all_of_them)]
    assert gemms[0] == gemms[1]
    assert gemms[0][-3:] == ["layers.7.up", "layers.7.down", "head"]


def test_a_replayed_graph_copies_its_inputs() -> None:
    """``reduce-overhead`` replays a CUDA graph, whose inputs are copied into place by one launch."""
    model, x = (
        torch.compile(nn.Sequential(nn.Linear(8, 8, bias=False), nn.ReLU()), mode="reduce-overhead"),
        torch.ones(4, 8),
    )
    made = guess(lambda: model(x), on="h200", grad=False)
    assert [k.op for k in made.kernels] == ["aten::_foreach_copy_", "aten::mm", "triton_poi_fused_relu"]
    assert made.kernels[0].op_class == "copy"


def test_what_inductor_refuses_is_modelled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fallback fuses the block as Inductor does, forward and backward, and says that it is a model."""

    def refuse(*_: object) -> None:
        raise NotImplementedError("no lowering")

    monkeypatch.setattr(fusion, "decide", refuse)
    model, x = torch.compile(Block(16)), torch.ones(2, 3, 16)
    made = guess(lambda: model(x), on="h200", grad=False)
    assert made.classes == {"gemm": 2, "reduction": 1, "pointwise": 2}
    assert "no lowering" in made.notes[0]


def test_what_cannot_be_compiled_says_so() -> None:
    """A callable that Dynamo finds no graph in runs as eager code, and the guess says that."""
    made = compiled(torch.compiler.disable(nn.Linear(4, 4)), torch.ones(2, 4))
    assert made.graphs == 0
    assert [k.op for k in made.kernels] == ["aten::addmm"]
    assert "nothing was compiled" in made.notes[0]
