"""Names of AMD's libraries: Tensile's type words and helpers, AITER, Composable Kernel."""

from __future__ import annotations

import pytest

from foretrace.names import copy_way, decode


@pytest.mark.parametrize(
    ("types", "dtypes"),
    [
        ("BBS_BH", ("bf16", "f32", "bf16")),
        ("F8BS_BH", ("fp8", "f32", "bf16")),
        # A and B of the two kinds of fp8 are one token, and N marks the fnuz formats
        ("F8B8BS_BH", ("fp8", "f32", "bf16")),
        ("B8F8NSS_BH", ("fp8", "f32", "f32")),
        ("F8NBS_BH", ("fp8", "f32", "bf16")),
        # both operands named where they differ from what is multiplied
        ("F8H_HHS_BH", (None, "f32", "f16")),
        ("F8F8_HHS_BH", ("fp8", "f32", "f16")),
        # one letter, then flags: B uses beta, H accumulates in high precision
        ("BBH", ("bf16", "f32", "bf16")),
        ("S_B", ("f32", "f32", "f32")),
        # output and compute as a word of their own
        ("B_BS_BH", ("bf16", "f32", "bf16")),
        ("H_SS_BH", ("f16", "f32", "f32")),
        ("H_BH", ("f16", "f32", "f16")),
        ("S_MX_B", ("tf32", "f32", "f32")),
        ("I8II_BH", ("int8", "int32", "int32")),
        # two letters whose meaning depends on what is not said
        ("F8NH_BH", (None, None, None)),
    ],
)
def test_tensile_types(types: str, dtypes: tuple[str | None, str | None, str | None]) -> None:
    """The types of a Tensile GEMM are read token by token: operands, accumulator, output."""
    identity = decode(f"Cijk_Alik_Bljk_{types}_Bias_HA_S_SAV_UserArgs_MT128x64x32_MI16x16x1_SN_ISA942_x")
    assert (identity.in_dtype, identity.acc_dtype, identity.out_dtype) == dtypes
    assert (identity.op_class, identity.library, identity.tile) == ("gemm", "hipBLASLt", (128, 64, 32))


def test_mixed_operands_are_told() -> None:
    """Operands of two types have no common type; the sentence names both, and what is multiplied."""
    identity = decode("Custom_Cijk_Ailk_Bljk_F8H_HHS_BH_Bias_AS_SAB_SAV_MT128x16x128_MI16x16x1_WaveSpecialization")
    assert "A fp8, B f16, multiplied as f16" in identity.in_words


def test_tensile_without_a_tile() -> None:
    """A custom kernel's short name has no tile and is a GEMM of its layout, types and target all the same."""
    identity = decode("Custom_Cijk_Alik_Bljk_F8B8BS_BH_SAB_NTD_UserArgs_shortname1_gfx950")
    assert (identity.op_class, identity.library, identity.arch) == ("gemm", "hipBLASLt", "gfx950")
    assert (identity.layout, identity.tile, identity.split_k) == ("TN", None, None)


@pytest.mark.parametrize(
    ("name", "in_dtype", "out_dtype", "split_k"),
    [
        ("Cijk_SB_Bias_HA_S_PostGSU2_VW4", "f32", "bf16", True),
        ("Cijk_SS_BiasS_HAS_ScaleAlphaVec_PostGSU16_VW1", "f32", "f32", True),
        ("Cijk_B_PostGSU", None, "bf16", True),
        ("Cijk_S", None, "f32", None),
        ("Cijk_H_GB", None, "f16", None),
    ],
)
def test_tensile_helpers(name: str, in_dtype: str | None, out_dtype: str, split_k: bool | None) -> None:  # noqa: FBT001
    """What prepares and adds up the parts of a GEMM that splits K belongs to that GEMM."""
    identity = decode(name)
    assert (identity.op_class, identity.helper_of, identity.split_k) == ("gemm-helper", "gemm", split_k)
    assert (identity.in_dtype, identity.out_dtype) == (in_dtype, out_dtype)


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("Memcpy HtoD (Pageable -> Device)", "HtoD"),
        ("Memcpy M2D (MEMORY(Unknown) -> DEVICE)", "HtoD"),
        ("Memcpy D2D (DEVICE -> DEVICE)", "DtoD"),
        ("Memcpy AtoH (Array -> Pageable)", "DtoH"),
        ("Memcpy PtoP (Device -> Device)", "PtoP"),
        ("CopyDeviceToHost", "DtoH"),
        ("MEMORY_COPY_HOST_TO_DEVICE", "HtoD"),
        ("Memcpy Unknown (Unknown -> Unknown)", None),
        ("Memcpy S2D (SHARED -> DEVICE)", None),
        ("copy_host_to_device_kernel", None),
    ],
)
def test_the_way_of_a_copy(name: str, way: str | None) -> None:
    """Where a copy comes from and goes to, as CUDA, ROCm and XPU write it."""
    assert copy_way(name) == way
    assert decode(name).op_class == ("unknown" if name.endswith("kernel") else "copy")


def test_fills() -> None:
    """ROCm's memset is a fill."""
    assert decode("FillBuffer").op_class == "fill"


def test_a_convolution_that_is_called_a_gemm() -> None:
    """Composable Kernel's convolutions are built of GEMMs: the function's own name decides, wherever it lies."""
    name = (
        "_ZN2ck16tensor_operation6device12_GLOBAL__N_139kernel_grouped_conv_fwd_xdl_cshuffle_v3INS_28GridwiseGemm_xdl_"
        "cshuffle_v3INS_13tensor_layout4gemm8RowMajorENS6_11ColumnMajorE"
    )
    identity = decode(name)
    assert (identity.family, identity.op_class) == ("ck", "conv")
    assert identity.in_words.endswith(": kernel_grouped_conv_fwd_xdl_cshuffle_v3")


def test_aiters_batched_gemm() -> None:
    """The batched form of AITER's Triton GEMM has its tile in the same words."""
    name = (
        "_batched_gemm_a8w8_a_per_token_group_prequant_w_per_batched_tensor_quant_kernel_HAS_BIAS_0_BLOCK_SIZE_M_16_"
        "BLOCK_SIZE_N_64_BLOCK_SIZE_K_128_GROUP_SIZE_M_1_EVEN_K_1_cache_modifier_CG_GRID_MN_4"
    )
    assert (decode(name).op_class, decode(name).tile) == ("gemm", (16, 64, 128))
