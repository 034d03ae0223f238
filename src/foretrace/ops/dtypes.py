"""Element types: every spelling that a trace or a person uses, as one short name with its size.

Kineto writes C++ names (``c10::BFloat16``, ``long int``), PyTorch its own (``torch.bfloat16``) and dispatcher
arguments the number of a ``c10::ScalarType``. Inside foretrace a type is ``bf16``, ``f32``, ``i64``, ``bool``.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

# bytes an element; the two four-bit floats of `float4_e2m1fn_x2` share one element of one byte
_BYTES = {
    "bool": 1, "u8": 1, "i8": 1, "u16": 2, "i16": 2, "u32": 4, "i32": 4, "u64": 8, "i64": 8,
    "f4": 1, "f8": 1, "f16": 2, "bf16": 2, "f32": 4, "tf32": 4, "f64": 8, "c32": 4, "c64": 8, "c128": 16,
}  # fmt: skip

_SPELLINGS = {
    "bool": ("bool",),
    "u8": ("unsigned char", "uint8", "uint8_t", "byte", "c10::quint8", "quint8"),
    "i8": ("signed char", "char", "int8", "int8_t", "c10::qint8", "qint8"),
    "u16": ("unsigned short", "short unsigned int", "uint16", "uint16_t"),
    "i16": ("short", "short int", "int16", "int16_t"),
    "u32": ("unsigned int", "uint32", "uint32_t"),
    "i32": ("int", "int32", "int32_t", "c10::qint32", "qint32"),
    "u64": ("unsigned long", "long unsigned int", "unsigned long long", "uint64", "uint64_t"),
    "i64": ("long", "long int", "long long", "long long int", "__int64", "int64", "int64_t"),
    "f4": ("c10::float4_e2m1fn_x2", "float4_e2m1fn_x2"),
    "f8": (
        "c10::float8_e4m3fn", "c10::float8_e5m2", "c10::float8_e4m3fnuz", "c10::float8_e5m2fnuz",
        "c10::float8_e8m0fnu", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz",
        "float8_e8m0fnu",
    ),
    "f16": ("c10::half", "half", "float16"),
    "bf16": ("c10::bfloat16", "bfloat16"),
    "f32": ("float", "float32"),
    "f64": ("double", "float64"),
    "c32": ("c10::complex<c10::half>", "complex32", "chalf"),
    "c64": ("c10::complex<float>", "complex64", "cfloat"),
    "c128": ("c10::complex<double>", "complex128", "cdouble"),
}  # fmt: skip
_SHORT = {name: short for short, names in _SPELLINGS.items() for name in (short, *names)} | {"tf32": "tf32"}

# c10/core/ScalarType.h numbers the types in this order; the gaps are quantised and sub-byte types
_SCALAR_TYPES = {
    0: "u8", 1: "i8", 2: "i16", 3: "i32", 4: "i64", 5: "f16", 6: "f32", 7: "f64", 8: "c32", 9: "c64",
    10: "c128", 11: "bool", 12: "i8", 13: "u8", 14: "i32", 15: "bf16", 23: "f8", 24: "f8", 25: "f8", 26: "f8",
    27: "u16", 28: "u32", 29: "u64", 44: "f8", 45: "f4",
}  # fmt: skip

DEFAULT_FLOAT = "f32"  # torch.get_default_dtype(), which a trace does not record and hardly anybody changes

Category = Literal["bool", "int", "float", "complex"]
_CATEGORIES: tuple[Category, ...] = ("bool", "int", "float", "complex")


@lru_cache(maxsize=256)  # asked for every argument of every op
def short_dtype(name: str) -> str | None:
    """The short name of an element type; ``None`` for what is none (``Scalar``, ``TensorList``, the empty string).

    >>> short_dtype("c10::BFloat16"), short_dtype("long int"), short_dtype("torch.float32"), short_dtype("Scalar")
    ('bf16', 'i64', 'f32', None)
    """
    return _SHORT.get(name.strip().lower().removeprefix("torch."))


def dtype_bytes(dtype: str) -> int | None:
    """Bytes of one element of a type in any spelling; ``None`` when the type is not known.

    >>> dtype_bytes("c10::BFloat16"), dtype_bytes("f8"), dtype_bytes("my_type")
    (2, 1, None)
    """
    return _BYTES.get(short_dtype(dtype) or "")


def scalar_type(number: int) -> str | None:
    """The short name of a ``c10::ScalarType`` number, as ``dtype=`` arguments are recorded: 6 is ``f32``."""
    return _SCALAR_TYPES.get(number)


def category(dtype: str) -> Category:
    """``bool``, ``int``, ``float`` or ``complex``, the ranks of PyTorch's type promotion, of a short name."""
    if dtype == "bool":
        return "bool"
    if dtype.startswith(("u", "i")):
        return "int"
    return "complex" if dtype.startswith("c") else "float"


def promote(dtypes: Iterable[str]) -> str | None:
    """The type that elements of these short types combine to; ``None`` for none, or where PyTorch refuses.

    Source: PyTorch's documented type promotion (``torch.promote_types``).
    """
    result: str | None = None
    for dtype in dtypes:
        result = dtype if result is None else _pair(result, dtype)
        if result is None:
            return None
    return result


def highest(dtypes: Iterable[str]) -> Category:
    """The highest category among these types; ``bool`` for none."""
    return _CATEGORIES[max((_CATEGORIES.index(category(dtype)) for dtype in dtypes), default=0)]


def _pair(one: str, other: str) -> str | None:
    if one == other:
        return one
    low, high = sorted((one, other), key=lambda dtype: _CATEGORIES.index(category(dtype)))
    if category(low) != category(high):
        # a complex type holds floats of half its size; a wider float widens it
        return "c128" if category(high) == "complex" and low == "f64" else high
    return {"int": _integers, "float": _floats, "complex": _wider, "bool": _wider}[category(high)](one, other)


def _wider(one: str, other: str) -> str | None:
    return max(one, other, key=lambda dtype: _BYTES[dtype])


def _floats(one: str, other: str) -> str | None:
    if {"f8", "f4"} & {one, other}:
        return None
    return "f32" if {one, other} == {"f16", "bf16"} else _wider(one, other)


def _integers(one: str, other: str) -> str | None:
    unsigned = {one, other} & {"u8", "u16", "u32", "u64"}
    if not unsigned:
        return _wider(one, other)
    if unsigned != {"u8"}:
        return None  # the wider unsigned types promote with nothing
    signed = one if other == "u8" else other
    return "i16" if signed == "i8" else signed
