"""Traps of single grammars, sentences, and what can be worked out from an identity."""

from __future__ import annotations

import dataclasses
import math

import pytest

from foretrace.names import Identity, decode, gemm_tile_MN, has_bias

PROMISED = (
    "name family library arch op_class in_dtype acc_dtype out_dtype tile stages mma cluster layout align split_k "
    "epilogue fused_ops helper_of in_words"
)

CUDNN_F16 = "cudnn_generated_fort_native_sdpa_sm80_flash_fprop_wmma_f16_knob_6_128x64x64_4x1x1_kernel0_0"
INDEX = (
    "void at::native::index_elementwise_kernel<128, 4, at::native::gpu_index_kernel<at::native::index_kernel_impl<X>"
    "(at::TensorIteratorBase&)::{lambda(char*, char const*, long)#1}>(int)>(int)"
)
WHERE = (
    "void at::native::unrolled_elementwise_kernel<at::native::where_kernel_impl(at::TensorIterator&)::{lambda()#1}::"
    "operator()() const::{lambda(bool, float, float)#1}, x>(int)"
)
GELU_ERF = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&, "
    "at::native::GeluType)::{lambda()#2}::operator()() const::{lambda()#2}::operator()() const::{lambda(float)#1}, x>"
)
FLASH_3 = (
    "void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnFwdSm90<flash::CollectiveMainloopFwdSm90<2, "
    "cute::tuple<cute::C<2>, cute::C<1>, cute::C<1> >, "
    "cute::tuple<cute::C<128>, cute::C<176>, cute::C<128> > > > > >(x)"
)
ADD_MANGLED = "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EEEEviT0_T1_"
ADD = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
    "std::array<char*, 3ul> >(int)"
)


def test_the_promised_keys() -> None:
    """An identity has the keys of the command-line contract, in its order, and no other."""
    assert [field.name for field in dataclasses.fields(Identity)] == PROMISED.split()


