"""How many launches an op over lists of tensors takes.

``multi_tensor_apply`` (``aten/src/ATen/native/cuda/MultiTensorApply.cuh``) works in chunks of 65,536 elements; one
launch takes at most 320 chunks, and at most 110, 64, 48, 36 or 30 tensors for 1 to 5 lists. Twelve tensors of 4.2
million elements are 768 chunks and take three launches.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

_CHUNK, _BLOCKS = 65_536, 320
_TENSORS = (110, 64, 48, 36, 30)


def launch_count(shapes: Sequence[Any]) -> int | None:
    """Launches for an op's arguments; ``None`` when none of them is a list of tensors.

    Args:
        shapes: Sizes of each argument, nested for lists of tensors.
    """
    lists = [shape for shape in shapes if shape and isinstance(shape[0], list | tuple)]
    if not lists:
        return None
    most = _TENSORS[min(len(lists), len(_TENSORS)) - 1]
    count = tensors = blocks = 0
    for position, sizes in enumerate(lists[0], 1):
        chunks = math.ceil(math.prod(sizes) / _CHUNK)
        tensors += 1
        for chunk in range(1, chunks + 1):
            blocks += 1
            last = position == len(lists[0]) and chunk == chunks
            if last or blocks == _BLOCKS or (tensors == most and chunk == chunks):
                count += 1
                blocks, tensors = 0, 0 if chunk == chunks else 1
    return count
