"""The spellings of element types in kernel names, and their sizes."""

from __future__ import annotations

import re

_CPP = {
    "f16": "c10::Half at::Half Half __half half half_t cutlass::half_t _Float16 half_float::half ck::half_t "
    "ck_tile::half_t ck_tile::fp16_t sycl::half sycl::_V1::half sycl::_V1::detail::half_impl::half",
    "bf16": "c10::BFloat16 at::BFloat16 BFloat16 __nv_bfloat16 nv_bfloat16 cutlass::bfloat16_t bfloat16_t "
    "__hip_bfloat16 hip_bfloat16 hip_bfloat16_t __bf16 ck::bhalf_t ck_tile::bf16_t ck_tile::bfloat16_t "
    "sycl::ext::oneapi::bfloat16 sycl::_V1::ext::oneapi::bfloat16",
    "f32": "float",
    "f64": "double",
    "tf32": "cutlass::tfloat32_t",
    "fp8": "c10::Float8_e4m3fn c10::Float8_e5m2 c10::Float8_e4m3fnuz c10::Float8_e5m2fnuz __nv_fp8_e4m3 __nv_fp8_e5m2 "
    "cutlass::float_e4m3_t cutlass::float_e5m2_t ck::f8_fnuz_t ck::f8_ocp_t ck::bf8_fnuz_t ck::bf8_ocp_t "
    "ck_tile::fp8_t ck_tile::bf8_t __hip_fp8_e4m3 __hip_fp8_e4m3_fnuz __hip_fp8_e5m2 __hip_fp8_e5m2_fnuz",
    "fp4": "__nv_fp4_e2m1 cutlass::float_e2m1_t",
    "c64": "c10::complex<float> cuComplex float2",
    "c128": "c10::complex<double> cuDoubleComplex double2",
    "int8": "signed char,char,int8_t",
    "uint8": "unsigned char,uint8_t",
    "int16": "short,int16_t",
    "int32": "int,int32_t",
    "int64": "long,long long,int64_t",
    "bool": "bool",
}
_FROM_CPP = {
    spelling: dtype
    for dtype, spellings in _CPP.items()
    for spelling in (spellings.split(",") if "," in spellings else spellings.split())
}
_FROM_TOKEN = {
    "f16": "f16",
    "fp16": "f16",
    "half": "f16",
    "bf16": "bf16",
    "bfloat16": "bf16",
    "f32": "f32",
    "fp32": "f32",
    "float": "f32",
    "float32": "f32",
    "f64": "f64",
    "fp64": "f64",
    "double": "f64",
    "tf32": "tf32",
    "e4m3": "fp8",
    "e5m2": "fp8",
    "f8": "fp8",
    "fp8": "fp8",
    "f8e4m3": "fp8",
    "f8e5m2": "fp8",
    "e2m1": "fp4",
    "f4": "fp4",
    "fp4": "fp4",
    "cf32": "c64",
    "cf64": "c128",
    "s8": "int8",
    "i8": "int8",
    "int8": "int8",
    "u8": "uint8",
    "uint8": "uint8",
    "s32": "int32",
    "i32": "int32",
    "int32": "int32",
    "u32": "uint32",
    "uint32": "uint32",
    "i64": "int64",
    "int64": "int64",
    "u64": "uint64",
    "uint64": "uint64",
}
_BITS = {"fp4": 4, "fp8": 8, "f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "f64": 64, "c64": 64, "c128": 128, "int8": 8}
_QUALIFIER = re.compile(r"\bconst\b|[*&]|\Avolatile ", re.ASCII)


def from_cpp(spelling: str) -> str | None:
    """The dtype of a C++ type (``c10::BFloat16`` → ``bf16``), qualifiers and pointers ignored; ``None`` if none."""
    return _FROM_CPP.get(spelling) or _FROM_CPP.get(_QUALIFIER.sub("", spelling).strip())


def from_token(token: str | None) -> str | None:
    """The dtype of a word inside an underscored name (``bf16``, ``fp16``, ``e4m3``); ``None`` if it is none."""
    return _FROM_TOKEN.get(token.lower()) if token else None


def bits(dtype: str | None) -> int | None:
    """Width of one element in memory in bits (tf32 is stored as 32); ``None`` where unknown."""
    return _BITS.get(dtype) if dtype else None
