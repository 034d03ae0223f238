"""The table on arguments as recorded traces hold them, with figures worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretrace.ops import work
from foretrace.ops.table import TABLE

BF16 = "c10::BFloat16"


def test_a_matrix_product_of_the_recorded_mlp() -> None:
    """[8192, 768] × [768, 3072] in bf16: 38.65 GFLOP over 67.6 MB, 572 FLOP/B."""
    said = work("aten::mm", [[8192, 768], [768, 3072]], [BF16, BF16], ["", ""], [[768, 1], [1, 768]])
    assert said is not None
    assert said.op_class == "gemm"
    assert said.flops == 38_654_705_664
    assert said.moved_bytes == 67_633_152
    assert said.intensity == pytest.approx(571.53, abs=0.01)
    assert (said.dtype, said.out_shape, said.out_dtype) == ("bf16", (8192, 3072), "bf16")
    assert said.launches is True


@pytest.mark.parametrize("odd", [5, 0.5, "x", True, {"a": 1}])
def test_arguments_that_are_no_lists(odd: object) -> None:
    """What is no list says nothing: the op is known, its work is not."""
    every: list[object] = [[[8192, 768], [768, 3072]], [BF16, BF16], ["", ""], [[768, 1], [1, 768]]]
    for position in range(4):
        said = work("aten::mm", *(odd if i == position else one for i, one in enumerate(every)))  # type: ignore[arg-type]
        assert said is not None
        assert said.op_class == "gemm"
        assert said.flops in ((None,) if position == 0 else (None, 38_654_705_664))


def test_the_activation_and_the_gate_of_the_recorded_mlp() -> None:
    """GELU reads and writes 50.3 MB each; the product of two such tensors moves three times that."""
    shape, strides = [64, 128, 3072], [393216, 3072, 1]
    gelu = work("aten::gelu", [shape, []], [BF16, ""], ["", "tanh"], [strides, []])
    mul = work("aten::mul", [shape, shape], [BF16, BF16], ["", ""], [strides, strides])
    assert gelu is not None
    assert mul is not None
    assert (gelu.read_bytes, gelu.written_bytes, gelu.moved_bytes) == (50_331_648, 50_331_648, 100_663_296)
    assert mul.moved_bytes == 150_994_944


def test_the_gated_mlp_of_this_package() -> None:
    """One GEMM with gate and up, 8192 × 768 × 6144: 77.3 GFLOP; reads x and weights, writes h and what it saves."""
    x, weight, hidden, down = [8192, 768], [3072, 768], [8192, 3072], [768, 3072]
    forward = work("foretrace::gated_forward", [x, weight, weight], [BF16] * 3)
    saving = work("foretrace::gated_forward", [x, weight, weight, hidden, hidden], [BF16] * 5)
    whole = work("foretrace::gated_mlp", [x, weight, weight, down], [BF16] * 4)
    backward = work("foretrace::gated_backward", [x, down, hidden, hidden], [BF16] * 4)
    gate_up = work("foretrace::gate_up", [[1, 768], weight, weight], [BF16] * 3)
    few = work("foretrace::down", [[1, 768], down], [BF16] * 2)
    assert forward is not None
    assert saving is not None
    assert whole is not None
    assert backward is not None
    assert gate_up is not None
    assert few is not None
    assert (forward.flops, forward.read_bytes, forward.written_bytes) == (77_309_411_328, 22_020_096, 50_331_648)
    assert (saving.flops, saving.written_bytes) == (forward.flops, 3 * 50_331_648)
    assert (whole.flops, whole.read_bytes, whole.written_bytes) == (
        3 * 38_654_705_664,
        forward.read_bytes + 50_331_648 + 4_718_592,
        50_331_648 + 12_582_912,
    )
    assert (backward.flops, backward.read_bytes, backward.written_bytes) == (
        38_654_705_664,
        12_582_912 + 4_718_592 + 2 * 50_331_648,
        3 * 50_331_648,
    )
    assert (gate_up.flops, gate_up.read_bytes, gate_up.written_bytes) == (4 * 768 * 3072, 1_536 + 2 * 4_718_592, 6_144)
    assert (few.flops, few.read_bytes, few.written_bytes) == (2 * 768 * 3072, 6_144 + 4_718_592, 1_536)
    assert work("foretrace::gated_forward", [x, [3072, 512], weight], [BF16] * 3).flops is None  # type: ignore[union-attr]


def test_the_gate_of_this_package_reads_two_and_writes_one() -> None:
    """Forward 2 reads and a write, backward 3 reads and 2 writes, or 3 where h is kept again."""
    shape = [8192, 3072]
    size = 50_331_648
    for count, op, moved in ((2, "pointwise", 3), (3, "pointwise_backward", 5), (4, "pointwise_backward", 6)):
        said = work(f"foretrace::{op}", [shape] * count, [BF16] * count)
        assert said is not None
        assert said.moved_bytes == moved * size


def test_a_bias_is_read_once_and_an_out_tensor_is_the_result() -> None:
    """``addmm`` with ``out=`` reads 64 + 1024·32 + 32·64 elements and writes 1024·64."""
    said = work(
        "aten::addmm",
        [[64], [1024, 32], [32, 64], [], [], [1024, 64]],
        [BF16, BF16, BF16, "Scalar", "Scalar", BF16],
        ["", "", "", "1", "1", ""],
        [[1], [32, 1], [1, 32], [], [], [64, 1]],
    )
    assert said is not None
    assert said.flops == 4_194_304
    assert (said.read_bytes, said.written_bytes) == (69_760, 131_072)


def test_products_with_a_named_result_type() -> None:
    """``mm`` and ``addmm`` may name a wider result, an integer product widens, a scaled one reads its scales."""
    wide = work("aten::mm", [[16, 32], [32, 8], []], [BF16, BF16, "Scalar"], ["", "", "6"])
    added = work(
        "aten::addmm",
        [[8], [16, 32], [32, 8], [], [], []],
        [BF16, BF16, BF16, "Scalar", "Scalar", "Scalar"],
        ["", "", "", "6", "1", "1"],
    )
    integer = work("aten::_int_mm", [[16, 32], [32, 8]], ["signed char", "signed char"])
    f8 = "c10::Float8_e4m3fn"
    scaled = work(
        "aten::_scaled_mm",
        [[16, 32], [32, 8], [], [], [], [], [], []],
        [f8, f8, "float", "float", "", "", "Scalar", "Scalar"],
        ["", "", "", "", "", "", "15", "False"],
    )
    assert wide is not None
    assert added is not None
    assert integer is not None
    assert scaled is not None
    assert (wide.out_dtype, wide.written_bytes, wide.dtype) == ("f32", 512, "bf16")
    assert (added.out_dtype, added.read_bytes) == ("f32", 16 + 1024 + 512)
    assert (integer.out_dtype, integer.written_bytes, integer.dtype) == ("i32", 512, "i8")
    assert (scaled.out_dtype, scaled.read_bytes, scaled.dtype) == ("bf16", 512 + 256 + 8, "f8")


def test_einsum_counts_only_with_its_equation() -> None:
    """Kineto drops the equation of ``einsum``: figures are unknown unless a caller gives it."""
    shapes, equation = [[], [[4, 16, 8], [4, 16, 32]], []], "bkm,bkn->bmn"
    recorded = work("aten::einsum", shapes, ["", "TensorList", ""], ["", "", ""])
    told = work("aten::einsum", shapes, ["", ["float", "float"], ""], [equation, "", ""])
    assert recorded is not None
    assert told is not None
    assert (recorded.op_class, recorded.flops) == ("gemm", None)
    assert (told.flops, told.out_shape, told.written_bytes) == (2 * 4 * 16 * 8 * 32, (4, 8, 32), 4096)


def test_lists_count_operations_but_their_types_are_not_recorded() -> None:
    """Kineto names no element types in a ``TensorList``: operations are known, bytes only when a caller knows."""
    shapes = [[[3072, 768], [768]], [[3072, 768], [768]], []]
    recorded = work("aten::_foreach_lerp_", shapes, ["TensorList", "TensorList", "Scalar"], ["", "", "0.1"])
    told = work("aten::_foreach_lerp_", shapes, [["float", "float"], ["float", "float"], "Scalar"], ["", "", "0.1"])
    assert recorded is not None
    assert told is not None
    elements = 3072 * 768 + 768
    assert (recorded.flops, recorded.read_bytes, recorded.written_bytes) == (3 * elements, None, None)
    assert (told.read_bytes, told.written_bytes) == (8 * elements, 4 * elements)


def test_a_fused_optimizer_reads_four_lists_and_writes_three() -> None:
    """AdamW reads parameters, gradients and two moments, and writes all but the gradients."""
    lists = [[[100]], [[100]], [[100]], [[100]], [], [[]]]
    kinds = [["float"], ["float"], ["float"], ["float"], [], ["float"]]
    said = work("aten::_fused_adamw_", [*lists, []], [*kinds, "Scalar"], ["", "", "", "", "", "", "0.001"])
    assert said is not None
    assert said.op_class == "optimizer"
    assert (said.read_bytes, said.written_bytes) == (1600, 1200)


def test_concatenation_knows_its_shape_and_with_types_its_bytes() -> None:
    """``cat`` joins along its dimension; bytes follow where the types are given."""
    shapes = [[[4, 16, 32], [4, 16, 8]], []]
    recorded = work("aten::cat", shapes, ["TensorList", "Scalar"], ["", "-1"])
    told = work("aten::cat", shapes, [[BF16, BF16], "Scalar"], ["", "-1"])
    assert recorded is not None
    assert told is not None
    assert (recorded.out_shape, recorded.read_bytes) == ((4, 16, 40), None)
    assert (told.read_bytes, told.written_bytes) == (5120, 5120)


def test_an_embedding_touches_the_rows_that_it_names() -> None:
    """2,048 rows of 1,024 out of a table of 32,000: 4.2 MB and the indices, not the table's 65.5 MB."""
    said = work("aten::embedding", [[32000, 1024], [4, 512]], [BF16, "long int"])
    assert said is not None
    assert (said.read_bytes, said.written_bytes) == (4_194_304 + 16_384, 4_194_304)


