"""What a gated MLP keeps for its backward, and how the gradients found there go back to its inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from .paths import Gradients, Needs
    from .weights import Weights


def keep(needs: Needs, x: Tensor, w: Weights, gate_up: Tensor) -> tuple[Tensor | None, ...]:
    """What the backward reads: x, gate's and up's outputs, three weights; each only if a wanted gradient does.

    x also where its gradient is wanted, so that a second derivative has a way to it.
    """
    inner = needs.x or needs.gate or needs.up or needs.gate_bias or needs.up_bias
    return (
        x if needs.x or needs.gate or needs.up else None,
        gate_up if inner or needs.down else None,
        w.gate if needs.x else None,
        w.up if needs.x else None,
        w.down if inner else None,
    )


def give(found: Gradients, needs: Needs, hidden: int) -> tuple[Tensor | None, ...]:
    """One gradient for each of x, the three weights and their biases, or nothing where none is wanted."""
    gate, up = _halves(found.gate_up, hidden, (needs.gate, needs.up))
    gate_bias, up_bias = _halves(found.gate_up_bias, hidden, (needs.gate_bias, needs.up_bias))
    return (
        found.x if needs.x else None,
        gate,
        up,
        found.down if needs.down else None,
        gate_bias,
        up_bias,
        found.down_bias if needs.down_bias else None,
    )


def _halves(both: Tensor | None, n: int, wanted: tuple[bool, bool]) -> tuple[Tensor | None, Tensor | None]:
    """Gate's and up's shares of a gradient that holds both, or only the wanted one."""
    if both is None or not any(wanted):
        return None, None
    return both[:n] if wanted[0] else None, both[-n:] if wanted[1] else None
