"""``replace``: finds gated MLPs by what they compute, keeps their parameters, and refuses the others in words."""

from __future__ import annotations

import random
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - PyTorch's own convention

from foretrace.fused import GatedMLP, find, replace, swap
from foretrace.fused.identify import OTHER, Roles, roles_of
from foretrace.fused.likeness import likeness

if TYPE_CHECKING:
    from collections.abc import Callable


class Three(nn.Module):
    """Three linears under any names, and any way to combine gate and up."""

    def __init__(
        self,
        combine: Callable[[Tensor, Tensor], Tensor],
        names: tuple[str, str, str] = ("gate_proj", "up_proj", "down_proj"),
        hidden: int = 24,
    ) -> None:
        super().__init__()
        self.combine, self.names = combine, names
        for name, (width, height) in zip(names, ((16, hidden), (16, hidden), (hidden, 16)), strict=True):
            self.add_module(name, nn.Linear(width, height, bias=False))

    def forward(self, x: Tensor) -> Tensor:
        """``[..., 16]`` to the same."""
        gate, up, down = (getattr(self, name) for name in self.names)
        result: Tensor = down(self.combine(gate(x), up(x)))
        return result


class Packed(nn.Module):
    """One projection for gate and up, halves or interleaved."""

    def __init__(self, *, interleaved: bool = False) -> None:
        super().__init__()
        self.gate_up_proj, self.down_proj = nn.Linear(16, 48), nn.Linear(24, 16)
        self.activation_fn, self.interleaved = nn.SiLU(), interleaved

    def forward(self, x: Tensor) -> Tensor:
        """``[..., 16]`` to the same."""
        both = self.gate_up_proj(x)
        gate, up = (both[..., ::2], both[..., 1::2]) if self.interleaved else both.chunk(2, -1)
        result: Tensor = self.down_proj(up * self.activation_fn(gate))
        return result


def exact(gate: Tensor, up: Tensor) -> Tensor:
    """Exact GELU."""
    return F.gelu(gate) * up


def tanh(gate: Tensor, up: Tensor) -> Tensor:
    """GELU's approximation."""
    return F.gelu(gate, approximate="tanh") * up


def silu(gate: Tensor, up: Tensor) -> Tensor:
    """SiLU."""
    return F.silu(gate) * up


SERVED = {
    "exact": (Three(exact), "gelu"),
    "tanh": (Three(tanh), "gelu_tanh"),
    "relu": (Three(lambda g, u: F.relu(g) * u), "relu"),
    "bilinear": (Three(lambda g, u: g * u), "none"),
    "other names": (Three(silu, ("w1", "w3", "w2")), "silu"),
    "square": (Three(silu, ("c", "a", "b"), hidden=16), "silu"),
    "packed": (Packed(), "silu"),
}


@pytest.mark.parametrize("case", SERVED)
def test_served(case: str) -> None:
    """The module is replaced, with the activation that it computes, the same parameters and the same output."""
    module, activation = SERVED[case]
    model = nn.Sequential(nn.Identity(), module)
    x = torch.randn(5, 16)
    before, state = module(x), {k: v.data_ptr() for k, v in model.state_dict().items()}
    swap = replace(model)
    assert [(r.name, r.was, r.activation) for r in swap.replaced] == [("1", type(module).__name__, activation)]
    assert swap.refused == ()
    assert type(model[1]) is not type(module)
    assert {k: v.data_ptr() for k, v in model.state_dict().items()} == state
    torch.testing.assert_close(swap.model(torch.cat((x[:0], x))), before)


def _with_hook() -> nn.Module:
    module = Three(silu)
    module.gate_proj.register_forward_hook(lambda *_: None)
    return module


def _quantized() -> nn.Module:
    class Linear4bit(nn.Linear):
        """Stands for any linear that keeps its weight in another form."""

    module = Three(silu)
    module.up_proj = Linear4bit(16, 24, bias=False)
    return module


def _with_own_parameter() -> nn.Module:
    module = Three(silu)
    module.scale = nn.Parameter(torch.ones(1))
    return module


class Dropping(Three):
    """Dropout after the product: nothing in evaluation."""

    def forward(self, x: Tensor) -> Tensor:
        """With a call that says whether the module trains."""
        out: Tensor = self.down_proj(F.dropout(F.silu(self.gate_proj(x)) * self.up_proj(x), 0.1, self.training))
        return out


class Skipping(Three):
    """A layer that is skipped now and then while training."""

    def forward(self, x: Tensor) -> Tensor:
        """With Python's own random numbers."""
        out: Tensor = super().forward(x)
        return torch.zeros_like(out) if self.training and random.random() < 1e-9 else out


def _compiled() -> nn.Module:
    module = Three(silu)
    module.compile()
    return module


