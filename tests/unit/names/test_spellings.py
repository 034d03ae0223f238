"""One kernel, several writers: Kineto, Nsight and rocprof spell a C++ name differently and mean the same."""

from __future__ import annotations

import dataclasses

import pytest

from foretrace.names import decode

COPY = (
    "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::direct_copy_kernel_cuda"
    "(at::TensorIteratorBase&)::{lambda()#3}::operator()() const::{lambda()#7}::operator()() const::{lambda(float)#1}>"
    "(at::TensorIteratorBase&, x)::{lambda(int)#1}>(int, x)"
)
COPY_NSIGHT = (
    "void at::native::elementwise_kernel<(int)128, (int)4, void at::native::gpu_kernel_impl_nocast<at::native::"
    "direct_copy_kernel_cuda(at::TensorIteratorBase &)::[lambda() (instance 3)]::operator ()() const::"
    "[lambda() (instance 7)]::operator ()() const::[lambda(float) (instance 1)]>(at::TensorIteratorBase &, const T1 &)"
    "::[lambda(int) (instance 1)]>(int, T3)"
)
GELU = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&, "
    "at::native::GeluType)::{lambda()#1}::operator()() const::{lambda()#4}::operator()() const::"
    "{lambda(c10::BFloat16)#1}, std::array<char*, 2ul> >(int, x)"
)
GELU_NSIGHT = (
    "void at::native::vectorized_elementwise_kernel<(int)4, at::native::GeluCUDAKernelImpl(at::TensorIteratorBase &, "
    "at::native::GeluType)::[lambda() (instance 1)]::operator ()() const::[lambda() (instance 4)]::operator ()() const"
    "::[lambda(c10::BFloat16) (instance 1)], std::array<char *, (unsigned long)2>>(int, T2, T3)"
)
FLASH = (
    "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, cutlass::half_t, "
    "Flash_kernel_traits<64, 128, 128, 4, cutlass::half_t> >, false>(flash::Flash_fwd_params)"
)
FLASH_NSIGHT = (
    "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<(int)64, (int)128, (int)128, (int)4, (bool)0, (bool)0, "
    "cutlass::half_t, Flash_kernel_traits<(int)64, (int)128, (int)128, (int)4, cutlass::half_t>>, (bool)0>"
    "(flash::Flash_fwd_params)"
)


@pytest.mark.parametrize(
    ("kineto", "other"),
    [
        (COPY, COPY_NSIGHT),
        (GELU, GELU_NSIGHT),
        (FLASH, FLASH_NSIGHT),
        (
            "void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, true, false>(float*)",
            "void <unnamed>::softmax_warp_forward<float, float, float, (int)10, (bool)1, (bool)0>(T2 *)",
        ),
        (
            "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float, true>(int)",
            "_ZN2at6native12_GLOBAL__N_128vectorized_layer_norm_kernelIffLb1EEEvi",
        ),
        ("aiter::fmha_fwd_hd128_bf16_causal", "aiter::fmha_fwd_hd128_bf16_causal [clone .kd]"),
        ("Cijk_Alik_Bljk_BBS_BH_MT128x128x32_SN_ISA942", "Cijk_Alik_Bljk_BBS_BH_MT128x128x32_SN_ISA942.kd"),
    ],
    ids=["copy", "gelu", "flash", "softmax", "rms norm", "clone", "kd"],
)
def test_the_same_kernel(kineto: str, other: str) -> None:
    """Every field of both spellings is the same, but the name."""
    one, same = decode(kineto), decode(other)
    assert one.family != "unknown"
    assert dataclasses.replace(same, name=kineto) == one


@pytest.mark.parametrize(
    ("functor", "in_dtype", "out_dtype"),
    [
        ("bfloat16tofloat32_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda(c10::BFloat16)#1}", "bf16", "f32"),
        ("float16tofloat32_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda(c10::Half)#1}", "f16", "f32"),
        ("bfloat16_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda(float)#1}", "f32", "bf16"),
        ("converting_copy_kernel_cuda<float, c10::BFloat16>(at::X&)::{lambda(float)#1}", "f32", "bf16"),
    ],
)
def test_converting_copies(functor: str, in_dtype: str, out_dtype: str) -> None:
    """A copy that widens or narrows is a copy between the two types that its function names."""
    identity = decode(f"void at::native::vectorized_elementwise_kernel<4, at::native::{functor}, x>(int, x)")
    assert (identity.op_class, identity.in_dtype, identity.out_dtype) == ("copy", in_dtype, out_dtype)


BINARY = "BinaryFunctor<float, float, float, at::native::xpu::MulFunctor<float> >"
MEAN = "ReduceOp<float, at::native::xpu::MeanOps<float, float>, unsigned int, float, 4>"


@pytest.mark.parametrize(
    ("launcher", "functor", "op_class", "short"),
    [
        ("VectorizedElementwiseKernel<4, {}, x>", "GeluErfFunctor<float>", "pointwise", "elementwise gelu_erf"),
        ("VectorizedElementwiseKernel<8, {}, x>", BINARY, "pointwise", "elementwise mul"),
        ("UnrolledElementwiseKernel<4, {}, x>", "CopyScalarFunc<float>", "copy", "copy"),
        ("VectorizedElementwiseKernel<4, {}, x>", "CastScalarFunc<float, c10::BFloat16>", "copy", "cast"),
        ("VectorizedElementwiseKernel<4, {}, x>", "FillFunctor<float>", "fill", "fill"),
        ("ReduceKernel<1, 4, {}>", MEAN, "reduction", "reduction mean"),
    ],
    ids=["gelu", "mul", "copy", "cast", "fill", "mean"],
)
def test_xpu(launcher: str, functor: str, op_class: str, short: str) -> None:
    """On Intel's GPUs the functor in ATen's launcher says the op; its type is that of the arithmetic, so unsaid."""
    identity = decode(f"at::native::xpu::{launcher.format(f'at::native::xpu::{functor}')}")
    assert (identity.op_class, identity.short) == (op_class, short)
    assert "threads" not in identity.in_words
    assert op_class == "reduction" or (identity.in_dtype, identity.out_dtype) == (None, None)


@pytest.mark.parametrize(
    ("element", "dtype"),
    [
        ("sycl::_V1::detail::half_impl::half", "f16"),
        ("sycl::_V1::ext::oneapi::bfloat16", "bf16"),
        ("ck_tile::bf16_t", "bf16"),
        ("__hip_fp8_e4m3_fnuz", "fp8"),
    ],
)
def test_element_types_of_other_vendors(element: str, dtype: str) -> None:
    """An element type is read as SYCL, HIP and Composable Kernel spell it."""
    assert decode(f"void vllm::rms_norm_kernel<{element}>(x)").in_dtype == dtype
