"""Put fused layers in place of a model's own gated MLPs, keeping every parameter and its name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor, nn

from .functional import gated_mlp
from .identify import Roles, agrees, forget, looks_gated, roles_of
from .layers import GatedMLP
from .likeness import likeness
from .plan import Choice, explain_weights
from .weights import Weights

if TYPE_CHECKING:
    from collections.abc import Hashable


class AdoptedMLP(nn.Module):
    """A gated MLP over another module's linears, under the names that they have there.

    Args:
        linears: The children by name, in the order of the module they come from.
        roles: Which of them is gate, up and down.
    """

    def __init__(self, linears: dict[str, nn.Linear], roles: Roles) -> None:
        super().__init__()
        self.roles = roles
        for name, linear in linears.items():
            self.add_module(name, linear)

    def forward(self, x: Tensor) -> Tensor:
        """``[..., dim]`` to ``[..., dim]``."""
        return gated_mlp(x, *weights_of(self, self.roles), activation=self.roles.activation)

    def explain(self, rows: int, *, training: bool = False) -> Choice:
        """Which path ``rows`` rows take with the parameters as they are now, and why."""
        return explain_weights(rows, weights_of(self, self.roles), training=training)

    def extra_repr(self) -> str:
        """The activation and who plays which part."""
        return f"activation={self.roles.activation!r}, gate={self.roles.gate!r}, up={self.roles.up!r}"


def weights_of(module: nn.Module, roles: Roles) -> Weights:
    """The weights and biases of a gated MLP's linears, gate and up apart where one linear has both."""
    gate, up, down = (getattr(module, name) for name in (roles.gate, roles.up, roles.down))
    if not roles.packed:
        return Weights(gate.weight, up.weight, down.weight, gate.bias, up.bias, down.bias)
    gate_weight, up_weight = gate.weight.chunk(2)
    gate_bias, up_bias = (None, None) if gate.bias is None else gate.bias.chunk(2)
    return Weights(gate_weight, up_weight, down.weight, gate_bias, up_bias, down.bias)


@dataclass(frozen=True, slots=True)
class Replaced:
    """One module that now runs fused."""

    name: str
    was: str
    activation: str


@dataclass(frozen=True, slots=True)
class Refused:
    """One module that looks like a gated MLP and was left alone, and why."""

    name: str
    was: str
    why: str


@dataclass(frozen=True, slots=True)
class Swap:
    """What ``replace`` did: the model to use from now on, and every gated MLP in it."""

    model: nn.Module
    replaced: tuple[Replaced, ...]
    refused: tuple[Refused, ...]


def find(model: nn.Module) -> dict[str, Roles | str]:
    """Every module that looks like a gated MLP, by name: its roles, or the reason why it cannot be served.

    Of modules that look alike one is tried and the others are looked at: a trial takes a second at 4096 × 14336.
    """
    tried: dict[Hashable, Roles | str] = {}
    found: dict[str, Roles | str] = {}
    try:
        for name, module in model.named_modules():
            if _is_candidate(module):
                kind = likeness(module)
                if kind not in tried:
                    found[name] = tried[kind] = roles_of(module)
                    continue
                known = tried[kind]
                found[name] = known if isinstance(known, str) or agrees(module, known) else roles_of(module)
    finally:
        forget()
    return found


def replace(model: nn.Module) -> Swap:
    """Put fused layers in place of the gated MLPs of ``model``, which is changed.

    A module is replaced only where it was found to compute what the fused layer computes (see ``identify``); parameters
    are the same objects under the same names, so optimizers and state dicts stay valid. A module that is used in
    several places is replaced in all, and named once. A ``model`` that is itself a gated MLP comes back as
    ``Swap.model``.
    """
    replaced: list[Replaced] = []
    refused: list[Refused] = []
    for name, roles in find(model).items():
        module = model.get_submodule(name)
        was = type(module).__name__
        if isinstance(roles, str):
            refused.append(Refused(name, was, roles))
            continue
        fused = _adopt(module, roles)
        if not name:
            model = fused
        for place in [n for n, m in model.named_modules(remove_duplicate=False) if m is module]:
            parent, _, child = place.rpartition(".")
            setattr(model.get_submodule(parent), child, fused)
        replaced.append(Replaced(name, was, roles.activation))
    return Swap(model, tuple(replaced), tuple(refused))


def _is_candidate(module: nn.Module) -> bool:
    return not isinstance(module, GatedMLP | AdoptedMLP) and looks_gated(module)


def _adopt(module: nn.Module, roles: Roles) -> nn.Module:
    linears = {n: c for n, c in module.named_children() if type(c) is nn.Linear}
    fused: nn.Module
    if (roles.gate, roles.up, roles.down) == ("gate_proj", "up_proj", "down_proj"):
        fused = GatedMLP.around(linears["gate_proj"], linears["up_proj"], linears["down_proj"], roles.activation)
    else:
        fused = AdoptedMLP(linears, roles)
    return fused.train(module.training)