def _with_a_plain_weight() -> nn.Module:
    module = Three(silu)
    weight = module.up_proj.weight.detach()
    del module.up_proj.weight
    module.up_proj.weight = weight
    return module


def _with_hook_of_its_own() -> nn.Module:
    def hook(*_: object) -> None:
        raise AssertionError("called while trying")

    module = Three(silu)
    module.register_forward_hook(hook)
    return module


def _with_another_forward() -> nn.Module:
    module = Three(silu)
    module.forward = module.forward  # as hooks of other libraries put theirs
    return module


def _with_a_child_s_other_forward() -> nn.Module:
    module = Three(silu)
    module.down_proj.forward = module.down_proj.forward
    return module


def _with_a_buffer() -> nn.Module:
    module = Three(silu)
    module.down_proj.register_buffer("scale", torch.ones(()))
    return module


REFUSED = {
    "multiplier": (Three(lambda g, u: F.silu(0.9 * g) * u), f"{OTHER}: it calls mul 2 times"),
    "clamp": (Three(lambda g, u: F.silu(g.clamp(max=7)) * u), f"{OTHER}: it calls clamp"),
    "wide clamp": (Three(lambda g, u: F.silu(g.clamp(max=1e5)) * u), f"{OTHER}: it calls clamp"),
    "another activation": (Three(lambda g, u: torch.tanh(g) * u), f"{OTHER}: it calls tanh"),
    "dropout": (Dropping(silu), "in training it does more, such as dropout, which a fused call would skip"),
    "dropout, evaluating": (
        Dropping(silu).eval(),
        "in training it does more, such as dropout, which a fused call would skip",
    ),
    "skipped at random": (
        Skipping(silu),
        "in training it does more, such as dropout, which a fused call would skip",
    ),
    "compiled": (_compiled(), "it is compiled by itself, which a fused layer would not be"),
    "a weight that is no parameter": (
        _with_a_plain_weight(),
        "it could not be tried on the CPU (KeyError: 'up_proj.weight')",
    ),
    "hook of its own": (_with_hook_of_its_own(), "it has hooks of its own, which a fused layer would not have"),
    "another forward": (_with_another_forward(), "another forward was put over its class's"),
    "a child's other forward": (
        _with_a_child_s_other_forward(),
        "`down_proj` has another forward than its class's, which a fused call would skip",
    ),
    "a linear's buffer": (_with_a_buffer(), "`down_proj` has more than a weight and a bias: scale"),
    "interleaved": (Packed(interleaved=True), OTHER),
    "hook": (_with_hook(), "`gate_proj` has hooks, which a fused call would skip"),
    "quantized": (_quantized(), "`up_proj` is a Linear4bit, not a plain nn.Linear"),
    "own parameter": (_with_own_parameter(), "it has parameters of its own: scale"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_in_words(case: str) -> None:
    """A module that computes something else, or whose call means more, is left alone and the reason is given."""
    module, why = REFUSED[case]
    model = nn.Sequential(module)
    swap = replace(model)
    assert swap.replaced == ()
    assert [(r.name, r.why) for r in swap.refused] == [("0", why)]
    assert model[0] is module


def test_a_module_that_cannot_be_tried() -> None:
    """A forward that raises on the CPU is a reason, not a crash."""

    def fail(gate: Tensor, up: Tensor) -> Tensor:
        raise NotImplementedError("CUDA only")

    (why,) = find(nn.Sequential(Three(fail))).values()
    assert why == "it could not be tried on the CPU (NotImplementedError: CUDA only)"


class Attention(nn.Module):
    """Two projections of a packed gated MLP's shapes, in a module that wants more than x."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv_proj, self.o_proj = nn.Linear(16, 32), nn.Linear(16, 16)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Not called."""
        raise NotImplementedError


def test_nothing_else_is_touched() -> None:
    """Attention and plain two-layer modules are not candidates, whatever their shapes."""
    plain = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 4))
    assert find(nn.ModuleDict({"mlp": plain, "one": nn.Linear(4, 4), "attention": Attention()})) == {}


def test_the_model_itself() -> None:
    """A model that is one gated MLP comes back as a layer; a second swap finds nothing left."""
    swap = replace(Three(exact))
    assert isinstance(swap.model, GatedMLP)
    assert swap.model.activation == "gelu"
    assert replace(swap.model).replaced == ()


def test_a_module_in_two_places_is_replaced_in_both() -> None:
    """By one layer, which is named once; parameters and results stay."""
    mlp, x = Three(silu), torch.randn(3, 16)
    model = nn.Sequential(mlp, nn.Sequential(mlp))
    before, expected = model.state_dict(), model(x)
    swap = replace(model)
    assert [one.name for one in swap.replaced] == ["0"]
    assert type(model[0]) is GatedMLP
    assert model[1].get_submodule("0") is model[0]
    assert model.state_dict().keys() == before.keys()
    assert torch.allclose(model(x), expected, atol=1e-6)


