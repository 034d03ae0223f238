"""Equal blocks: a stack of them is compiled with two and with three, and the difference is what one more costs."""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from torch import nn

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from foretrace.verdict import GuessedKernel

LEAST = 6
"""Equal blocks from which it pays to compile a few and extrapolate."""
FEW, ONE_MORE = 2, 3


@dataclass(frozen=True, slots=True)
class Stack:
    """A list of equal blocks inside a module.

    Attributes:
        name: As in ``named_modules()``.
        blocks: The list.
        count: How many there are.
    """

    name: str
    blocks: nn.Module
    count: int


def stack_of(module: Any) -> Stack | None:  # noqa: ANN401 - any callable
    """The longest list of at least `LEAST` blocks that are equal in class and sizes; ``None`` where there is none."""
    if not isinstance(module, nn.Module):
        return None
    lists = [(name, m) for name, m in module.named_modules() if isinstance(m, nn.ModuleList | nn.Sequential)]
    stacks = [Stack(name, m, len(m)) for name, m in lists if len(m) >= LEAST and len(set(map(_form, m))) == 1]
    return max(stacks, key=lambda stack: stack.count, default=None)


def _form(block: nn.Module) -> tuple[Any, ...]:
    return type(block), tuple((name, tuple(p.shape), p.dtype) for name, p in block.named_parameters())


@contextmanager
def shortened(stack: Stack, count: int) -> Iterator[None]:
    """The stack with its first ``count`` blocks only."""
    blocks: dict[str, nn.Module | None] = stack.blocks._modules  # noqa: SLF001 - a list of modules is this dict
    rest = list(blocks.items())[count:]
    for name, _ in rest:
        del blocks[name]
    try:
        yield
    finally:
        blocks.update(rest)


def place_of_one(few: Sequence[GuessedKernel], more: Sequence[GuessedKernel]) -> tuple[int, int] | None:
    """Where in ``more`` the kernels of one further block stand: start and length.

    ``None`` when ``more`` is not ``few`` with one stretch put in.
    """
    length = len(more) - len(few)
    start = next((i for i, (a, b) in enumerate(zip(few, more, strict=False)) if _key(a) != _key(b)), len(few))
    same_end = (
        all(_key(a) == _key(b) for a, b in zip(few[start:], more[start + length :], strict=True))
        if length > 0
        else False
    )
    return (start, length) if same_end else None


def _key(kernel: GuessedKernel) -> tuple[Any, ...]:
    # not the bytes: Inductor may carry a residual through several blocks before it writes it
    return kernel.op_class, kernel.op, kernel.shapes, kernel.fused_ops


def extended(kernels: Sequence[GuessedKernel], place: tuple[int, int], stack: Stack) -> tuple[GuessedKernel, ...]:
    """The kernels of all blocks from those of `ONE_MORE`, under the names that they would have."""
    start, length = place
    further = stack.count - ONE_MORE
    one, tail = kernels[start : start + length], kernels[start + length :]
    added = [_renamed(kernel, stack.name, number) for number in range(1, further + 1) for kernel in one]
    return (*kernels[: start + length], *added, *(_renamed(kernel, stack.name, further) for kernel in tail))


def _renamed(kernel: GuessedKernel, name: str, by: int) -> GuessedKernel:
    """The kernel of the block ``by`` further on."""
    prefix = f"{re.escape(name)}\\." if name else ""
    match = re.match(rf"({prefix})(\d+)(?=\.|$)", kernel.source or "")
    if match is None or kernel.source is None:
        return kernel
    return replace(kernel, source=f"{match[1]}{int(match[2]) + by}{kernel.source[match.end() :]}")