def test_the_contracts_example() -> None:
    """The name in the contract decodes to the record in the contract."""
    identity = decode("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT")
    assert dataclasses.replace(identity, in_words="") == Identity(
        name="nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT",
        family="nvjet",
        library="cuBLASLt",
        arch="sm90",
        op_class="gemm",
        in_dtype="bf16",
        acc_dtype="f32",
        out_dtype="bf16",
        tile=(256, 128, 64),
        stages=4,
        cluster=(1, 2),
        layout="TNT",
        split_k=False,
        in_words="",
    )
    assert identity.in_words == (
        "cuBLASLt GEMM for Hopper: bf16 in, fp32 accumulate, bf16 out; 256×128 tile, K 64, 4 stages, cluster 1×2, "
        "layout TNT; tiles walked along rows (h); beta = 0; two consumer warpgroups that split M (coopA)"
    )


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        # an s1688 without a type is TF32; with one it is that type, and before Ampere there was no TF32
        ("cutlass_80_tensorop_s1688gemm_128x128_32x3_nn_align4", "in_dtype", "tf32"),
        ("ampere_bf16_s1688gemm_bf16_128x64_sliced1x2_ldg8_f2f_tn", "in_dtype", "bf16"),
        ("turing_s1688gemm_128x64_sliced1x2_ldg8_f2f_tn", "in_dtype", None),
        # the leading h is the accumulator
        ("ampere_h16816gemm_128x128_ldg8_stages_32x5_nn", "acc_dtype", "f16"),
        # integers
        ("cutlass_80_tensorop_i16832gemm_s8_128x64_128x3_tn_align16", "acc_dtype", "int32"),
        # relu is a slot that the identity fills too
        ("cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_64x6_tn_align8", "epilogue", None),
        ("ampere_scudnn_128x64_relu_interior_nn_v1", "epilogue", None),
        # the scales' type is not the data's
        ("nvjet_sm100_oosss_128x256_256x5_2x1_2cta_v_bz_Avec16UE4M3_Bvec16UE4M3_TNT", "in_dtype", "fp4"),
        # A and B of different types have no common one
        ("nvjet_sm100_qotst_128x256_128x6_2x1_2cta_v_bz_TNT", "in_dtype", None),
        # cuDNN's f16 stands for both 16-bit types
        (
            "cudnn_generated_fort_native_sdpa_sm80_flash_fprop_wmma_f16_knob_6_128x64x64_4x1x1_kernel0_0",
            "in_dtype",
            None,
        ),
        # Tensile's Bias says that it can
        ("Cijk_Ailk_Bjlk_SB_Bias_AS_SAV_UserArgs_MT64x16x16_MI16x16x1_SN_GSU1_ISA90a", "epilogue", None),
        # a pointer's type is not the tensor's, nor is an index's
        (INDEX, "in_dtype", None),
        ("void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*)", "in_dtype", None),
        # masks do not count
        (WHERE, "in_dtype", "f32"),
        # GELU's branches
        (GELU_ERF, "short", "elementwise gelu (erf)"),
        # attention before GEMM, the tile after the cluster
        (FLASH_3, "tile", (128, 176, None)),
        # old Triton's suffix counts arguments
        ("my_kernel_0d1d2c3de", "op_class", "other"),
        ("my_kernel_1d2d", "family", "unknown"),
        ("my_kernel_0x1", "family", "unknown"),
        ("triton_poi_fused_mul_silu_2_0d1d2", "fused_ops", ("mul", "silu")),
        ("triton_poi_fused_7", "fused_ops", None),
        # ops of several words, which are one op each
        ("triton_per_fused_clamp_linalg_vector_norm_mul_0", "fused_ops", ("clamp", "linalg_vector_norm", "mul")),
        ("triton_poi_fused_batch_norm_elemt_relu_1", "fused_ops", ("batch_norm_elemt", "relu")),
        ("triton_poi_fused__fft_r2c_special_i0e_2", "fused_ops", ("_fft_r2c", "special_i0e")),
        ("triton_poi_fused_add_dequantize_per_tensor_3", "fused_ops", ("add", "dequantize_per_tensor")),
        # templates take the class of the op they were written for
        ("triton_tem_fused_addmm_relu_3", "op_class", "gemm"),
        ("triton_tem_fused_convolution_1", "op_class", "conv"),
        ("triton_tem_fused_flex_attention_0", "op_class", "attention"),
        ("triton_for_fused__fused_adamw_0", "op_class", "optimizer"),
        # helpers
        ("void scal_kernel<float, float, 1, false, 5, 5, 5, 3>(x)", "helper_of", "gemm"),
        # copies and sets
        ("Memcpy PtoP (Device -> Device)", "op_class", "copy"),
        ("Memset (Unknown)", "op_class", "fill"),
        # the accumulator of Tensile's old HBH is wider than its type
        ("Cijk_Alik_Bljk_HBH_MT128x128x64_MI32x32x8x1_SE_K1", "acc_dtype", "f32"),
        # a cluster with an f, as most big GEMMs of Blackwell have
        ("nvjet_sm100_tst_128x256_64x6_2x2f_2cta_h_bz_TNT", "tile", (128, 256, 64)),
        ("nvjet_sm100_tst_128x192_64x6_4x1f_2cta_v_badd_NTT", "cluster", (4, 1)),
        # consumer Blackwell's form of nvjet
        ("nvjet_sm121_hsh_mma_128x208x64_2_32x104x64_tmaAB_bz_NNNN", "tile", (128, 208, 64)),
        ("nvjet_sm120_xiu_mma_256x128x64_tmaAB_NNNN", "in_dtype", None),
        # names that a table cut short
        ("void at::native::reduce_kernel", "op_class", "reduction"),
        ("void cutlass::Kernel2<cutlass_80_tensorop_s16816gemm...", "op_class", "gemm"),
        ("ampere_fp16_s16816gemm_fp16_64x64_sliced1x2_ldg8_f2f...", "tile", (64, 64, None)),
        ("sm80_xmma_fprop_implicit_gemm_f16f16_f16f16_f16_nh...", "op_class", "conv"),
        ("void at::native::vectorized_elementwise_kernel<4, at...", "op_class", "pointwise"),
        ("_ZN7cutlass13device_kernelINS_4gemm6kernel13GemmUniversalIN4cute5tupl...", "op_class", "gemm"),
        # gated products of the CuTe DSL, forward and backward
        (
            "kernel_cutlass_kernel_quackgemm_actGemmGatedSm90_object_at__TiledMMA_ThrLayoutVMNK1281_0",
            "epilogue",
            "gated",
        ),
        ("kernel_cutlass_kernel_quackgemm_dactGemmDGatedSm90_object_at__TiledMMA_0", "epilogue", "gated backward"),
        ("kernel_cutlass_kernel_quackgemm_default_epiGemmDefaultSm90_object_at__TiledMMA_0", "epilogue", None),
        # another form of nvjet, and one cut short, are still GEMMs
        ("nvjet_sm120_tst_mma_128x192x64_3_64x96x64_tmaAB_bz_TNT", "op_class", "gemm"),
        ("nvjet_sm90_tst_256x128_64x4_1x", "tile", None),
    ],
)
def test_traps(name: str, field: str, value: object) -> None:
    """One field each that a careless reader of the name gets wrong."""
    assert getattr(decode(name), field) == value