def test_a_causal_mask_is_half_read() -> None:
    """``triu`` above the diagonal of 1,024 × 1,024 keeps 523,776 elements."""
    said = work("aten::triu", [[1024, 1024], []], ["bool", "Scalar"], ["", "1"])
    assert said is not None
    assert (said.read_bytes, said.written_bytes) == (523_776, 1_048_576)


def test_a_number_beside_a_tensor_moves_nothing() -> None:
    """A Python number that Kineto shows as a 0-dim ``double`` neither moves bytes nor changes the type."""
    said = work("aten::div", [[4, 16], []], [BF16, "double"], ["", ""])
    assert said is not None
    assert (said.read_bytes, said.written_bytes, said.out_dtype) == (128, 128, "bf16")


def test_where_promotion_cannot_be_told_the_result_stays_unknown() -> None:
    """Integers beside a 0-dim ``double``: a Python number makes f32, a real tensor f64; the file does not say."""
    said = work("aten::mul", [[4, 16], []], ["long int", "double"], ["", ""])
    assert said is not None
    assert (said.out_dtype, said.written_bytes, said.read_bytes) == (None, None, 512)


@pytest.mark.parametrize(
    "op",
    [
        "triton_poi_fused__unsafe_view_gelu_mul_0",
        "triton_tem_fused_mm_t_view_0",
        "c10d::allreduce_",
        "record_param_comms",
        "_c10d_functional::all_reduce",
        "mylib::mm",
        "MmBackward0",
        "mm",
        "",
        "aten::",
        "aten::no_such_op",
    ],
)
def test_ops_that_are_not_in_the_table_have_no_work(op: str) -> None:
    """Triton kernels, collectives, custom ops and autograd nodes are none of the table's business."""
    assert work(op, [[4, 8], [8, 4]], ["float", "float"]) is None


