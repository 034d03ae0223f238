"""What a module computes, found by trying: which of its linears are gate, up and down, and which activation it has.

A module is believed to be a gated MLP only if it gives, in fp32 on the CPU, evaluating and training, what the plain
formula gives for random weights and for inputs near and far from zero. So a multiplier, a clamp, dropout, interleaved
columns or an unknown activation cannot slip through, whatever the module and its children are called.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor

from . import reference, trial
from .activation import ACTIVATIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

_HOOKS = (
    "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks",
    "_state_dict_hooks", "_state_dict_pre_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks",
)  # fmt: skip
_USUAL = frozenset({"gate_proj", "up_proj", "gate_up_proj", "down_proj"})
OTHER = "it does not compute down(act(gate(x)) * up(x)) with GELU (exact or tanh), SiLU, ReLU or nothing as act"


@dataclass(frozen=True, slots=True)
class Roles:
    """A gated MLP's children by name: three linears, or one that holds gate and up (``gate == up``) and down."""

    gate: str
    up: str
    down: str
    activation: str

    @property
    def packed(self) -> bool:
        """Whether one projection holds gate's rows and then up's."""
        return self.gate == self.up


def obstacle(module: nn.Module) -> str | None:
    """Why ``module``, which has the children of a gated MLP, cannot be served; nothing if only trying can tell."""
    reasons = (look(module) for look in (_of_its_own, _in_its_children, _shared, _more_inputs))
    return next((reason for reason in reasons if reason is not None), None)


def _of_its_own(module: nn.Module) -> str | None:
    if _has_hooks(module):
        return "it has hooks of its own, which a fused layer would not have"
    if "forward" in vars(module):
        return "another forward was put over its class's"
    if module._compiled_call_impl is not None:  # noqa: SLF001 - without a public form
        return "it is compiled by itself, which a fused layer would not be"
    own = [n for n, _ in (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False))]
    return f"it has parameters of its own: {', '.join(own)}" if own else None


def _in_its_children(module: nn.Module) -> str | None:
    reasons = (_obstacle_in(name, child) for name, child in module.named_children())
    return next((reason for reason in reasons if reason is not None), None)


def _shared(module: nn.Module) -> str | None:
    owners: dict[int, str] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        child = name.partition(".")[0]
        other = owners.setdefault(id(parameter), child)
        if other != child:
            return f"`{other}` and `{child}` share a parameter"
    return None


def _more_inputs(module: nn.Module) -> str | None:
    more = [parameter.name for parameter in inspect.signature(module.forward).parameters.values()][1:]
    return f"its forward takes more than one input: {', '.join(more)}" if more else None


def _obstacle_in(name: str, child: nn.Module) -> str | None:
    if hasattr(child, "parametrizations"):
        return f"`{name}` is parametrized"
    if _has_hooks(child):
        return f"`{name}` has hooks, which a fused call would skip"
    if "forward" in vars(child) or child._compiled_call_impl is not None:  # noqa: SLF001 - as above
        return f"`{name}` has another forward than its class's, which a fused call would skip"
    if type(child) is nn.Linear:
        return _obstacle_in_linear(name, child)
    holds = next(child.parameters(), None) is not None or next(child.buffers(), None) is not None
    if holds or name in _USUAL:
        kind = type(child)
        return f"`{name}` is a {_full_name(kind)}, not a plain nn.Linear"
    return None


def _obstacle_in_linear(name: str, linear: nn.Linear) -> str | None:
    if type(linear.weight) not in (nn.Parameter, Tensor, FakeTensor):
        return f"`{name}` keeps its weight as {type(linear.weight).__name__}, which the kernels cannot read"
    more = [n for n, _ in (*linear.named_parameters(), *linear.named_buffers()) if n not in {"weight", "bias"}]
    return f"`{name}` has more than a weight and a bias: {', '.join(more)}" if more else None


def _full_name(kind: type) -> str:
    """A class's name, with where it comes from if it is called what PyTorch's own is called."""
    return f"{kind.__module__}.{kind.__name__}" if kind.__name__ == "Linear" else kind.__name__


def _has_hooks(module: nn.Module) -> bool:
    return any(getattr(module, kind, None) for kind in _HOOKS)


def looks_gated(module: nn.Module) -> bool:
    """Whether the children have a gated MLP's usual names, or its shapes while the forward takes one argument."""
    names = {name for name, _ in module.named_children()}
    if {"gate_proj", "up_proj", "down_proj"} <= names or {"gate_up_proj", "down_proj"} <= names:
        return True
    # attention's projections can have these shapes too, but attention takes masks or positions
    return next(_arrangements(module), None) is not None and _more_inputs(module) is None