def test_a_mangled_name_is_the_demangled_one() -> None:
    """Mangled and demangled spellings of one kernel decode alike."""
    mangled, spelled = decode(ADD_MANGLED), decode(ADD)
    assert dataclasses.replace(mangled, name="") == dataclasses.replace(spelled, name="")
    assert (mangled.short, mangled.in_dtype) == ("elementwise add", "f32")


def test_a_mangled_lambda_keeps_its_op() -> None:
    """A mangled name with lambdas, which the demangler cannot read, still says its op and no type."""
    name = (
        "_ZN2at6native29vectorized_elementwise_kernelILi4EZZZNS0_15cos_kernel_cudaERNS_18TensorIteratorBaseE"
        "NKUlvE0_clEvENKUlvE0_clEvEUlfE_St5arrayIPcLm2EEEEviT0_T1_"
    )
    assert (decode(name).short, decode(name).in_dtype) == ("elementwise cos", None)


@pytest.mark.parametrize(
    ("name", "m", "n", "blocks"),
    [
        ("nvjet_sm90_tst_128x64_64x8_4x1_v_bz_TNT", 320, 3072, 120),
        ("nvjet_sm90_tst_176x64_64x7_2x1_v_bz_TNN", 448, 3072, 126),
        ("nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT", 4, 2816, 44),
        ("nvjet_sm90_tst_8x64_64x16_4x1_v_bz_TNN", 4, 256, 32),
        ("cutlass_80_simt_sgemm_128x32_8x5_nn_align1", 32, 512, 4),
    ],
)
def test_tiles_cover_the_recorded_grids(name: str, m: int, n: int, blocks: int) -> None:
    """The row-major tile explains the grid that was launched for a row-major M×N output; its transpose does not."""
    tile = gemm_tile_MN(decode(name))
    assert tile is not None
    assert math.ceil(m / tile[0]) * math.ceil(n / tile[1]) == blocks
    assert math.ceil(m / tile[1]) * math.ceil(n / tile[0]) != blocks


@pytest.mark.parametrize(
    ("name", "tile"),
    [
        ("cutlass3x_sm90_tensorop_gemm_bf16_bf16_f32_bf16_bf16_128x64x64_2x1x1_0_tnt_align8", (128, 64)),
        ("cutlass3x_sm90_tensorop_gemm_bf16_bf16_f32_bf16_bf16_128x64x64_2x1x1_0_tnn_align8", (64, 128)),
        ("ampere_sgemm_128x64_nn", (64, 128)),
        ("fmha_cutlassB_f16_aligned_64x64_k64_sm70", None),
        ("Cijk_Alik_Bljk_BBS_BH_MT128x64x32_MI16x16x16x1_SN_ISA1151", None),
        ("my_kernel_128x64", None),
    ],
)
def test_row_major_tile(name: str, tile: tuple[int, int] | None) -> None:
    """A name with a row-major output is read as it stands, a column-major one swapped, others not at all."""
    assert gemm_tile_MN(decode(name)) == tile


@pytest.mark.parametrize(
    ("name", "bias"),
    [
        ("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_bias_TNT", True),
        ("cutlass3x_sm100_simt_sgemm_f32_f32_f32_f32_f32_128x64x16_1x1x1_3_tnn_align1_bias_f32_relu", False),
        ("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT", False),
        ("nvjet_sm90_tst_256x128_64x4_1x2_h_badd_coopA_TNT", False),
        ("my_bias_kernel", False),
    ],
)
def test_has_bias(name: str, *, bias: bool) -> None:
    """A GEMM that adds the bias itself says so in its name."""
    assert has_bias(decode(name)) is bias


@pytest.mark.parametrize(
    "name", ["ampere_sgemm_128x64_nn", "cutlass_80_tensorop_i16832gemm_s8_128x64_128x3_tn_align16"]
)
def test_an_old_binary_is_no_old_gpu(name: str) -> None:
    """The sentence about an sm80 kernel says that newer GPUs run it too."""
    assert "built for sm80, and newer GPUs run it too" in decode(name).in_words


def test_narrow_alignment_is_told_in_bytes() -> None:
    """Two bf16 elements are 4 bytes, too little for 16-byte loads; eight are enough."""
    form = "cutlass_80_tensorop_bf16_s16816gemm_bf16_256x128_64x3_tn_align"
    assert "aligned to 2 elements (4 bytes, too little for 16-byte loads)" in decode(f"{form}2").in_words
    assert "aligned to 8 elements (16 bytes);" in decode(f"{form}8").in_words


