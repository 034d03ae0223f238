from __future__ import annotations

import pytest

from foretrace.names import decode
from foretrace.readings.pointers import pointers, product_shape

BF16 = "c10::BFloat16"


def test_each_pointer_counts_once() -> None:
    """Two inputs and a result of 1000 fp32 elements each; the loop's size is no tensor."""
    found = pointers(
        decode("triton_poi_fused_add_0"),
        [[1000], [1000], [1000], []],
        ["float"] * 3 + ["Scalar"],
        ["", "", "", "1000"],
        None,
    )
    assert found is not None
    assert (found.moved_bytes, found.flops, found.dtype) == (12_000, None, "f32")


def test_a_lookup_touches_rows_and_not_the_table() -> None:
    """A table of 32000 × 64 elements read by a loop of 512 elements counts 512 of them."""
    found = pointers(
        decode("triton_poi_fused_embedding_0"),
        [[8], [32_000, 64], [8, 64], []],
        ["long int", BF16, BF16, "Scalar"],
        ["", "", "", "512"],
        None,
    )
    assert found is not None
    assert found.moved_bytes == 8 * 8 + 512 * 2 + 512 * 2


def test_expanded_inputs_count_their_memory() -> None:
    """A row repeated by stride 0 lies in memory once."""
    found = pointers(
        decode("triton_poi_fused_add_0"), [[64, 100], [64, 100]], ["float"] * 2, ["", ""], [[0, 1], [100, 1]]
    )
    assert found is not None
    assert found.moved_bytes == 400 + 25_600


def test_nothing_recorded_is_unknown() -> None:
    """A launch without tensors among its arguments says nothing."""
    assert pointers(decode("triton_poi_fused_add_0"), None, None, None, None) is None


@pytest.mark.parametrize(
    ("name", "shapes", "expected"),
    [
        ("triton_tem_fused_mm_0", [[64, 32], [32, 16], [64, 16]], (1, 64, 16, 32)),
        ("triton_tem_fused_mm_t_0", [[64, 32], [16, 32], [64, 16]], (1, 64, 16, 32)),
        ("triton_tem_fused_addmm_0", [[16], [64, 32], [32, 16], [64, 16]], (1, 64, 16, 32)),
        ("triton_tem_fused_bmm_0", [[4, 64, 32], [4, 32, 16], [4, 64, 16]], (4, 64, 16, 32)),
        ("triton_tem_fused_mm_0", [[64, 32], [8, 16], [64, 16]], None),
        ("triton_tem_fused_mm_0", [[64, 32], [32, 16], []], None),
        ("triton_poi_fused_mul_0", [[64, 32], [32, 16], [64, 16]], None),
    ],
)
def test_sizes_of_a_templates_product(name: str, shapes: list[list[int]], expected: object) -> None:
    """(batch, M, N, K) where operands and result fit together, else unknown."""
    assert product_shape(decode(name), shapes, [BF16] * len(shapes)) == expected
