"""Operation counts of the contractions: matrix products, convolutions and attention.

A multiply-add counts as two operations; epilogues (bias, activation) and softmax are left out, as in the vendors'
own peak figures and in ``torch.utils.flop_counter``. These are counts for real numbers; `table` counts complex ones.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

# Which keys a query sees: all, those up to its own index counted from the first key, or counted from the last.
Mask: TypeAlias = Literal["none", "top-left", "bottom-right"]


def matmul_flops(m: int, n: int, k: int, batch: int = 1) -> int:
    """``batch`` products ``[m, k] × [k, n]``: 2·batch·m·n·k."""
    return 2 * batch * m * n * k


def convolution_flops(positions: int, weight: Sequence[int]) -> int:
    """A convolution, forward or towards either gradient.

    Args:
        positions: Elements of the output, or of the input for a transposed convolution.
        weight: Sizes ``[out channels, in channels ÷ groups, *kernel]``; transposed:
            ``[in channels, out channels ÷ groups, *kernel]``.
    """
    return 2 * positions * math.prod(weight[1:])


def attention_flops(
    heads: int, queries: int, keys: int, qk_width: int, v_width: int, mask: Mask = "none", *, backward: bool = False
) -> int:
    """Scaled dot-product attention: the products with K and with V; a causal mask halves a square one.

    The backward pass computes five products instead of two (scores again, dV, dP, dQ, dK), as counted in Dao,
    *FlashAttention-2* (2023), section 4.1: forward ``4·seq²·width·heads``, halved when causal, backward 2.5 times
    the forward.

    Args:
        heads: Query heads of all batch entries together (grouped queries share K and V, not work).
        queries: Query positions.
        keys: Key positions.
        qk_width: Width of a query and key head.
        v_width: Width of a value head.
        mask: Which keys a query sees.
        backward: Count the backward pass instead of the forward.
    """
    widths = 3 * qk_width + 2 * v_width if backward else qk_width + v_width
    return heads * _twice_visible_pairs(queries, keys, mask) * widths


def _twice_visible_pairs(queries: int, keys: int, mask: Mask) -> int:
    """Twice the (query, key) pairs that a mask leaves, so that half a square stays a whole number."""
    square = min(queries, keys)
    if mask == "none":
        return 2 * queries * keys
    if mask == "top-left":  # queries beyond the last key see every key
        return square * square + 2 * (queries - square) * keys
    return square * square + 2 * square * (keys - square)  # queries before the first key see none