@pytest.mark.parametrize(
    ("name", "in_dtype", "acc_dtype"),
    [
        (
            "gemmk1_kernel<int, float, 256, 5, true, {0}<float const>, {0}<float const>, {0}<float>, float, 0>",
            "f32",
            "f32",
        ),
        (
            "gemmk1_kernel<int, __half, 256, 5, true, {0}<__half const>, {0}<__half const>, {0}<__half>, float>",
            "f16",
            None,
        ),
        ("gemmSN_NN_kernel<float, 256, 4, 2, {0}<const __half>, {0}<const __half>, {0}<__half>>", "f16", None),
    ],
    ids=["f32", "f16", "nsight"],
)
def test_small_cublas_gemms(name: str, in_dtype: str, acc_dtype: str | None) -> None:
    """The views of a small GEMM say its operands' types; which type it computes in is known only where all agree."""
    identity = decode(f"void {name.format('cublasGemvTensorStridedBatched')}(x)")
    assert (identity.in_dtype, identity.acc_dtype, identity.out_dtype) == (in_dtype, acc_dtype, in_dtype)
    assert ("whose K is 1" in identity.in_words) == ("k1" in name)


def test_vector_operations_of_cublas() -> None:
    """A sum of two vectors is no reduction, as a dot product is one."""
    sum_ = decode("void axpy_kernel_val<float, float, 0>(cublasAxpyParamsVal<float, float, float>)")
    dot = decode("void dot_kernel<float, 128, 0, cublasDotParams<x, y> >(cublasDotParams<x, y>)")
    assert (sum_.op_class, dot.op_class) == ("pointwise", "reduction")


def test_convolutions_of_cudnn_8() -> None:
    """Since version 8 cuDNN puts a mark of its own before the old names and around its copy of CUTLASS."""
    scudnn = decode("_5x_cudnn_ampere_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1")
    assert dataclasses.replace(scudnn, name="") == dataclasses.replace(decode(scudnn.name[10:]), name="")
    assert (scudnn.op_class, scudnn.arch, scudnn.tile) == ("conv", "sm80", (128, 128, None))
    inner = "cutlass_tensorop_s1688fprop_optimized_tf32_64x64_16x10_nhwc_align4"
    assert decode(f"void cutlass__5x_cudnn::Kernel<{inner}>({inner}::Params)").library == "cuDNN"
    template = decode("void cutlass__5x_cudnn::Kernel<cutlass::conv::kernel::ImplicitGemmConvolution<x> >(y)")
    assert (template.library, template.op_class) == ("cuDNN", "conv")


def test_cluster() -> None:
    """A cluster is read where XMMA names it; one that holds a 0 is chosen at launch, so unknown."""
    xmma = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_cgasize2x1x1_warpgroupsize1x1x1_execute_kernel"
    assert decode(xmma).cluster == (2, 1, 1)
    head = "cutlass3x_sm100_tensorop_s256x128x16gemm_bf16_bf16_f32_bf16_bf16_256x128x64"
    assert decode(f"{head}_2x1x1_0_tnt_align8_2sm_epi_tma").cluster == (2, 1, 1)
    dynamic = decode(f"{head}_0x0x1_0_tnt_align8_stream_k_2sm_epi_tma")
    assert dynamic.cluster is None
    assert "cluster chosen at launch" in dynamic.in_words


@pytest.mark.parametrize(
    ("types", "in_dtype", "out_dtype", "said"),
    [
        ("float, float, c10::BFloat16", None, "f32", "operands fp32 and bf16"),
        ("c10::BFloat16, float, float", "f32", "bf16", "fp32 in, bf16 out"),
    ],
)
def test_templated_elementwise(types: str, in_dtype: str | None, out_dtype: str, said: str) -> None:
    """The elementwise kernel for mixed types names what it stores and loads, after its launcher's arguments."""
    functor = "at::native::CUDAFunctor_add<float>"
    launcher = "std::array<char*, 3ul>, a, b, at::native::memory::LoadWithCast<2>, at::native::memory::StoreWithCast<1>"
    identity = decode(
        f"void at::native::vectorized_templated_elementwise_kernel<8, {functor}, {launcher}, {types}>(int, {functor})"
    )
    assert (identity.short, identity.in_dtype, identity.out_dtype) == ("elementwise add", in_dtype, out_dtype)
    assert said in identity.in_words
    assert "not in the name" not in identity.in_words