def roles_of(module: nn.Module) -> Roles | str:
    """The roles of ``module``'s children, or the reason why it is no gated MLP that can be served."""
    reason = obstacle(module)
    if reason is not None:
        return reason
    try:
        with trial.on_cpu():
            return _try(module)
    except Exception as error:  # noqa: BLE001 - a stranger's forward may raise anything
        return f"it could not be tried on the CPU ({type(error).__name__}: {error})"


def agrees(module: nn.Module, roles: Roles) -> bool:
    """Whether ``module`` gives what ``roles`` would for one input: a quick look at one that looks like one tried."""
    try:
        with trial.on_cpu():
            shapes = _shapes(module)
            x, expected = _one_row(shapes, roles, getattr(module, roles.gate).in_features)
            (found,), _ = trial.tried(module, trial.random_weights(shapes), [x], training=module.training)
            return trial.agrees(expected, found)
    except Exception:  # noqa: BLE001 - a stranger's forward may raise anything; the whole trial will say it
        return False


def forget() -> None:
    """Drop what was kept from one trial for the next."""
    trial.random_weights.cache_clear()
    _one_row.cache_clear()


def _shapes(module: nn.Module) -> tuple[tuple[str, torch.Size], ...]:
    linears = ((n, c) for n, c in module.named_children() if type(c) is nn.Linear)
    return tuple((f"{n}.{p}", t.shape) for n, c in linears for p, t in c.named_parameters())


@lru_cache(maxsize=1)
def _one_row(shapes: tuple[tuple[str, torch.Size], ...], roles: Roles, dim: int) -> tuple[Tensor, Tensor]:
    """An input, and what ``roles`` make of it."""
    x = trial.inputs(dim)[0][:1, :1]
    return x, _plain(x, trial.random_weights(shapes), roles)


def _try(module: nn.Module) -> Roles | str:
    linears = {n: c for n, c in module.named_children() if type(c) is nn.Linear}
    weights = trial.random_weights(_shapes(module))
    first = next((arrangement for arrangement in _arrangements(module)), None)
    if first is None:
        return "its linears do not have a gated MLP's shapes"
    inputs = trial.inputs(linears[first[0]].in_features)
    calls = trial.Calls()
    outputs, _ = trial.tried(module, weights, inputs, training=False, watch=calls)
    for gate, up, down in _arrangements(module):
        for activation in ACTIVATIONS:
            roles = Roles(gate, up, down, activation)
            if all(trial.agrees(_plain(x, weights, roles), y) for x, y in zip(inputs, outputs, strict=True)):
                return _more(module, weights, inputs[0], roles) or roles
    return OTHER + calls.in_words()


def _more(module: nn.Module, weights: dict[str, Tensor], x: Tensor, roles: Roles) -> str | None:
    """What ``module``, which gives what ``roles`` would for sequences in fp32, does beside it or otherwise."""
    expected = _plain(x, weights, roles)
    (trained,), drew = trial.tried(module, weights, [x], training=True)
    if drew or not trial.agrees(expected, trained):
        return "in training it does more, such as dropout, which a fused call would skip"
    if not trial.same_for_rows(module, weights, x, expected):
        return "it gives other results for [rows, dim] than for [batch, rows, dim]"
    if not trial.same_gradients(module, weights, x, lambda value, given: _plain(value, given, roles)):
        return "its gradients are not those of the formula, as if a part were kept from autograd or checkpointed"
    found = trial.type_in_bf16(module, weights, x)
    if found not in (None, torch.bfloat16):
        return f"of bf16 it makes {str(found).removeprefix('torch.')}, where a fused layer keeps the type"
    return None


def _arrangements(module: nn.Module) -> Iterator[tuple[str, str, str]]:
    """Every way in which the linears' shapes allow the roles."""
    linears = {n: c for n, c in module.named_children() if type(c) is nn.Linear}
    if len(linears) == 3:  # noqa: PLR2004 - gate, up, down
        for gate, up, down in permutations(linears):
            g, u, d = linears[gate], linears[up], linears[down]
            if g.weight.shape == u.weight.shape == d.weight.shape[::-1]:
                yield gate, up, down
    elif len(linears) == 2:  # noqa: PLR2004 - both in one, down
        for both, down in permutations(linears):
            b, d = linears[both], linears[down]
            if b.out_features == 2 * d.in_features and b.in_features == d.out_features:
                yield both, both, down


def _plain(x: Tensor, weights: dict[str, Tensor], roles: Roles) -> Tensor:
    def parts(name: str) -> tuple[Tensor, Tensor | None]:
        return weights[f"{name}.weight"], weights.get(f"{name}.bias")

    down, down_bias = parts(roles.down)
    (gate, gate_bias), (up, up_bias) = parts(roles.gate), parts(roles.up)
    if roles.packed:
        gate, up = gate.chunk(2)
        gate_bias, up_bias = gate_bias.chunk(2) if gate_bias is not None else (None, None)
    return reference.gated_mlp(x, gate, up, down, gate_bias, up_bias, down_bias, activation=roles.activation)
