"""Run Triton's kernels in its interpreter, on the CPU, for the tests of this folder only."""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest
import torch

if TYPE_CHECKING:
    from collections.abc import Callable

# Triton decides when a kernel is defined, its own library's at import: both are imported afresh under the variable
# here, all but the compiled extension, if somebody imported them before; the fixture below sets it for each test
os.environ["TRITON_INTERPRET"] = "1"

for _name in list(sys.modules):
    if _name.partition(".")[0] == "triton" and not _name.startswith("triton._C"):
        del sys.modules[_name]

from triton.runtime import interpreter  # noqa: E402 - after the variable

for _name in ("device_activation", "launch", "pointwise", "rows", "gated_forward"):
    _module = sys.modules.get(f"foretrace.fused.kernels.{_name}")
    if _module is not None:
        importlib.reload(_module)
    else:
        importlib.import_module(f"foretrace.fused.kernels.{_name}")
del os.environ["TRITON_INTERPRET"]


def _accept_new_numpy(patch: Callable[..., None]) -> Callable[..., None]:
    """Triton 3.6 asks ``int()`` of a one-element array for a loop bound, which NumPy 2.4 refuses."""

    def patched(tensor: Any, scope: Any) -> None:
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())

    return patched


interpreter._patch_lang_tensor = _accept_new_numpy(interpreter._patch_lang_tensor)


@pytest.fixture(autouse=True)
def _interpreted_and_seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter, and the same random numbers in every run."""
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    torch.manual_seed(0)