@pytest.mark.parametrize("module", [Three(silu), Three(silu, ("w1", "w3", "w2")), Packed()])
def test_every_replaced_layer_says_its_path(module: nn.Module) -> None:
    """Under its own names or others', packed or not: the same question, the same answer."""
    layer = replace(module).model
    choice = layer.explain(8192, training=True)  # type: ignore[operator] # of either class
    assert (choice.path, choice.why) == ("pointwise", "Triton's interpreter")


def test_trying_draws_no_random_numbers() -> None:
    """The global generator is where it was."""
    module = Three(silu)
    torch.manual_seed(1)
    expected = torch.randn(1)
    torch.manual_seed(1)
    find(module)
    assert torch.equal(torch.randn(1), expected)


class Scaled(Three):
    """A gated MLP whose product an attribute scales; one is what makes it plain."""

    def __init__(self, scale: float) -> None:
        super().__init__(silu)
        self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        """``[..., 16]`` to the same."""
        return super().forward(x) if self.scale == 1 else super().forward(x) * self.scale


def test_layers_of_one_kind_are_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any difference but the weights' values makes another kind: an attribute, a size, a hook, a child's attribute."""
    tried: list[nn.Module] = []

    def trying(module: nn.Module) -> Roles | str:
        tried.append(module)
        return roles_of(module)

    monkeypatch.setattr(swap, "roles_of", trying)
    model = nn.Sequential(
        *(Scaled(1.0) for _ in range(6)), Scaled(2.0), Three(silu), Three(silu, hidden=32), Three(silu)
    )
    model[9].register_forward_hook(lambda *_: None)
    packed = nn.Sequential(Packed(), Packed(), Packed())
    packed[2].activation_fn = nn.GELU(approximate="tanh")
    found = find(nn.Sequential(model, packed))
    assert tried == [model[0], *model[6:], packed[0], packed[2]]
    assert [name for name, roles in found.items() if isinstance(roles, str)] == ["0.6", "0.9"]
    assert {name: roles.activation for name, roles in found.items() if isinstance(roles, Roles) and name[0] == "1"} == {
        "1.0": "silu", "1.1": "silu", "1.2": "gelu_tanh"
    }  # fmt: skip


def _acting(act: Callable[[Tensor], Tensor]) -> nn.Module:
    module = Three(silu)
    module.act = act
    return module


def _holding(value: object) -> nn.Module:
    module = Three(silu)
    module.held = value
    return module


def _tied() -> nn.Module:
    module = Three(silu)
    module.up_proj.weight = module.gate_proj.weight
    return module


class Slotted(Three):
    """Keeps an attribute where nothing lists it."""

    __slots__ = ("scale",)


class Word(str):  # noqa: SLOT000 - a stranger's
    """A word with more to it, which cannot be hashed."""

    __hash__ = None  # type: ignore[assignment] # the point


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        (Three(silu), Three(silu), True),
        (Three(silu).eval(), Three(silu), True),
        (_acting(partial(F.gelu, approximate="tanh")), _acting(partial(F.gelu, approximate="tanh")), True),
        (_acting(partial(F.gelu, approximate="tanh")), _acting(partial(F.gelu, approximate="none")), False),
        (_holding((1, 2)), _holding((1, 2)), True),
        (_holding((1, 2)), _holding(torch.Size((1, 2))), False),
        (_holding(0.0), _holding(-0.0), False),
        (_holding(1), _holding(True), False),  # noqa: FBT003 - the point
        (_holding(Word("a")), _holding(Word("a")), False),
        (_holding([1]), _holding([1]), False),
        (_with_a_buffer(), _with_a_buffer(), False),
        (_tied(), Three(silu), False),
        (Slotted(silu), Slotted(silu), False),
        (nn.Sequential(*[nn.SiLU()] * 2), nn.Sequential(nn.SiLU(), nn.SiLU()), False),
        (_holding(nn.ModuleList()), _holding(nn.ModuleList()), True),
    ],
)
def test_what_looks_alike(one: nn.Module, other: nn.Module, alike: bool) -> None:  # noqa: FBT001 - pytest's
    """What a forward can read makes a difference, unless it is a weight's value."""
    assert (likeness(one) == likeness(other)) is alike


def test_who_looks_alike_is_looked_at() -> None:
    """What no attribute shows is seen in what a module gives."""
    scales: WeakKeyDictionary[nn.Module, float] = WeakKeyDictionary()

    class Hidden(Three):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) if self not in scales else super().forward(x) * scales[self]

    model = nn.Sequential(Hidden(silu), Hidden(silu), Hidden(silu))
    scales[model[1]] = 0.5
    assert likeness(model[0]) == likeness(model[1])
    assert [isinstance(roles, Roles) for roles in find(model).values()] == [True, False, True]
