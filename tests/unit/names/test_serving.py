"""Names that inference engines and extension packages bring: what they say lands in its field, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from foretrace.names import decode, gemm_tile_MN

TUPLE_A = "cute::tuple<cute::C<{}>, cute::C<{}>, cute::C<{}> >"
STRIDES = "cute::tuple<long, cute::C<1>, long>"


def mainloop(element_a: str, element_b: str) -> str:
    """A GEMM of CUTLASS 3 as a C++ template."""
    return (
        "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int, int, int>, "
        "cutlass::gemm::collective::CollectiveMma<cutlass::gemm::MainloopSm90TmaGmmaWarpSpecialized<5, "
        f"{TUPLE_A.format(2, 1, 1)}, cutlass::gemm::KernelTmaWarpSpecializedCooperative>, "
        f"{TUPLE_A.format(128, 256, 64)}, {element_a}, {STRIDES}, {element_b}, {STRIDES}, x> > >(x)"
    )


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        (
            (
                "bmm_Bfloat16_E2m1E2m1_Fp32_Ab16_Bb16_t128x64x256u2_s6_et128x64_m256x64x64_c2x1x1_rM_TN_transOut_schPd2x1x2x3"
                "_biasFp32M_bN_rgTma_clmp_dynB_sm100f"
            ),
            {
                "op_class": "gemm",
                "arch": "sm100",
                "in_dtype": "fp4",
                "acc_dtype": "f32",
                "out_dtype": "bf16",
                "tile": (128, 64, 256),
                "stages": 6,
                "mma": (256, 64, 64),
                "cluster": (2, 1, 1),
                "layout": "TN",
                "split_k": None,
                "epilogue": "bias",
            },
        ),
        (
            "gemm_Bfloat16_E4m3E4m3_Fp32_t128x32x128u2_s7_et128x32_m128x32x32_cga1x1x4_splitK4_TN_transOut_sm100f",
            {"in_dtype": "fp8", "tile": (128, 32, 128), "cluster": (1, 1, 4), "split_k": True, "layout": "TN"},
        ),
        (
            "bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x8x256_s6_et64x8_m64x8x32_cga1x1x1_16dp256b_TN_swiGlu_dynBatch_sm100a",
            {"in_dtype": None, "out_dtype": "fp8", "epilogue": "gated", "arch": "sm100"},
        ),
        ("bmm_E4m3_E4m3E4m3_Fp32_bA16_bB16...", {"op_class": "gemm", "in_dtype": "fp8", "tile": None}),
        (
            "fmhaSm100fKernel_QkvBfloat16OBfloat16H128PagedKvCausalP64VarSeqQ128Kv128PersistentContext",
            {"op_class": "attention", "arch": "sm100", "in_dtype": "bf16", "out_dtype": "bf16", "tile": None},
        ),
        (
            "FmhaSm100aKernel_QE4m3KvE2m1OE4m3H128PagedKvCausalP32VarSeqQ128Kv128PersistentContext",
            {"op_class": "attention", "in_dtype": None, "out_dtype": "fp8"},
        ),
        (
            "fmha_v2_flash_attention_e4m3_fp32_64_128_S_q_k_v_192x128_output_bf16_sm120_nl_tiled",
            {"arch": "sm120", "in_dtype": "fp8", "acc_dtype": "f32", "out_dtype": "bf16", "tile": (64, 128, None)},
        ),
        (
            "fmha_v2_flash_attention_fp16_64_32_S_qkv_128_causal_sm86_kernel_nl",
            {"arch": "sm86", "in_dtype": "f16", "acc_dtype": None, "out_dtype": None},
        ),
        # what runs around FlashAttention 3's main kernel
        (
            (
                "void cutlass::device_kernel<flash::FlashAttnFwdCombine<cute::tuple<cute::C<16>, cute::C<128> >, 5, "
                "256, 1, false, false, cutlass::bfloat16_t, float, cutlass::arch::Sm90> >(x)"
            ),
            {"op_class": "attention", "family": "flash-attention", "arch": "sm90", "out_dtype": "bf16", "tile": None},
        ),
        (
            (
                "void cutlass::device_kernel<flash::FlashAttnBwdPreprocess<cute::tuple<cute::C<64>, cute::C<128> >, "
                "cutlass::half_t, float, cutlass::arch::Sm90, true, false> >(x)"
            ),
            {"op_class": "attention", "in_dtype": "f16", "out_dtype": None},
        ),
        ("void flash::prepare_varlen_num_blocks_kernel<1, true>(int, int)", {"op_class": "other"}),
        # AITER's assembly kernels say what they are at the start, whatever comes behind
        ("aiter::fmha_bwd_hd128_bf16_causal_a16_psskddv", {"op_class": "attention"}),
        ("aiter::pa_bf16_noquant_gqa8_1tg_4w", {"op_class": "attention"}),
        ("aiter::mla_dec_stage1_bf16_a16w16_subQ16_mqa16", {"op_class": "attention"}),
        ("aiter::fmoe_bf16_blockscaleFp8_g1u1_vs_silu_1tg_ps_32x256", {"op_class": "gemm"}),
        ("aiter::flatmm_uk_gfx9_f16f8_128x256x64_1x4x1_16x16x32", {"op_class": "gemm"}),
        # a norm, a quantization or a GEMM in a name is not the kernel's class
        ("void deep_gemm::sm90_tf32_hc_prenorm_gemm_impl<24u, 16384u>(x)", {"op_class": "gemm", "in_dtype": None}),
        ("void deep_gemm::sm90_bf16_gemm_impl<1u>(x)", {"op_class": "gemm", "in_dtype": "bf16"}),
        ("void deep_gemm::sm100_fp8_fp4_gemm_1d1d_impl<1u>(x)", {"op_class": "gemm", "in_dtype": None}),
        ("void vllm::gptq_marlin_repack_kernel<256, 4, false>(x)", {"op_class": "copy"}),
        ("void flashinfer::sampling::TopKTopPSamplingFromProbKernel<1024u, x>(x)", {"op_class": "random"}),
        ("void transformer_engine::gated_act_kernel<silu>(x)", {"op_class": "pointwise"}),
        # who moves data, and who only plans it
        ("void deep_ep::layout::get_dispatch_layout<256, 4, 8>(x)", {"op_class": "other", "library": "DeepEP"}),
        (
            "void primus_turbo::deep_ep::intranode::cached_notify_combine<8>(x)",
            {"op_class": "collective", "library": "DeepEP"},
        ),
        (
            "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(x)",
            {"op_class": "collective", "library": "PyTorch", "in_dtype": "bf16"},
        ),
        ("ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)", {"op_class": "collective", "library": "RCCL"}),
        ("ncclDevKernel_Generic(ncclDevComm*, channelMasks, ncclWork*)", {"op_class": "collective", "library": "RCCL"}),
        ("ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", {"op_class": "collective", "library": "NCCL"}),
        (
            "void (anonymous namespace)::all_reduce_one_shot_push_kernel<__nv_bfloat16, 4u, true>(x)",
            {"op_class": "collective", "library": None, "in_dtype": "bf16"},
        ),
        ("void quickreduce::allreduce_prototype_twoshot<x, __hip_bfloat16>(x)", {"op_class": "collective"}),
        ("void mori::moe::EpDispatchIntraNodeKernel<hip_bfloat16>(x)", {"op_class": "collective", "library": "MORI"}),
        (
            "void userbuffers_fp16_sum_inplace_gpu_mc_rs_ag<4>(int, int)",
            {"op_class": "collective", "library": "Transformer Engine", "in_dtype": None},
        ),
        ("kuserbuffers_pushsend(int, int, int*)", {"op_class": "collective", "library": "Transformer Engine"}),
        # multi-head latent attention, whose names look like FlashAttention-2's
        (
            "void flash::flash_fwd_splitkv_mla_kernel<Flash_fwd_kernel_traits_mla<576, 64, 64, 8, x, 512>, false>(y)",
            {"op_class": "attention", "library": "FlashMLA", "arch": None, "tile": None},
        ),
        (
            "void sm90::decode::sparse_fp8::flash_fwd_splitkv_mla_fp8_sparse_kernel<x>(y)",
            {"op_class": "attention", "library": "FlashMLA", "arch": "sm90"},
        ),
        ("void sm100::fwd::head64::sparse_attn_fwd_kernel<x>(y)", {"op_class": "attention", "arch": "sm100"}),
        ("void smxx::decode::get_mla_metadata_kernel(x)", {"op_class": "other", "library": "FlashMLA"}),
        ("void flashinfer::mla::hopper::BatchMLAPageAttentionHopperKernel<x>(y)", {"op_class": "attention"}),
        # what runs around FlashAttention-2's main kernel has blocks of its own
        (
            "void flash::flash_fwd_splitkv_combine_kernel<Flash_fwd_kernel_traits<128, 64, 8, cutlass::half_t>, 4>(x)",
            {"op_class": "attention", "in_dtype": "f16", "tile": None},
        ),
        # the CuTe DSL's classes name their architecture
        (
            "kernel_cutlass_kernel_flash_attncuteflash_fwd_sm100FlashAttentionForwardSm100_object_at__tensor0000o1_0",
            {"op_class": "attention", "arch": "sm100"},
        ),
        ("void transformer_engine::unary_kernel<8, true, float, x>(y)", {"op_class": "pointwise"}),
        # NCCL of the first PyTorch traces; AMD's kernels for every collective
        (
            "ncclAllReduceRingLLKernel_sum_f16(ncclColl)",
            {"op_class": "collective", "library": "NCCL", "in_dtype": "f16"},
        ),
        ("ncclBroadcastRingLLKernel_copy_i8(ncclColl)", {"op_class": "collective", "in_dtype": None}),
        ("ncclSendRecvKernel_copy_i8(ncclColl)", {"op_class": "collective", "in_dtype": None}),
        (
            "void rcclGenericKernel<1, false>(ncclDevKernelArgsStorage<4096ul>)",
            {"op_class": "collective", "library": "RCCL"},
        ),
        (
            "mscclKernel_Sum_hip_bfloat16_Simple_false(ncclDevComm*, mscclAlgo*, mscclWork*)",
            {"op_class": "collective", "library": "MSCCL", "in_dtype": None},
        ),
        # around GEMMs and optimizers
        (
            "void at::cuda::detail::prepare_grouped_gemm_data<cutlass::bfloat16_t, cutlass::bfloat16_t>(x)",
            {"op_class": "other", "library": "PyTorch"},
        ),
        (
            "void cutlass::Kernel<cutlass::reduction::kernel::ReduceSplitK<cutlass::MatrixShape<4, 128>, x> >(x)",
            {"op_class": "gemm-helper", "helper_of": "gemm", "split_k": True},
        ),
        (
            (
                "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::"
                "TensorListMetadata<1>, at::native::(anonymous namespace)::ZeroFunctor<float, 1, 1, 0> >(x)"
            ),
            {"op_class": "fill"},
        ),
        (
            "void fbgemm_gpu::split_embedding_codegen_forward_unweighted_kernel<float, float>(x)",
            {"op_class": "gather-scatter", "library": "FBGEMM"},
        ),
        # activations that are template arguments, as demanglers spell them
        (
            "void flashinfer::activation::act_and_mul_kernel<__nv_bfloat16, &(float silu<float>(float const&))>(x)",
            {"fused_ops": ("silu", "mul"), "in_dtype": "bf16"},
        ),
        (
            (
                "void vllm::act_and_mul_kernel<c10::BFloat16, &(c10::BFloat16 vllm::gelu_tanh_kernel<c10::BFloat16>"
                "(c10::BFloat16 const&)), true>(x)"
            ),
            {"fused_ops": ("gelu_tanh", "mul")},
        ),
        # names of their own
        ("void Marlin<__nv_bfloat16, 1125899906843648l, 256, 1, 8>(x)", {"op_class": "gemm", "library": "Marlin"}),
        ("void marlin_moe_wna16::Marlin<(long)1125899906909960, (int)128>(x)", {"op_class": "gemm"}),
        ("void kDequantizeBlockwise<__nv_bfloat16, 512, 64, 8, 2>(x)", {"op_class": "pointwise", "out_dtype": "bf16"}),
        (
            "void kgemm_4bit_inference_naive<__half, 128, 16>(x)",
            {"op_class": "gemm", "in_dtype": None, "out_dtype": "f16"},
        ),
        (
            (
                "void selective_scan_fwd_kernel<Selective_Scan_fwd_kernel_traits<128, 16, 1, false, true, true, true, "
                "false, c10::BFloat16, float> >(SSMParamsBase)"
            ),
            {"op_class": "scan", "in_dtype": "bf16"},
        ),
        (
            "void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float, float, int>, float>(x)",
            {"op_class": "optimizer", "library": "Apex", "in_dtype": "f32"},
        ),
        (
            "void multi_tensor_apply_kernel<TensorListMetadata<1>, L2NormFunctor<float>, float*>(x)",
            {"op_class": "reduction"},
        ),
        (
            "_matmul_ogs_NNT_bf16xbf16xmxfp4_16x256x128x1_swiglu",
            {
                "op_class": "gemm",
                "in_dtype": None,
                "out_dtype": "bf16",
                "tile": (16, 256, 128),
                "split_k": False,
                "epilogue": "gated",
            },
        ),
        ("_p_matmul_ogs_NNT_f32xf16xf16_128x256x64x4", {"in_dtype": "f16", "out_dtype": "f32", "split_k": True}),
        # CUTLASS 3 as a C++ template
        (
            mainloop("cutlass::bfloat16_t", "cutlass::bfloat16_t"),
            {"arch": "sm90", "in_dtype": "bf16", "tile": (128, 256, 64), "stages": 5, "cluster": (2, 1, 1)},
        ),
        (mainloop("float", "float"), {"in_dtype": None, "tile": (128, 256, 64)}),
        (mainloop("cutlass::float_e4m3_t", "cutlass::bfloat16_t"), {"in_dtype": None, "op_class": "gemm"}),
        (
            (
                "void cutlass::device_kernel<vllm::cutlass_3x_gemm_sm90_fp8<cutlass::float_e4m3_t, "
                f"cutlass::bfloat16_t, vllm::c3x::ScaledEpilogue, {TUPLE_A.format(64, 128, 128)}, "
                f"{TUPLE_A.format(2, 1, 1)}, x>::GemmKernel>(x)"
            ),
            {
                "arch": "sm90",
                "in_dtype": "fp8",
                "out_dtype": "bf16",
                "tile": (64, 128, 128),
                "cluster": (2, 1, 1),
                "stages": None,
            },
        ),
        # what cuBLASLt fuses, as its flags spell it
        ("nvjet_tst_128x64_64x6_1x1_h_bz_gelubias_TNT", {"epilogue": "bias+gelu", "tile": (128, 64, 64)}),
        ("nvjet_sm100_qqtst_128x256_128x6_2x1_2cta_v_badd_reluauxbias_TNT", {"epilogue": "add+bias+relu"}),
        ("nvjet_tst_128x64_64x6_1x1_h_bz_geluaux_NTT", {"epilogue": "gelu"}),
        ("nvjet_sss_tf32_128x128_32x6_2x1_v_bz_coopA_NNT", {"in_dtype": "tf32", "acc_dtype": "f32", "stages": 6}),
        (
            "nvjet_sm100_bii_128x256_128x6_2x1_2cta_v_bz_TNT",
            {"in_dtype": "int8", "acc_dtype": "int32", "out_dtype": "int32"},
        ),
        # slots of cuBLAS's fp32 GEMMs on Blackwell, and its convolutions
        (
            "cutlass3x_sm100_tensorop_s256x256x8tf32gemm_f32_f32_f32_f32_f32_256x256x32_0_tnn_align4_2sm_bias_f32_relu",
            {"op_class": "gemm", "in_dtype": "tf32", "epilogue": None},
        ),
        (
            (
                "cutlass3x_sm100_tensorop_s256x128x16implicit_gemm_fprop_bf16_bf16_f32_void_bf16_f32_256x128x64_dyn_cga_"
                "ndhwc_ndhwc_ndhwc_align8_2sm_relu_valpha"
            ),
            {
                "op_class": "conv",
                "arch": "sm100",
                "in_dtype": "bf16",
                "acc_dtype": "f32",
                "out_dtype": "bf16",
                "tile": (256, 128, 64),
                "mma": (256, 128, 16),
                "layout": "ndhwc",
                "align": 8,
            },
        ),
        (
            (
                "cutlass3x_sm100_tensorop_s32x256x16_conv3d_fprop_weight_stationary_nq_2d_tiled_bf16_bf16_f32_void_bf16_"
                "void_t3xr3xs3_32x256x64_dyn_cga_ndhwc_ndhwc_ndhwc_1sm"
            ),
            {"op_class": "conv", "tile": (32, 256, 64), "in_dtype": "bf16", "out_dtype": "bf16", "align": None},
        ),
        (
            (
                "sm80_xmma_fprop_implicit_gemm_indexed_wo_smem_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x32x16_stage1_"
                "warpsize4x1x1_g1_tensor16x8x8_aligna4_alignc8_execute_kernel_cudnn"
            ),
            {"op_class": "conv", "in_dtype": "tf32", "tile": (128, 32, 16), "stages": 1},
        ),
        # consumer Blackwell's nvjet: stages stand before a warp's tile
        (
            "nvjet_sm120_hss_mma_128x80x64_3_32x40x64_tmaAB_alignCD4_bz_NNNN",
            {"tile": (128, 80, 64), "stages": 3, "layout": "NNNN", "epilogue": None},
        ),
        (
            (
                "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize2x1x1_bias_bf16_execute_segment_k_"
                "off_kernel__5x_cublas"
            ),
            {"epilogue": "bias", "split_k": False},
        ),
    ],
    ids=lambda value: value[:60] if isinstance(value, str) else "",
)
def test_fields(name: str, fields: dict[str, Any]) -> None:
    """The name's parts are read; what it does not say, or says in two ways, is unknown."""
    identity = decode(name)
    assert {field: getattr(identity, field) for field in fields} == fields


