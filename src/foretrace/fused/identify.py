"""What a module computes, found by trying: which of its linears are gate, up and down, and which activation it has.

A module is believed to be a gated MLP only if it gives, in fp32 on the CPU, evaluating and training, what the plain
formula gives for random weights and for inputs near and far from zero. So a multiplier, a clamp, dropout, interleaved
columns or an unknown activation cannot slip through, whatever the module and its children are called.
"""

# ruff: noqa: ANN401 - a dispatch mode is handed anything
from __future__ import annotations

import inspect
import random
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily
from torch.utils._python_dispatch import TorchDispatchMode

from . import reference
from .activation import ACTIVATIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROWS = 4
# exact and tanh GELU differ by up to 4.7e-4, fp32 sums of 16384 terms by about 1e-6
_TOLERANCE = 2e-5
# inputs of unit size reach the activations' bend, larger ones a clamp, however wide
_SCALES = (1.0, 30.0, 1e6)
# what a plain one calls, in any spelling; a second product of two tensors or with a number is one too many
_PLAIN_OPS = frozenset({
    "_unsafe_view", "addmm", "alias", "clone", "expand", "gelu", "mm", "mul", "relu", "silu", "slice", "split",
    "split_with_sizes", "t", "transpose", "unsafe_split", "view",
})  # fmt: skip
_HOOKS = (
    "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks",
    "_state_dict_hooks", "_state_dict_pre_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks",
)  # fmt: skip
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
    if _has_hooks(module):
        return "it has hooks of its own, which a fused layer would not have"
    if "forward" in vars(module):
        return "another forward was put over its class's"
    if module._compiled_call_impl is not None:  # noqa: SLF001 - without a public form
        return "it is compiled by itself, which a fused layer would not be"
    for name, child in module.named_children():
        reason = _obstacle_in(name, child)
        if reason is not None:
            return reason
    own = [n for n, _ in (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False))]
    return f"it has parameters of its own: {', '.join(own)}" if own else None


def _obstacle_in(name: str, child: nn.Module) -> str | None:
    if _has_hooks(child):
        return f"`{name}` has hooks, which a fused call would skip"
    if "forward" in vars(child) or child._compiled_call_impl is not None:  # noqa: SLF001 - as above
        return f"`{name}` has another forward than its class's, which a fused call would skip"
    if type(child) is nn.Linear:
        return _obstacle_in_linear(name, child)
    if next(child.parameters(), None) is not None or next(child.buffers(), None) is not None:
        return f"`{name}` is a {type(child).__name__}, not a plain nn.Linear"
    return None


def _obstacle_in_linear(name: str, linear: nn.Linear) -> str | None:
    if hasattr(linear, "parametrizations"):
        return f"`{name}` is parametrized"
    if type(linear.weight) not in (nn.Parameter, Tensor, FakeTensor):
        return f"`{name}` keeps its weight as {type(linear.weight).__name__}, which the kernels cannot read"
    more = [n for n, _ in (*linear.named_parameters(), *linear.named_buffers()) if n not in {"weight", "bias"}]
    return f"`{name}` has more than a weight and a bias: {', '.join(more)}" if more else None


def _has_hooks(module: nn.Module) -> bool:
    return any(getattr(module, kind, None) for kind in _HOOKS)


def looks_gated(module: nn.Module) -> bool:
    """Whether the children have a gated MLP's usual names, or its shapes while the forward takes one argument."""
    names = {name for name, _ in module.named_children()}
    if {"gate_proj", "up_proj", "down_proj"} <= names or {"gate_up_proj", "down_proj"} <= names:
        return True
    # attention's projections can have these shapes too, but attention wants masks or positions
    return next(_arrangements(module), None) is not None and _takes_one_argument(module)


