"""What no grammar knows stays unknown: no field, no exception, no slow name."""

from __future__ import annotations

import dataclasses
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretrace.names import Identity, decode
from foretrace.names.decode import GRAMMARS
from foretrace.names.symbol import read_symbol

USERS_OWN = [
    "",
    " ",
    "my_kernel",
    "my_kernel_128x256",
    "my_kernel_bf16_128x128x64_stage4",
    "matmul_kernel",
    "gemm_kernel",
    "fused_moe_kernel",
    "_attn_fwd",
    "attention_kernel",
    "triton_kernel",
    "triton_gemm_kernel",
    "triton_poi",
    "triton_poi_mine",
    "cutlass",
    "nvjet",
    "nccl",
    "ampere",
    "void my::kernel<float, 128>(float*)",
    "void my_elementwise_kernel<4, float>(int)",
    "_Z9my_kernelPfi",
    "_Z",
    "_ZN",
    "unknown",
    "MemcpyLike (Device)",
    "layer_norm_kernel",
    "softmax",
]


@pytest.mark.parametrize("name", USERS_OWN)
def test_a_users_own_name(name: str) -> None:
    """A name that says nothing gets nothing but itself, however much it looks like tiles and types."""
    assert decode(name) == Identity(name)
    assert decode(name).family == "unknown"


def test_unknown_has_no_field() -> None:
    """Every field of an unknown identity but its name, family, class and sentence is ``None``."""
    record = dataclasses.asdict(decode("my_kernel_128x256"))
    filled = {key for key, value in record.items() if value is not None}
    assert filled == {"name", "family", "op_class", "in_words"}
    assert decode("my_kernel_128x256").short == "my_kernel_128x256"


WHOLE_NAMES = {"splitKreduce_kernel", "epilogue::impl::globalKernel", "scal_kernel", "scal_64addr_kernel"}
"""Names that the grammars spell out: Hypothesis draws text from the source too."""


@given(st.text(max_size=200))
def test_any_text(name: str) -> None:
    """Random text never raises and keeps its name; it is unknown."""
    identity = decode(name)
    assert identity.name == name
    assert identity.family == "unknown" or name in WHOLE_NAMES


SEEDS = [
    "nvjet_sm90_tst_128x256_64x4_1x2_h_bz_coopA_TNT",
    "cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_64x6_tn_align8",
    "cutlass3x_sm90_tensorop_s64x128x16gemm_bf16_bf16_f32_void_bf16_128x128x64_1x1x1_0_tnn_align8_epi_tma",
    "ampere_bf16_s16816gemm_bf16_64x64_sliced1x2_ldg8_f2f_stages_64x6_nn",
    "sm80_xmma_gemm_f16f16_f16f32_f32_nn_n_tilesize96x64x32_stage3_warpsize2x2x1_tensor16x8x16_kernel",
    "Cijk_Ailk_Bljk_HHS_BH_MT128x128x16_MI16x16x16x1_SN_GSU1_ISA1100",
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, float>, int>>",
    "triton_per_fused__to_copy_add_mean_mul_pow_rsqrt_0",
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)",
    "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EEEEviT0_T1_",
    "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, cutlass::bfloat16_t>, false>",
    "_gemm_a8w8_blockscale_kernel_GROUP_K_128_BLOCK_SIZE_M_128_BLOCK_SIZE_N_128_BLOCK_SIZE_K_128_NUM_KSPLIT_1",
]


@given(st.sampled_from(SEEDS), st.integers(0, 120), st.integers(0, 120), st.text(max_size=8))
def test_a_damaged_name(seed: str, start: int, length: int, patch: str) -> None:
    """A known name with any piece cut out or replaced, as truncating writers do, never raises."""
    name = seed[:start] + patch + seed[start + length :]
    assert decode(name).name == name


HOSTILE = [
    "a" * 10_000,
    "_" * 10_000,
    "1" * 10_000,
    "<" * 10_000,
    "(" * 10_000,
    "0d1d" * 2_500,
    "x_" + "0d" * 5_000,
    "nvjet_tst_" + "1x" * 5_000,
    "nvjet_" * 1_700,
    "cutlass_80_simt_sgemm_" * 450,
    "cutlass3x_sm90_" + "a_" * 4_900,
    "ampere_sgemm_128x64" + "_a" * 5_000,
    "sm80_xmma_gemm_" + "bf16" * 2_500,
    "Cijk_Ailk_Bljk_SB_" + "MT1x1x" * 1_600,
    "igemm_fwd_gtc_nhwc_bf16" + "_bt1x1x1" * 1_200,
    "cudnn_generated_" + "a_" * 5_000,
    "ncclKernel_" + "A_" * 5_000,
    "triton_poi_fused" + "__a" * 3_300,
    "triton_" * 1_400,
    "kernel_cutlass_" + "ptr" * 3_300,
    "aten::" + "a." * 4_900,
    "vllm::" * 1_600,
    "flash_fwd_kernel<" + "Flash_fwd_kernel_traits<1, 1, 1, " * 300,
    "cutlass FlashAttn" * 600,
    "at::native::" * 800,
    "at::native::elementwise_kernel<" + "{lambda(" * 1_250,
    "at::native::elementwise_kernel<" + "a" * 9_000 + "Functor<",
    "at::native::elementwise_kernel<AUnaryFunctor<float, float, float, " + "a::" * 3_000,
    "at::native::vectorized_elementwise_kernel<4, " + "a_kernel_cuda_" * 700,
    "at::native::multi_tensor_apply_kernel<" + "FusedFused" * 990,
    "bmm_Fp32_Fp32Fp32_Fp32" + "_a" * 5_000,
    "fmha_v2_flash_attention_bf16_64_64_S" + "_output_" * 1_200,
    "Cijk_S" + "_B" * 5_000 + "_PostGS",
    "deep_ep::" * 1_100,
    "a_" * 5_000 + "kernel_cutlass",
    "_matmul_ogs_NNT_" + "bf16x" * 2_000,
    "f<" + "[lambda(" * 1_250,
    "cutlass::gemm::device_kernel<MainloopSm90A<5, " + "cute::tuple<cute::C<1>, " * 400,
    "vllm::act_and_mul_kernel<float, &" + "a::" * 3_000,
    "multi_tensor_apply_kernel<TensorListMetadata<1>, " + "a::" * 3_000 + "Functo",
    "_Z" + "N" * 10_000,
    "_Z" + "St" * 4_000,
    "_ZN1aI" + "P" * 1_900,
    "_ZN1aI" + "N1bIN1cI" * 240,
    "_ZN2at6native1fI" + "15cos_kernel_cuda" * 500,
]


@pytest.mark.parametrize("name", HOSTILE, ids=lambda name: name[:24])
def test_no_slow_name(name: str) -> None:
    """10 kB made to trip each grammar take under 50 ms: no pattern backtracks over the whole name."""
    best = min(_seconds(name) for _ in range(3))
    assert best < 0.05


def _seconds(name: str) -> float:
    decode.cache_clear()
    start = time.perf_counter()
    decode(name)
    return time.perf_counter() - start


@settings(max_examples=50)
@given(st.sampled_from(SEEDS))
def test_one_grammar_a_name(name: str) -> None:
    """At most one grammar knows a name: the table's order decides nothing but attention and Triton's suffix."""
    symbol = read_symbol(name)
    assert len([label for label, parse in GRAMMARS if parse(symbol)]) == 1
