"""The names in traces recorded on one H200: all known, and what tables show for them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from foretrace.names import decode

NAMES = (Path(__file__).parents[2] / "data" / "recorded_kernel_names.txt").read_text("utf-8").splitlines()


@pytest.mark.parametrize("name", NAMES, ids=lambda name: name[:60])
def test_known(name: str) -> None:
    """Every recorded name has a family, a class and a sentence with a colon."""
    identity = decode(name)
    assert identity.family != "unknown"
    assert identity.op_class not in {"unknown", "other"}
    assert ": " in identity.in_words


def test_classes() -> None:
    """The recorded names fall into these classes."""
    assert Counter(decode(name).op_class for name in NAMES) == {
        "gemm": 33,
        "pointwise": 29,
        "optimizer": 7,
        "copy": 9,
        "fill": 5,
        "attention": 2,
        "gather-scatter": 2,
        "reduction": 2,
        "collective": 1,
        "gemm-helper": 1,
        "random": 1,
        "softmax": 1,
    }


@pytest.mark.parametrize(
    ("start", "short"),
    [
        ("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT", "nvjet 256×128×64, 4 stages, bf16→bf16"),
        ("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_bias_TNT", "nvjet 256×128×64, 4 stages, bf16→bf16, bias"),
        ("triton_poi_fused__unsafe_view_gelu_mul_1", "triton_poi_fused__unsafe_view_gelu_mul"),
        ("Memset (Device)", "memset"),
        ("void pytorch_flash::flash_fwd_kernel", "FlashAttention-2 attention forward, bf16"),
        ("ncclDevKernel_AllReduce_Sum_bf16", "NCCL all-reduce"),
        ("void cublasLt::splitKreduce_kernel", "cuBLASLt split-K reduction"),
        ("void at::native::vectorized_elementwise_kernel<8, at::native::GeluCUDAKernelImpl", "elementwise gelu (tanh)"),
        (
            "void at::native::vectorized_elementwise_kernel<8, at::native::BinaryFunctor<c10::BFloat16",
            "elementwise mul",
        ),
        ("void at::native::vectorized_elementwise_kernel<8, at::native::bfloat16_copy", "copy to bf16"),
        ("void at::native::(anonymous namespace)::distribution_elementwise", "random normal"),
    ],
)
def test_short(start: str, short: str) -> None:
    """The few words that a table shows, for the recorded names that begin so."""
    found = {decode(name).short for name in NAMES if name.startswith(start)}
    assert found == {short}


def test_run_time_casts_hide_the_types() -> None:
    """A copy that converts at run time carries a lambda's type that is not its tensors': both are unknown."""
    (name,) = (name for name in NAMES if "LoadWithCast" in name)
    identity = decode(name)
    assert (identity.op_class, identity.in_dtype, identity.out_dtype) == ("copy", None, None)


def test_foreach_ops() -> None:
    """An AdamW step's foreach kernels are told apart by their operation."""
    shorts = {decode(name).short for name in NAMES if "multi_tensor_apply" in name}
    assert shorts == {
        "foreach mul",
        "foreach add",
        "foreach lerp",
        "foreach copy",
        "foreach sqrt",
        "foreach addcmul",
        "foreach div",
        "foreach addcdiv",
    }


def test_a_templates_neighbours_are_called_so() -> None:
    """A template GEMM lists ops that may have run elsewhere, and its sentence says so."""
    identity = decode("triton_tem_fused__unsafe_view_gelu_mm_mul_t_view_2")
    assert identity.op_class == "gemm"
    assert identity.fused_ops == ("_unsafe_view", "gelu", "mm", "mul", "t", "view")
    assert "may in part have run in other kernels" in identity.in_words
