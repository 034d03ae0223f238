"""Guesses meet the kernels that they speak of: by class first, then op, sizes and module, in order."""

from __future__ import annotations

from dataclasses import replace

from foretrace.names import decode
from foretrace.verdict import GuessedKernel
from foretrace.verdict.align import Match, align, ops_agree, shapes_agree
from foretrace.verdict.observed import Seen, tensor_sizes

NVJET = "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT"


def guess(op: str, op_class: str, *shapes: tuple[int, ...], source: str | None = None) -> GuessedKernel:
    """One guessed kernel."""
    return GuessedKernel(op_class=op_class, op=f"aten::{op}", shapes=shapes or None, source=source)


def seen(op: str, op_class: str, *shapes: tuple[int, ...], name: str = NVJET, module: str | None = None) -> Seen:
    """One kernel that ran."""
    return Seen(name, decode(name), "kernel", op_class, op, module, shapes, None, 2000.0, None)


MM, MUL = ("mm", "gemm"), ("mul", "pointwise")
RAN_MM, RAN_MUL = ("aten::mm", "gemm"), ("aten::mul", "pointwise")


def test_an_extra_guess_stays_alone() -> None:
    """A guess that nothing fits takes no other guess's kernel."""
    guesses = [guess(*MM, (8, 4), (4, 2)), guess(*MM, (8, 9), (9, 2)), guess(*MUL)]
    ran = [seen(*RAN_MM, (8, 4), (4, 2)), seen(*RAN_MUL)]
    assert align(guesses, ran) == [Match(0, 0), Match(1, None), Match(2, 1)]


def test_an_extra_kernel_stays_alone() -> None:
    """A kernel that nobody guessed takes no guess from another."""
    ran = [seen(*RAN_MM, (8, 4), (4, 2)), seen(*RAN_MUL), seen(*RAN_MM, (8, 2), (2, 4))]
    matches = align([guess(*MM, (8, 2), (2, 4))], ran)
    assert matches == [Match(None, 0), Match(None, 1), Match(0, 2)]


def test_another_order_is_still_a_match() -> None:
    """Two kernels that do not need each other may run either way; the match says that they moved."""
    guesses = [guess(*MM, (8, 4), (4, 2)), guess("add", "pointwise"), guess(*MUL)]
    ran = [seen(*RAN_MM, (8, 4), (4, 2)), seen(*RAN_MUL), seen("aten::add", "pointwise")]
    matches = align(guesses, ran)
    assert {(m.guess, m.seen) for m in matches} == {(0, 0), (1, 2), (2, 1)}
    assert [m.moved for m in matches].count(True) == 1


def test_modules_decide_between_equals() -> None:
    """Of two equal GEMMs the one in the guessed module is meant."""
    ran = [seen(*RAN_MM, module="layers.0.up_proj"), seen(*RAN_MM, module="layers.0.down_proj")]
    assert align([guess(*MM, source="layers.0.down_proj")], ran) == [Match(None, 0), Match(0, 1)]


def test_a_helper_is_no_gemm() -> None:
    """A split-K reduction, launched by the same op, does not stand in for the GEMM."""
    ran = [seen("aten::mm", "gemm-helper"), seen(*RAN_MM)]
    assert align([guess(*MM)], ran) == [Match(None, 0), Match(0, 1)]


def test_many_kernels_are_paired_in_turn() -> None:
    """Beyond some thousand kernels each guess gets the next of its class, and no minute is spent."""
    guesses = [guess("add", "pointwise"), *[guess(*MM, (8, 4), (4, 2))] * 2100]
    ran = [*[seen(*RAN_MM, (8, 5), (5, 2))] * 2100, seen(*RAN_MUL)]
    matches = align(guesses, ran)
    assert Match(0, 2100) in matches
    assert sum(m.guess is not None and m.seen is not None for m in matches) == 2101


def test_an_out_tensor_may_follow_the_sizes() -> None:
    """Compiled code calls ``mm.out``, whose result is a third tensor; fewer sizes or others disagree."""
    one = guess(*MM, (8, 4), (4, 2))
    assert shapes_agree(one, seen(*RAN_MM, (8, 4), (4, 2), (8, 2)))
    assert shapes_agree(one, seen(*RAN_MM, (8, 3), (3, 2))) is False
    assert shapes_agree(one, replace(seen(*RAN_MM), shapes=None)) is None


def test_fused_ops_agree_as_sets_without_views() -> None:
    """Versions of PyTorch list different views in a name; the ops that compute decide."""
    one = GuessedKernel(op_class="pointwise", fused_ops=("gelu", "mul"))
    same = seen("triton", "pointwise", name="triton_poi_fused__unsafe_view_gelu_mul_0")
    other = seen("triton", "pointwise", name="triton_poi_fused_add_gelu_0")
    assert ops_agree(one, same)
    assert ops_agree(one, other) is False


def test_versions_of_inductor_spell_one_kernel_differently() -> None:
    """A norm listed whole or in its parts is one norm; a kernel with other work beside it is another."""
    parts = GuessedKernel(op_class="reduction", fused_ops=("_to_copy", "add", "mean", "mul", "pow", "rsqrt", "silu"))
    assert ops_agree(parts, seen("triton", "reduction", name="triton_per_fused__fused_rms_norm_silu_0"))
    assert ops_agree(parts, seen("triton", "reduction", name="triton_per_fused__fused_rms_norm_tanh_0")) is False
    softmax = GuessedKernel(op_class="softmax", fused_ops=("_softmax",))
    assert ops_agree(
        softmax, seen("triton", "softmax", name="triton_per_fused__softmax_exp_prepare_softmax_online_sub_0")
    )


def test_relu_may_run_as_clamp_min() -> None:
    """Eager ``relu`` dispatches to ``clamp_min`` in some versions; another op is another op."""
    assert ops_agree(guess("relu", "pointwise"), seen("aten::clamp_min", "pointwise"))
    assert ops_agree(guess("relu", "pointwise"), seen("aten::clamp_max", "pointwise")) is False


def test_a_template_stands_for_its_gemm() -> None:
    """A Triton template lists the op that it replaces."""
    ran = seen("triton", "gemm", name="triton_tem_fused_mm_t_view_0")
    assert ops_agree(guess(*MM), ran)
    assert ops_agree(guess("bmm", "gemm"), ran) is False


def test_in_place_and_overloads_are_one_op() -> None:
    """``aten::masked_fill_`` is the op of a guess ``aten::masked_fill``."""
    assert ops_agree(guess("masked_fill", "pointwise"), seen("aten::masked_fill_", "pointwise"))


def test_scalars_are_no_sizes() -> None:
    """Kineto writes ``[]`` for a scalar; lists of tensors stay nested."""
    assert tensor_sizes([[8, 4], [], [[2], [3]]]) == ((8, 4), ((2,), (3,)))
    assert tensor_sizes(None) is None
