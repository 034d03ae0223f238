"""What optimizers and gradient clipping ask of a device before they work on lists of tensors, answered there."""

from __future__ import annotations

import sys
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def lists_supported() -> Iterator[None]:
    """Inside, tensors of the stage count as an accelerator's for ``foreach`` and for ``capturable``."""
    name = "_get_capturable_supported_devices"
    with ExitStack() as stack:
        for module in [m for path, m in sys.modules.items() if path.startswith("torch.optim.") and hasattr(m, name)]:
            original = getattr(module, name)
            stack.callback(setattr, module, name, original)
            setattr(module, name, _with_cpu(original))
        kinds: Any = torch.utils._foreach_utils._foreach_supported_types  # noqa: SLF001 - nothing public tells
        kinds.append(FakeTensor)
        stack.callback(kinds.remove, FakeTensor)
        yield


def _with_cpu(devices: Any) -> Any:  # noqa: ANN401 - a function of PyTorch's
    return lambda *args, **kwargs: [*devices(*args, **kwargs), "cpu"]
