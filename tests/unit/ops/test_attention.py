"""Attention on arguments as recorded traces hold them, with figures worked out by hand."""

from __future__ import annotations

from foretrace.ops import work

BF16 = "c10::BFloat16"


ATTENTION = [[4, 16, 1024, 64], [4, 16, 1024, 64], [4, 16, 1024, 64]]


def _cudnn(shapes: list[list[int]], causal: str) -> tuple[list[object], list[str], list[str]]:
    dtypes = [BF16, BF16, BF16, "", "Scalar", "Scalar", "Scalar", "Scalar", ""]
    return [*shapes, *[[]] * 6], dtypes, ["", "", "", "", "False", "0.", causal, "False", ""]


def test_attention_and_its_causal_half() -> None:
    """4·seq²·width per head, half of it under a causal mask; q, k and v are read and the output written."""
    full = work("aten::_scaled_dot_product_cudnn_attention", *_cudnn(ATTENTION, "False"))
    half = work("aten::_scaled_dot_product_cudnn_attention", *_cudnn(ATTENTION, "True"))
    assert full is not None
    assert half is not None
    assert full.op_class == "attention"
    assert full.flops == 17_179_869_184
    assert half.flops == 8_589_934_592
    assert (full.read_bytes, full.written_bytes) == (25_165_824, 8_388_608)


def test_grouped_queries_share_keys_and_values() -> None:
    """Grouped-query attention works for every query head and reads the few key and value heads once."""
    shapes = [[4, 16, 512, 64], [4, 4, 512, 64], [4, 4, 512, 64]]
    said = work("aten::_scaled_dot_product_cudnn_attention", *_cudnn(shapes, "True"))
    assert said is not None
    assert said.flops == 2_147_483_648
    assert (said.read_bytes, said.written_bytes) == (6_291_456, 4_194_304)


def test_attention_backends_agree_in_their_own_layouts() -> None:
    """Flash and memory-efficient kernels take [batch, sequence, heads, width] and count the same work."""
    shape = [4, 1024, 16, 64]
    flash = work(
        "aten::_flash_attention_forward",
        [shape, shape, shape, *[[]] * 14],
        [BF16, BF16, BF16, "", "", "Scalar", "Scalar", "Scalar", "Scalar", "Scalar", *[""] * 7],
        ["", "", "", "", "", "1024", "1024", "0.", "True", "False", *[""] * 7],
    )
    efficient = work(
        "aten::_efficient_attention_forward",
        [shape, shape, shape, *[[]] * 11],
        [BF16, BF16, BF16, "", "", "", "", "", "Scalar", "Scalar", "Scalar", "", "", ""],
        ["", "", "", "", "", "", "", "", "0.", "1", "False", "", "", ""],
    )
    assert flash is not None
    assert efficient is not None
    assert flash.flops == efficient.flops == 8_589_934_592
    assert efficient.written_bytes == 8_388_608
    assert flash.written_bytes == 8_388_608 + 4 * 16 * 1024 * 4  # and one f32 a query and head


def test_attention_over_ragged_batches_has_no_known_operations() -> None:
    """With cumulative lengths the pairs are data: operations unknown, bytes known."""
    said = work(
        "aten::_flash_attention_forward",
        [[900, 16, 64], [900, 16, 64], [900, 16, 64], [4], [4]],
        [BF16, BF16, BF16, "int", "int", "Scalar", "Scalar", "Scalar", "Scalar", "Scalar"],
        ["", "", "", "", "", "400", "400", "0.", "True", "False"],
    )
    assert said is not None
    assert said.flops is None
    assert said.read_bytes == 3 * 900 * 16 * 64 * 2


def test_attention_backward_costs_two_and_a_half_times_the_forward() -> None:
    """Five products instead of two."""
    lse = [4, 16, 1024]
    said = work(
        "aten::_scaled_dot_product_flash_attention_backward",
        [ATTENTION[0], *ATTENTION, ATTENTION[0], lse, [], [], [], [], [], [], [2], [], []],
        [BF16, BF16, BF16, BF16, BF16, "float", "", "", *["Scalar"] * 4, "long int", "", ""],
        [*[""] * 8, "1024", "1024", "0.", "False", "", "", ""],
    )
    assert said is not None
    assert said.flops == 42_949_672_960
    assert said.written_bytes == 3 * 8_388_608


def test_causal_masks_of_uneven_lengths() -> None:
    """From the top left a few queries see few keys; from the bottom right they see nearly all."""
    shapes = [[1, 8, 1, 16], [1, 1024, 1, 16], [1, 1024, 1, 16], *[[]] * 11]
    dtypes = [BF16, BF16, BF16, "", "", "", "", "", "Scalar", "Scalar", "Scalar", "", "", ""]

    def flops(mask: str) -> int | None:
        said = work(
            "aten::_efficient_attention_forward",
            shapes,
            dtypes,
            ["", "", "", "", "", "", "", "", "0.", mask, "False", "", "", ""],
        )
        assert said is not None
        return said.flops

    assert flops("0") == 4 * 8 * 1024 * 16
    assert flops("1") == 4 * 32 * 16  # half of 8 × 8 pairs
    assert flops("2") == 4 * (8 * 1024 - 32) * 16
    assert flops("7") is None


def test_sliding_windows_leave_the_operations_unknown() -> None:
    """A window limits the pairs in a way that the shapes do not tell."""
    shape = [4, 1024, 16, 64]
    said = work(
        "aten::_flash_attention_forward",
        [shape, shape, shape, *[[]] * 10],
        [BF16, BF16, BF16, "", "", *["Scalar"] * 5, "", "Scalar", "Scalar"],
        ["", "", "", "", "", "1024", "1024", "0.", "True", "False", "", "128", "0"],
    )
    assert said is not None
    assert said.flops is None
    assert said.read_bytes == 3 * 8_388_608