def _takes_one_argument(module: nn.Module) -> bool:
    parameters = inspect.signature(module.forward).parameters.values()
    needed = [p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    return len(needed) == 1


def roles_of(module: nn.Module) -> Roles | str:
    """The roles of ``module``'s children, or the reason why it is no gated MLP that can be served."""
    reason = obstacle(module)
    if reason is not None:
        return reason
    try:
        # a guess has fake weights, and a trial brings its own
        with unset_fake_temporarily(), torch.device("cpu"):
            return _try(module)
    except Exception as error:  # noqa: BLE001 - a stranger's forward may raise anything
        return f"it could not be tried on the CPU ({type(error).__name__}: {error})"


def agrees(module: nn.Module, roles: Roles) -> bool:
    """Whether ``module`` gives what ``roles`` would for one input: a quick look at one that looks like one tried."""
    try:
        with unset_fake_temporarily(), torch.device("cpu"):
            shapes = _shapes(module)
            x, expected = _one_row(shapes, roles, getattr(module, roles.gate).in_features)
            (found,), _ = _tried(module, random_weights(shapes), [x], nullcontext(), training=module.training)
            return _agrees(expected, found)
    except Exception:  # noqa: BLE001 - a stranger's forward may raise anything; the whole trial will say it
        return False


def forget() -> None:
    """Drop what was kept from one trial for the next."""
    random_weights.cache_clear()
    _one_row.cache_clear()


def _shapes(module: nn.Module) -> tuple[tuple[str, torch.Size], ...]:
    linears = ((n, c) for n, c in module.named_children() if type(c) is nn.Linear)
    return tuple((f"{n}.{p}", t.shape) for n, c in linears for p, t in c.named_parameters())


@lru_cache(maxsize=1)
def _one_row(shapes: tuple[tuple[str, torch.Size], ...], roles: Roles, dim: int) -> tuple[Tensor, Tensor]:
    """An input, and what ``roles`` make of it."""
    x = _inputs(dim)[0][:1]
    return x, _plain(x, random_weights(shapes), roles)


def _inputs(dim: int) -> list[Tensor]:
    dice = torch.Generator().manual_seed(1)
    return [torch.randn(_ROWS, dim, generator=dice) * scale for scale in _SCALES]


def _try(module: nn.Module) -> Roles | str:
    linears = {n: c for n, c in module.named_children() if type(c) is nn.Linear}
    weights = random_weights(_shapes(module))
    first = next((arrangement for arrangement in _arrangements(module)), None)
    if first is None:
        return "its linears do not have a gated MLP's shapes"
    inputs = _inputs(linears[first[0]].in_features)
    calls = _Calls()
    outputs, _ = _tried(module, weights, inputs, calls, training=False)
    (trained,), drew = _tried(module, weights, inputs[:1], nullcontext(), training=True)
    for gate, up, down in _arrangements(module):
        for activation in ACTIVATIONS:
            roles = Roles(gate, up, down, activation)
            if all(_agrees(_plain(x, weights, roles), y) for x, y in zip(inputs, outputs, strict=True)):
                more = "in training it does more, such as dropout, which a fused call would skip"
                return more if drew or not _agrees(_plain(inputs[0], weights, roles), trained) else roles
    return OTHER + calls.in_words(len(inputs))


def _tried(
    module: nn.Module, weights: dict[str, Tensor], inputs: list[Tensor], watch: Any, *, training: bool
) -> tuple[list[object], bool]:
    """What ``module`` gives for each input with ``weights`` inside of ``watch``, and whether it drew random numbers.

    Its mode and the random numbers stay as they were.
    """
    modes, state = [(m, m.training) for m in module.modules()], random.getstate()
    try:
        module.train(training)
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            before = torch.get_rng_state()
            with watch:
                found = [torch.func.functional_call(module, weights, (x,)) for x in inputs]
            drew = not torch.equal(torch.get_rng_state(), before) or random.getstate() != state
        return found, drew
    finally:
        random.setstate(state)
        for m, mode in modes:
            m.training = mode


class _Calls(TorchDispatchMode):  # type: ignore[no-untyped-call] # PyTorch's own
    """Counts what a trial calls, by name."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # as above
        self.names: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names[func._overloadpacket.__name__] += 1  # noqa: SLF001 - without a public form
        return func(*args, **(kwargs or {}))

    def in_words(self, trials: int) -> str:
        """What a gated MLP would not call, where something is that."""
        strange = sorted(self.names.keys() - _PLAIN_OPS)
        if self.names["mul"] > trials:
            strange.append(f"mul {self.names['mul'] // trials} times")
        return f": it calls {', '.join(strange)}" if strange else ""


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


@lru_cache(maxsize=1)
def random_weights(shapes: tuple[tuple[str, torch.Size], ...]) -> dict[str, Tensor]:
    """Parameters by name, scaled by their fan-in; the last set is kept, as the layers of a model share their shapes."""
    dice = torch.Generator().manual_seed(0)
    return {name: torch.randn(s, generator=dice) / (s[-1] if len(s) > 1 else 1) ** 0.5 for name, s in shapes}


def _plain(x: Tensor, weights: dict[str, Tensor], roles: Roles) -> Tensor:
    def parts(name: str) -> tuple[Tensor, Tensor | None]:
        return weights[f"{name}.weight"], weights.get(f"{name}.bias")

    down, down_bias = parts(roles.down)
    (gate, gate_bias), (up, up_bias) = parts(roles.gate), parts(roles.up)
    if roles.packed:
        gate, up = gate.chunk(2)
        gate_bias, up_bias = gate_bias.chunk(2) if gate_bias is not None else (None, None)
    return reference.gated_mlp(x, gate, up, down, gate_bias, up_bias, down_bias, activation=roles.activation)


def _agrees(expected: Tensor, found: object) -> bool:
    if not isinstance(found, Tensor) or found.shape != expected.shape:
        return False
    return bool((found.float() - expected).norm() <= _TOLERANCE * expected.norm())