@pytest.mark.parametrize("op", sorted(TABLE))
def test_missing_arguments_leave_figures_unknown(op: str) -> None:
    """A trace without recorded shapes still tells the class, and no figure is invented."""
    said = work(f"aten::{op}", None, None)
    assert said is not None
    assert (said.flops, said.read_bytes, said.written_bytes) == (None, None, None)


def test_shapes_without_types_still_count_operations() -> None:
    """Operations need sizes only; bytes need types."""
    said = work("aten::mm", [[16, 32], [32, 8]], None)
    assert said is not None
    assert (said.flops, said.moved_bytes) == (8192, None)


_sizes = st.lists(st.integers(-1, 9), max_size=4)
_shapes = st.lists(st.one_of(_sizes, st.lists(_sizes, max_size=3), st.none(), st.text(max_size=3)), max_size=14)
_kinds = st.sampled_from(["float", BF16, "long int", "bool", "Scalar", "ScalarList", "TensorList", "", "?"])
_values = st.sampled_from(["", "0", "-1", "3", "1.5", "inf", "nan", "True", "[0, 1]", "[]", "[True, False]", "x"])


@given(
    op=st.sampled_from(sorted(TABLE)),
    shapes=_shapes,
    dtypes=st.lists(_kinds, max_size=14),
    concrete=st.lists(_values, max_size=14),
    strides=_shapes,
)
def test_no_arguments_raise(
    op: str, shapes: list[object], dtypes: list[str], concrete: list[str], strides: list[object]
) -> None:
    """Whatever a broken or foreign trace holds, the table answers, and never with negative figures."""
    said = work(f"aten::{op}", shapes, dtypes, concrete, strides)
    assert said is not None
    assert all(figure is None or figure >= 0 for figure in (said.flops, said.read_bytes, said.written_bytes))


