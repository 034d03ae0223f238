"""One trial of a module on the CPU: random weights, inputs near and far from zero, and what comes of them."""

# ruff: noqa: ANN401 - a dispatch mode is handed anything
from __future__ import annotations

import random
from collections import Counter
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.utils._python_dispatch import TorchDispatchMode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

# exact and tanh GELU differ by up to 4.7e-4, fp32 sums of 16384 terms by about 1e-6
_TOLERANCE = 2e-5
# an activation written in other ops rounds otherwise; a part that is kept from autograd is whole
_OF_GRADIENTS = 1e-3
# inputs of unit size reach the activations' bend, larger ones a clamp, however wide
_SCALES = (1.0, 30.0, 1e6)
_SEQUENCES = (2, 2)
# what a plain one calls, in any spelling; a second product of two tensors or with a number is one too many
_PLAIN_OPS = frozenset({
    "_unsafe_view", "addmm", "alias", "clone", "expand", "gelu", "mm", "mul", "relu", "silu", "slice", "split",
    "split_with_sizes", "t", "transpose", "unsafe_split", "view",
})  # fmt: skip


@contextmanager
def on_cpu() -> Iterator[None]:
    """Real tensors on the CPU, whatever surrounds a trial: a guess has fake weights, and a trial brings its own."""
    with unset_fake_temporarily(), torch.device("cpu"), torch.inference_mode(mode=False):
        yield


@lru_cache(maxsize=1)
def random_weights(shapes: tuple[tuple[str, torch.Size], ...]) -> dict[str, Tensor]:
    """Parameters by name, scaled by their fan-in; the last set is kept, as the layers of a model share their shapes."""
    dice = torch.Generator().manual_seed(0)
    return {name: torch.randn(s, generator=dice) / (s[-1] if len(s) > 1 else 1) ** 0.5 for name, s in shapes}


def inputs(dim: int) -> list[Tensor]:
    """[2, 2, dim] each, of growing size."""
    dice = torch.Generator().manual_seed(1)
    return [torch.randn(*_SEQUENCES, dim, generator=dice) * scale for scale in _SCALES]


def tried(
    module: nn.Module,
    weights: Mapping[str, Tensor],
    given: Sequence[Tensor],
    *,
    training: bool,
    watch: Calls | None = None,
) -> tuple[list[object], bool]:
    """What ``module`` gives for each input with ``weights`` inside of ``watch``, and whether it drew random numbers.

    Sequences are laid out as rows for a module that takes nothing else. Its mode, the random numbers and the inputs
    stay as they were.
    """
    with _undisturbed(module, training=training), torch.no_grad(), torch.random.fork_rng(devices=[]):
        before, state = torch.get_rng_state(), random.getstate()
        try:
            found = [_called(module, weights, x, watch) for x in given]
        except Exception:  # noqa: BLE001 - a stranger's forward may raise anything
            if watch is not None:
                watch.names.clear()
            found = [_called(module, weights, x.flatten(0, -2), watch) for x in given]
        drew = not torch.equal(torch.get_rng_state(), before) or random.getstate() != state
    return found, drew


def same_for_rows(module: nn.Module, weights: Mapping[str, Tensor], x: Tensor, expected: Tensor) -> bool:
    """Whether rows give what sequences gave; a module that takes only one of the two is asked nothing more."""
    try:
        with _undisturbed(module, training=False), torch.no_grad():
            return agrees(expected, _called(module, weights, x.flatten(0, -2)))
    except Exception:  # noqa: BLE001 - as above
        return True


def type_in_bf16(module: nn.Module, weights: Mapping[str, Tensor], x: Tensor) -> torch.dtype | None:
    """The type of the result with everything in bf16; ``None`` where that raises."""
    lower = {name: weight.bfloat16() for name, weight in weights.items()}
    try:
        (found,), _ = tried(module, lower, [x.bfloat16()], training=False)
    except Exception:  # noqa: BLE001 - as above
        return None
    return found.dtype if isinstance(found, Tensor) else None


def gradients(call: Any, weights: Mapping[str, Tensor], x: Tensor) -> Iterator[Tensor | None]:
    """The gradients of the input and of each weight, one after the other, for ``call(weights, x)``."""
    with torch.enable_grad():
        leaves = {name: weight.detach().requires_grad_() for name, weight in weights.items()}
        leaf = x.detach().clone().requires_grad_()
        out = call(leaves, leaf.view_as(leaf))  # a leaf could not be changed in place
        if not isinstance(out, Tensor) or not out.requires_grad:
            yield from (None for _ in (leaf, *leaves))
            return
        towards = torch.randn(out.shape, generator=torch.Generator().manual_seed(2))
        for one in (leaf, *leaves.values()):
            yield torch.autograd.grad(out, one, towards, retain_graph=True, allow_unused=True)[0]


def same_gradients(module: nn.Module, weights: Mapping[str, Tensor], x: Tensor, plain: Any) -> bool:
    """Whether the gradients of ``module`` are those of ``plain(x, weights)``."""

    def call(given: Mapping[str, Tensor], value: Tensor) -> object:
        try:
            return torch.func.functional_call(module, dict(given), (value,))
        except Exception:  # noqa: BLE001 - it takes rows only
            return torch.func.functional_call(module, dict(given), (value.flatten(0, 1),)).view_as(value)

    with _undisturbed(module, training=True), torch.random.fork_rng(devices=[]):
        wanted = gradients(lambda given, value: plain(value, given), weights, x)
        return all(
            one is not None and other is not None and agrees(one, other, _OF_GRADIENTS)
            for one, other in zip(wanted, gradients(call, weights, x), strict=True)
        )


def agrees(expected: Tensor, found: object, tolerance: float = _TOLERANCE) -> bool:
    """Whether ``found`` is a tensor with the numbers expected; rows may be laid out as sequences."""
    if not isinstance(found, Tensor) or found.numel() != expected.numel() or found.shape[-1:] != expected.shape[-1:]:
        return False
    return bool((found.float().view_as(expected) - expected).norm() <= tolerance * expected.norm())


def _called(module: nn.Module, weights: Mapping[str, Tensor], x: Tensor, watch: Calls | None = None) -> object:
    """The result, if it is a tensor of the input's sizes and the input is what it was."""
    given = x.clone()
    with watch or nullcontext():
        found = torch.func.functional_call(module, dict(weights), (given,))
    return found if isinstance(found, Tensor) and found.shape == x.shape and torch.equal(given, x) else None


@contextmanager
def _undisturbed(module: nn.Module, *, training: bool) -> Iterator[None]:
    """Inside, all of ``module`` is in the asked-for mode; its own and the random numbers come back after."""
    modes, state = [(m, m.training) for m in module.modules()], random.getstate()
    try:
        module.train(training)
        yield
    finally:
        random.setstate(state)
        for m, mode in modes:
            m.training = mode


class Calls(TorchDispatchMode):  # type: ignore[no-untyped-call] # PyTorch's own
    """Counts what a trial calls, by name."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # as above
        self.names: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names[func._overloadpacket.__name__] += 1  # noqa: SLF001 - without a public form
        return func(*args, **(kwargs or {}))

    def in_words(self) -> str:
        """What a gated MLP would not call, where something is that."""
        strange = sorted(self.names.keys() - _PLAIN_OPS)
        trials = len(_SCALES)
        if self.names["mul"] > trials:
            strange.append(f"mul {self.names['mul'] // trials} times")
        return f": it calls {', '.join(strange)}" if strange else ""
