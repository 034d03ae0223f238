"""Bytes that tensors occupy."""

from __future__ import annotations

import pytest

from foretrace.ops.bytes import Tensor, tensor_bytes, total_bytes, unique_elements


@pytest.mark.parametrize(
    ("shape", "strides", "elements"),
    [
        ((4, 8), (8, 1), 32),
        ((4, 8), (1, 4), 32),
        ((4, 8), None, 32),
        ((4, 8), (0, 1), 8),
        ((4, 8), (0, 0), 1),
        ((6, 3), (1, 1), 8),  # windows of three over eight elements
        ((2, 3), (100, 1), 6),  # rows far apart
        ((), (), 1),
        ((0, 5), (5, 1), 0),
    ],
)
def test_only_elements_that_lie_in_memory_count(
    shape: tuple[int, ...], strides: tuple[int, ...] | None, elements: int
) -> None:
    """Expanded dimensions and overlapping windows count once; gaps between rows do not count."""
    assert unique_elements(Tensor(shape, "f32", strides)) == elements


def test_bytes_need_a_known_type() -> None:
    """A tensor of unknown type has no size, and neither has a total that includes it."""
    known, unknown = Tensor((4, 8), "bf16"), Tensor((4, 8), None)
    assert tensor_bytes(known) == 64
    assert tensor_bytes(unknown) is None
    assert total_bytes([known, known]) == 128
    assert total_bytes([known, unknown]) is None
    assert total_bytes(None) is None


def test_dense_needs_contiguous_strides() -> None:
    """A tensor is dense when its strides are a contiguous one's; sizes of 1 may have any stride."""
    assert Tensor((4, 8), "f32", (8, 1)).dense()
    assert Tensor((4, 1, 8), "f32", (8, 999, 1)).dense()
    assert not Tensor((4, 8), "f32", (1, 4)).dense()
    assert not Tensor((4, 8), "f32").dense()