def test_a_template_says_no_order_of_its_tile() -> None:
    """A template is launched by whom it pleases, with or without swapped operands: its tile's sides have no names."""
    assert gemm_tile_MN(decode(mainloop("cutlass::bfloat16_t", "cutlass::bfloat16_t"))) is None


@pytest.mark.parametrize(
    "name",
    [
        "one_shot_all_reduce_kernel",
        "void block_all_reduce_sum<float>(x)",
        "void Marlin(int)",
        "bmm_kernel",
        "gemm_Fp32",
        "fmha",
    ],
)
def test_too_little(name: str) -> None:
    """A name of which only the first word fits stays unknown."""
    assert decode(name).family == "unknown"


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("Avec32UE8M0", "A carries a UE8M0 scale every 32 elements"),
        ("Dvec16UE4M3", "D carries a UE4M3 scale every 16 elements"),
        ("Avec128", "A carries a scale every 128 elements"),
        ("Bblk128", "B carries a scale for each block of 128×128"),
        ("gelubias", "adds the bias, then applies gelu before it stores"),
        ("auxq", "also says auxq, which is not publicly documented"),
    ],
)
def test_what_a_flag_of_nvjet_says(flag: str, said: str) -> None:
    """Scales with a type or without, along K or of a block; what nobody documents is quoted."""
    assert said in decode(f"nvjet_sm100_qqtst_128x128_128x4_1x1_h_bz_{flag}_TNT").in_words