@pytest.mark.parametrize(
    ("op", "shapes", "dtypes", "out_dtype"),
    [
        ("aten::div", [[], []], ["float", "long int"], "f32"),  # only the category of an integer can count
        ("aten::add", [[4], []], ["bool", "long int"], "i64"),
        ("aten::add", [[4], []], ["int", "long int"], "i32"),
        ("aten::add", [[4], []], [BF16, "float"], "bf16"),
        ("aten::add", [[4], []], ["int", "float"], "f32"),
        ("aten::add", [[], []], ["double", "double"], "f64"),
        ("aten::add", [[], []], ["float", "double"], None),  # a number or a tensor: the file does not say
        ("aten::add", [[4], []], ["float", "c10::complex<double>"], None),
        ("aten::add", [[4], [4]], ["c10::Half", BF16], "f32"),
        ("aten::sqrt", [[4]], ["int"], "f32"),
        ("aten::eq", [[4], []], [BF16, "double"], "bool"),
        ("aten::add_", [[4], [4]], [BF16, "float"], "bf16"),
        ("aten::where", [[4], [4], []], ["bool", BF16, "float"], "bf16"),
    ],
)
def test_result_types_follow_pytorchs_promotion(
    op: str, shapes: list[list[int]], dtypes: list[str], out_dtype: str | None
) -> None:
    """Tensors with dimensions decide, 0-dim ones only lift the category; undecidable means unknown."""
    said = work(op, shapes, dtypes, [""] * len(shapes))
    assert said is not None
    assert said.out_dtype == out_dtype


def test_the_arithmetic_type_is_that_of_the_promoted_operands() -> None:
    """The condition of ``where`` and the bool of a comparison are not what is computed with."""
    where = work("aten::where", [[4], [4], [4]], ["bool", BF16, BF16])
    compare = work("aten::gt", [[4], [4]], ["float", "float"])
    assert where is not None
    assert compare is not None
    assert (where.dtype, compare.dtype) == ("bf16", "f32")


