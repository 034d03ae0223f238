"""Run Triton's kernels in its interpreter, on the CPU: set before anything here imports triton."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
import torch

if TYPE_CHECKING:
    from collections.abc import Callable

os.environ["TRITON_INTERPRET"] = "1"

from triton.runtime import interpreter


def _accept_new_numpy(patch: Callable[..., None]) -> Callable[..., None]:
    """Triton 3.6 asks ``int()`` of a one-element array for a loop bound, which NumPy 2.4 refuses."""

    def patched(tensor: Any, scope: Any) -> None:
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())

    return patched


interpreter._patch_lang_tensor = _accept_new_numpy(interpreter._patch_lang_tensor)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """The same random numbers in every run."""
    torch.manual_seed(0)
