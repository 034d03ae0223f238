"""Which kernel does the work of which: on small runs by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from foretrace.diff import Change, diff

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from foretrace.run import Run

    Kernel = tuple[str, str, Any, float]
    Build = Callable[..., Run]

UP = ("aten::mm", "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT", [[256, 64], [64, 128]], 30.0)
DOWN = ("aten::mm", "nvjet_sm90_tst_128x64_64x8_4x1_v_bz_TNT", [[256, 128], [128, 64]], 25.0)
RELU = ("aten::relu", "void at::native::relu_kernel()", [[256, 128]], 9.0)
GELU = ("aten::gelu", "void at::native::gelu_kernel()", [[256, 128]], 9.0)
MUL = ("aten::mul", "void at::native::mul_kernel()", [[256, 128], [256, 128]], 11.0)
ADD = ("aten::add", "void at::native::add_kernel()", [[256, 128], [256, 128], []], 11.0)


def _told(changes: Sequence[Change]) -> list[tuple[str, list[str | None], list[str | None]]]:
    return [(c.status, list(c.before_op), list(c.after_op)) for c in changes]


def _steps(*kernels: Kernel, count: int = 3) -> list[list[Kernel]]:
    return [list(kernels)] * count


def _named(kernel: Kernel, name: str) -> Kernel:
    return (kernel[0], name, *kernel[2:])


def test_reordering_is_no_change(built: Build) -> None:
    """The same four kernels in another order are the same four kernels."""
    found = diff(built(_steps(UP, RELU, ADD, DOWN)), built(_steps(ADD, DOWN, UP, RELU)))
    assert [c.status for c in found.changes] == ["same"] * 4


def test_more_or_fewer_steps_are_no_change(built: Build) -> None:
    """Two steps against seven of the same kernels."""
    found = diff(built(_steps(UP, RELU, count=2)), built(_steps(UP, RELU, count=7)))
    assert found.is_empty
    assert (found.before.steps, found.after.steps) == (2, 7)


def test_a_renamed_kernel_is_a_variant(built: Build) -> None:
    """Op and shapes are the same and the name is another."""
    found = diff(built(_steps(UP, RELU)), built(_steps(_named(UP, "my_own_gemm"), RELU)))
    assert _told(found.changes) == [("variant", ["aten::mm"], ["aten::mm"]), ("same", ["aten::relu"], ["aten::relu"])]
    assert found.changes[0].fields["family"] == ["nvjet", "unknown"]


def test_kernels_that_came_and_went(built: Build) -> None:
    """What has no counterpart is added or removed, at its place."""
    found = diff(built(_steps(UP, RELU)), built(_steps(UP, DOWN)))
    assert [c.status for c in found.changes] == ["same", "removed", "added"]
    assert found.changes[1].after_ns is None
    assert found.changes[2].before_ns is None
    assert found.changes[2].after_ns == 25_000


def test_two_gemms_of_equal_flops_are_told_apart(built: Build) -> None:
    """Up and down need the same FLOPs; exchanged, each is matched with itself."""
    found = diff(built(_steps(UP, DOWN)), built(_steps(DOWN, UP)))
    assert [c.status for c in found.changes] == ["same", "same"]
    assert sorted(c.before_ns or 0 for c in found.changes) == [25_000, 30_000]


def test_fused_by_the_ops_in_the_name(built: Build) -> None:
    """Each pair of relu and add belongs to the generated kernel at its own place; views are origins."""
    fused = ("triton_poi_fused_add_relu_view_0", "triton_poi_fused_add_relu_view_0", [[256, 128]] * 3, 12.0)
    before, after = built(_steps(UP, RELU, ADD, DOWN, RELU, ADD)), built(_steps(UP, fused, DOWN, fused))
    found = diff(before, after)
    assert _told(found.changes) == [
        ("same", ["aten::mm"], ["aten::mm"]),
        ("fused", ["aten::relu", "aten::add"], ["triton_poi_fused_add_relu_view_0"]),
        ("same", ["aten::mm"], ["aten::mm"]),
        ("fused", ["aten::relu", "aten::add"], ["triton_poi_fused_add_relu_view_0"]),
    ]
    assert found.changes[1].fields == {"origins": ["view"]}
    assert found.changes[1].before_ns == 20_000
    assert [c.status for c in diff(after, before).changes] == ["same", "split", "same", "split"]


def test_fused_by_order_is_inferred(built: Build) -> None:
    """A hand-written kernel between two GEMMs stands for what stood there, and the change says how that is known."""
    mine = ("mine::relu_add", "_fused_rows", [[256, 128], [256, 128]], 12.0)
    found = diff(built(_steps(UP, RELU, ADD, DOWN)), built(_steps(UP, mine, DOWN)))
    assert _told(found.changes)[1] == ("fused", ["aten::relu", "aten::add"], ["mine::relu_add"])
    assert [c.inferred for c in found.changes] == [False, True, False]


def test_a_hand_written_kernel_of_another_size_takes_nothing_in(built: Build) -> None:
    """Tensors of another size are other work: added and removed, not fused."""
    mine = ("mine::something", "_other_rows", [[7, 7]], 12.0)
    found = diff(built(_steps(UP, RELU, DOWN)), built(_steps(UP, mine, DOWN)))
    assert sorted(c.status for c in found.changes) == ["added", "removed", "same", "same"]


def test_an_epilogue_takes_in_the_op_that_it_does(built: Build) -> None:
    """A GEMM whose template lists relu does the work of the GEMM and of the relu behind it."""
    template = ("triton_tem_fused_mm_relu_0", "triton_tem_fused_mm_relu_0", [[256, 64], [64, 128], [256, 128]], 31.0)
    found = diff(built(_steps(UP, RELU)), built(_steps(template)))
    assert _told(found.changes) == [("fused", ["aten::mm", "aten::relu"], ["triton_tem_fused_mm_relu_0"])]


def test_a_step_that_differs_from_the_others_is_grouped_by_call(built: Build) -> None:
    """Where steps launch different kernels, both runs are grouped by call and still match."""
    uneven = [[UP, RELU, RELU], [UP, RELU], [UP, RELU]]
    found = diff(built(uneven), built(_steps(UP, RELU)))
    assert [c.status for c in found.changes] == ["same", "same"]


def test_one_side_without_kernels(built: Build) -> None:
    """Everything is added, or removed; nothing is divided by nothing."""
    found = diff(built([[]]), built(_steps(UP, RELU)))
    assert [c.status for c in found.changes] == ["added", "added"]
    assert found.steps.ratio is None
    assert [c.status for c in diff(built(_steps(UP)), built([[]])).changes] == ["removed"]


@pytest.mark.parametrize("count", [1_500])
def test_long_steps_are_aligned(built: Build, count: int) -> None:
    """A step of thousands of kernels is grouped by kind of call: two kinds, each one change."""
    found = diff(built(_steps(*[UP, RELU] * (count // 2), count=1)), built(_steps(*[UP, RELU] * (count // 2), count=1)))
    assert [c.status for c in found.changes] == ["same", "same"]


def test_a_kernel_that_runs_more_often_says_so(built: Build) -> None:
    """Grouped by call, twice instead of three times a step is the same kernel, and no slower or faster one."""
    before = built([[UP, RELU, RELU, RELU], [UP, RELU, RELU, RELU], [UP, RELU, RELU, RELU, ADD]])
    found = diff(before, built(_steps(UP, RELU, RELU)))
    relu = found.changes[1]
    assert (relu.status, relu.fields) == ("same", {"count": [3.0, 2.0]})
    assert relu.says == "the same kernel, 2 instead of 3 times a step"
    assert "though its kernel is the same" not in found.sentence


@pytest.mark.parametrize(
    "gated",
    [
        "foretrace_gated_forward",
        "kernel_cutlass_kernel_quackgemm_actGemmGatedSm90_object_at__TiledMMA_ThrLayoutVMNK1281111000_0",
    ],
)
def test_a_gated_product_stands_for_its_layer(built: Build, gated: str) -> None:
    """Two projections, the activation and the product of each of two layers are one kernel of that layer."""
    whole = ("mlp::gated", gated, None, 50.0)
    found = diff(built(_steps(*(UP, GELU, UP, MUL, DOWN) * 2)), built(_steps(*(whole, DOWN) * 2)))
    four = ["aten::mm", "aten::gelu", "aten::mm", "aten::mul"]
    fused, down = ("fused", four, ["mlp::gated"]), ("same", ["aten::mm"], ["aten::mm"])
    assert _told(found.changes) == [fused, down] * 2
    assert [c.inferred for c in found.changes] == [True, False] * 2
    assert "each do the work of 2 mm, gelu and mul, as their order suggests: save 60.0 µs in all" in found.sentence


WHOLE = ("mlp::gated", "foretrace_gated_forward", None, 50.0)
MLP = ("foretrace::gated_mlp", "foretrace_gated_forward", [[256, 64], [128, 64], [128, 64], [64, 128]], 70.0)
GATED = ("foretrace::gated_forward", "foretrace_gated_forward", [[256, 64], [128, 64], [128, 64]], 50.0)
Q = ("aten::mm", "nvjet_sm90_tst_128x128_64x6_2x1_v_bz_TNN", [[256, 64], [64, 64]], 12.0)
QUACK = ("quack::gated", "kernel_cutlass_kernel_quackgemm_actGemmGatedSm90_object_at__TiledMMA_0", None, 50.0)
SPLIT_DOWN = ("aten::mm", "nvjet_sm90_tst_64x64_64x16_2x1_v_bz_splitK_TNT", [[256, 128], [128, 64]], 25.0)
HELPER = ("aten::mm", "void cublasLt::splitKreduce_kernel<32, 16, int, float>(cublasSplitKParams<float>)", None, 2.0)
MORE_GATED = ("foretrace::gated_forward", "foretrace_gated_forward", [[384, 64], [128, 64], [128, 64]], 75.0)
MORE_DOWN = (*DOWN[:2], [[384, 128], [128, 64]], 37.0)
PLAIN = (UP, GELU, UP, MUL, DOWN)


@pytest.mark.parametrize(
    ("before", "after", "statuses"),
    [
        (PLAIN, (MLP,), ["fused"]),
        ((*PLAIN, *PLAIN), (MLP, MLP), ["fused", "fused"]),
        ((*PLAIN, ADD, *PLAIN), (MLP, ADD, MLP), ["fused", "same", "fused"]),
        ((GATED, DOWN), (MLP,), ["fused"]),
        ((QUACK, DOWN), (MLP,), ["fused"]),
        ((GATED, SPLIT_DOWN, HELPER), (MLP,), ["fused"]),
        ((GATED, DOWN), (MORE_GATED, MORE_DOWN), ["same", "same"]),
        ((MLP,), PLAIN, ["split"]),
        ((*PLAIN, Q), (MLP, Q), ["fused", "same"]),
    ],
)
def test_a_gated_kernel_holds_the_down_projection_where_its_flops_do(
    built: Build, before: tuple[Kernel, ...], after: tuple[Kernel, ...], statuses: list[str]
) -> None:
    """What it took in falls short of its FLOPs by just the product right behind."""
    assert [c.status for c in diff(built(_steps(*before)), built(_steps(*after))).changes] == statuses


QKV = ("aten::mm", "nvjet_sm90_tst_192x128_64x5_1x2_h_bz_coopB_TNT", [[256, 64], [64, 192]], 30.0)


@pytest.mark.parametrize("order", [(Q, Q, Q, UP, GELU, UP, MUL, DOWN), (Q, Q, Q, UP, UP, GELU, MUL, DOWN)])
def test_other_products_beside_a_gated_one_are_not_its_own(built: Build, order: tuple[Kernel, ...]) -> None:
    """Three projections of attention became one at the same time: the two equal ones with work between them are its."""
    found = diff(built(_steps(*order)), built(_steps(QKV, WHOLE, DOWN)))
    (fused,) = [c for c in found.changes if c.after_op == ("mlp::gated",)]
    assert sorted(map(str, fused.before_op)) == ["aten::gelu", "aten::mm", "aten::mm", "aten::mul"]
    assert (fused.before_ns, fused.after_ns) == (80_000, 50_000)


def test_pointwise_work_beyond_the_layer_is_not_its_own(built: Build) -> None:
    """A sum before the projections and one behind the last product stay what they are: removed."""
    found = diff(built(_steps(ADD, UP, GELU, UP, MUL, DOWN, ADD)), built(_steps(WHOLE, DOWN)))
    assert [len(c.before_op) for c in found.changes if c.status == "fused"] == [4]
    assert [c.before_op for c in found.changes if c.status == "removed"] == [("aten::add",)] * 2


def test_a_packed_projection_is_half_of_a_gated_product(built: Build) -> None:
    """Gate and up in one product already, as Phi has them; and a split product brings its helper along."""
    packed = ("aten::mm", "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT", [[256, 64], [64, 256]], 60.0)
    found = diff(built(_steps(*(packed, GELU, MUL, DOWN) * 2)), built(_steps(*(WHOLE, DOWN) * 2)))
    three = ("aten::mm", "aten::gelu", "aten::mul")
    assert [c.before_op for c in found.changes if c.status == "fused"] == [three] * 2
    helper = (
        "aten::mm",
        "void cublasLt::splitKreduce_kernel<32, 16, int, float>(cublasSplitKParams<float>)",
        None,
        2.0,
    )
    found = diff(built(_steps(UP, helper, GELU, UP, helper, MUL, DOWN)), built(_steps(WHOLE, DOWN)))
    assert sorted(c.status for c in found.changes) == ["fused", "same"]


def test_a_gated_product_in_a_step_too_long_to_align(built: Build) -> None:
    """Rows are kinds there, and gate and up one kind with twice the launches."""
    before, after = (*(RELU, UP, GELU, UP, MUL, DOWN) * 300,), (*(RELU, WHOLE, DOWN) * 300,)
    found = diff(built(_steps(*before)), built(_steps(*after)))
    assert [c.before_op for c in found.changes if c.status == "fused"] == [("aten::mm", "aten::gelu", "aten::mul")]
    assert {c.status for c in found.changes} == {"fused", "same"}


def test_gated_products_of_two_makers_are_each_others(built: Build) -> None:
    """Forward against forward and backward against backward, though nothing else is there to hold on to."""
    quack = "kernel_cutlass_kernel_quackgemm_{}_object_at__TiledMMA_0"
    before = [(f"quack::{n}", quack.format(n), None, 40.0) for n in ("actGemmGatedSm90", "dactGemmDGatedSm90")]
    after = [(f"mlp::{n}", f"foretrace_gated_{n}", None, 50.0) for n in ("forward", "backward")]
    found = diff(built(_steps(*before)), built(_steps(*after)))
    assert [(c.status, c.after_op) for c in found.changes] == [
        ("variant", ("mlp::forward",)),
        ("variant", ("mlp::backward",)),
    ]


def test_a_gated_product_without_its_layer_is_added(built: Build) -> None:
    """Pointwise work alone is not what became of two projections."""
    whole = ("mlp::gated", "foretrace_gated_forward", None, 50.0)
    found = diff(built(_steps(GELU, MUL, DOWN)), built(_steps(whole, DOWN)))
    assert sorted(c.status for c in found.changes) == ["added", "removed", "removed", "same"]