def test_operands_that_do_not_broadcast_have_no_work() -> None:
    """Shapes that contradict the op leave every figure unknown."""
    said = work("aten::add", [[4, 3], [4, 5]], ["float", "float"])
    assert said is not None
    assert (said.flops, said.moved_bytes) == (None, None)


@pytest.mark.parametrize(
    ("op", "shapes", "dtypes", "concrete", "read", "written"),
    [
        # 6 rows of 8 f32 and 6 indices into a table of 100 rows, which is read and written only there
        (
            "aten::index_add_",
            [[100, 8], [], [6], [6, 8], []],
            ["float", "Scalar", "long int", "float", "Scalar"],
            ["", "0", "", "", "1"],
            6 * 8 + 192 + 192,
            192,
        ),
        (
            "aten::index_copy_",
            [[100, 8], [], [6], [6, 8]],
            ["float", "Scalar", "long int", "float"],
            ["", "0", "", ""],
            48 + 192,
            192,
        ),
        (
            "aten::scatter_add_",
            [[100, 8], [], [6, 8], [6, 8]],
            ["float", "Scalar", "long int", "float"],
            ["", "0", "", ""],
            384 + 192 + 192,
            192,
        ),
        (
            "aten::scatter_",
            [[100, 8], [], [6, 8], []],
            ["float", "Scalar", "long int", "Scalar"],
            ["", "0", "", "1"],
            384,
            192,
        ),
        # out of place the whole tensor is copied first
        (
            "aten::scatter_add",
            [[100, 8], [], [6, 8], [6, 8]],
            ["float", "Scalar", "long int", "float"],
            ["", "0", "", ""],
            3200 + 768,
            3200 + 192,
        ),
    ],
)
def test_scatters_touch_what_their_index_names(
    op: str, shapes: list[list[int]], dtypes: list[str], concrete: list[str], read: int, written: int
) -> None:
    """In place only the indexed elements move, with the index and the values."""
    said = work(op, shapes, dtypes, concrete)
    assert said is not None
    assert (said.read_bytes, said.written_bytes) == (read, written)


def test_grouped_products_count_every_row_once() -> None:
    """Ragged rows meet one group's matrix each; a ragged inner dimension is data and stays unknown."""
    rows = work("aten::_grouped_mm", [[512, 64], [8, 64, 32], [8]], [BF16, BF16, "int"])
    inner = work("aten::_grouped_mm", [[64, 512], [512, 32], [8]], [BF16, BF16, "int"])
    assert rows is not None
    assert inner is not None
    assert (rows.flops, rows.out_shape) == (2 * 512 * 64 * 32, (512, 32))
    assert inner.flops is None


def test_named_overloads_and_dense_defaults() -> None:
    """An overload's name changes nothing, and without strides a tensor is taken as dense."""
    plain = work("aten::mm", [[16, 32], [32, 8]], ["float", "float"])
    assert plain == work("aten::mm.out", [[16, 32], [32, 8], [16, 8]], ["float", "float", "float"])
    assert plain is not None
    assert plain.moved_bytes == 4 * (16 * 32 + 32 * 8 + 16 * 8)


@pytest.mark.parametrize("dtype", ["c10::complex<float>", "torch.complex64", "c10::complex<double>"])
def test_complex_products_take_four_times_the_operations(dtype: str) -> None:
    """[4, 8] × [8, 8]: 8·4·8·8 = 2,048, whichever op of the family is asked; pointwise ops are no products."""
    for op, shapes in (("mm", [[4, 8], [8, 8]]), ("addmm", [[8], [4, 8], [8, 8]]), ("linear", [[4, 8], [8, 8]])):
        said = work(f"aten::{op}", shapes, [dtype] * len(shapes))
        assert said is not None
        assert said.flops == 2_048
    copied = work("aten::copy_", [[4, 8], [4, 8]], [dtype, dtype])
    assert copied is not None
    assert copied.flops == 0
