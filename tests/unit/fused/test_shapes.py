"""Shapes that do not belong together: no kernel may take them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from foretrace.fused import gated_mlp, plan, reference

_SHAPES = [(6, 10), (14, 10), (14, 10), (10, 14), (14,), (14,), (10,)]
_WRONG_SHAPES = {
    "x too wide": (0, (6, 12)), "x too narrow": (0, (6, 8)), "up shorter": (2, (7, 10)), "up of one row": (2, (1, 10)),
    "down of another width": (3, (10, 15)), "a bias too short": (4, (7,)),
}  # fmt: skip


@pytest.mark.parametrize("case", _WRONG_SHAPES)
@pytest.mark.parametrize("path", ["pointwise", "rows", "portable"])
def test_shapes_that_do_not_belong_together_are_pytorchs(case: str, path: str) -> None:
    """Its errors, and its broadcasting where it broadcasts: no kernel reads behind a tensor's end."""
    at, shape = _WRONG_SHAPES[case]
    tensors = [torch.randn(s, requires_grad=True) for s in _SHAPES]
    tensors[at] = torch.randn(shape, requires_grad=True)

    def result(function: Any) -> tuple[type, Any]:
        try:
            return Tensor, function(*tensors, activation="silu")
        except RuntimeError as error:
            return RuntimeError, str(error)

    with plan.forced(path):
        kind, found = result(gated_mlp)
    expected_kind, expected = result(reference.gated_mlp)
    assert kind is expected_kind
    assert torch.equal(found, expected) if kind is Tensor else found == expected
