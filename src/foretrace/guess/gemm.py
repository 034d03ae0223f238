"""What cuBLAS makes of a matrix product: its epilogue, and whether it cuts K into parts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from foretrace.units import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foretrace.devices import Device

_TILE = 64
_LEAST_DEPTH = 2_048
_BUSY_SHARE = 4
_MATRIX = 2


def split_k(left: Sequence[int], right: Sequence[int], device: Device | None) -> str | None:
    """Why cuBLAS would cut K into parts and add them up in a second kernel; ``None`` where it would not.

    With few rows there are too few output tiles to keep a large device busy, and a long K makes each tile slow. The
    rule: tiles of 64 × 64 fill less than a quarter of the SMs, and K is 2,048 or longer. Measured on an H200 (132 SMs,
    bf16, cuBLAS 13.0): 1 row × 768 columns splits K = 3,072; 4 rows × 1,024 columns split K = 2,816 and not K = 1,024;
    384 rows × 768 columns (72 tiles) do not split K = 3,072.

    Args:
        left: Sizes ``[…, M, K]``.
        right: Sizes ``[…, K, N]``.
        device: Where it runs; nothing is said of one without a known number of SMs.
    """
    if device is None or not device.sms or len(left) < _MATRIX or len(right) < _MATRIX:
        return None
    rows, depth, columns = left[-2], left[-1], right[-1]
    tiles = math.prod(left[:-2]) * math.ceil(rows / _TILE) * math.ceil(columns / _TILE)
    if depth < _LEAST_DEPTH or tiles * _BUSY_SHARE >= device.sms:
        return None
    few = f"{plural(rows, 'row')} and {plural(columns, 'column')} give {plural(tiles, 'tile')} for {device.sms} SMs"
    return f"split-K: {few} while K = {depth} is long"


def bias_in_epilogue(added: Sequence[int], left: Sequence[int], right: Sequence[int], beta: Any) -> bool:  # noqa: ANN401 - a number or its text
    """Whether ``addmm`` adds its first argument in the epilogue: one dimension, as long as the result is wide.

    The condition is ``addmm``'s own for cuBLASLt (``aten/src/ATen/native/cuda/Blas.cpp``); anything else is copied
    into the result first.
    """
    one = len(added) == 1 and added[0] == right[-1]
    return one and left[-1] > 1 and right[-1] > 1 and str(beta) in {"1", "1.0", ""}
