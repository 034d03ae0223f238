"""Element types in every spelling."""

from __future__ import annotations

import pytest

from foretrace.ops.dtypes import category, dtype_bytes, promote, scalar_type, short_dtype


@pytest.mark.parametrize(
    ("spelling", "short", "size"),
    [
        ("c10::BFloat16", "bf16", 2),
        ("c10::Half", "f16", 2),
        ("float", "f32", 4),
        ("double", "f64", 8),
        ("long int", "i64", 8),
        ("long", "i64", 8),
        ("__int64", "i64", 8),
        ("int", "i32", 4),
        ("short int", "i16", 2),
        ("short", "i16", 2),
        ("signed char", "i8", 1),
        ("unsigned char", "u8", 1),
        ("bool", "bool", 1),
        ("c10::complex<float>", "c64", 8),
        ("c10::Float8_e4m3fn", "f8", 1),
        ("c10::Float8_e5m2", "f8", 1),
        ("torch.bfloat16", "bf16", 2),
        ("torch.int64", "i64", 8),
        ("bf16", "bf16", 2),
        ("tf32", "tf32", 4),
    ],
)
def test_a_type_has_one_short_name_and_size_in_every_spelling(spelling: str, short: str, size: int) -> None:
    """Kineto's C++ names, PyTorch's names and the short names themselves all read alike."""
    assert short_dtype(spelling) == short
    assert dtype_bytes(spelling) == size


@pytest.mark.parametrize("name", ["", "Scalar", "ScalarList", "TensorList", "my_type", "c10::Device"])
def test_what_is_no_element_type_has_no_name_and_no_size(name: str) -> None:
    """Kineto's words for scalars and lists are not element types, and an unknown type has no invented size."""
    assert short_dtype(name) is None
    assert dtype_bytes(name) is None


def test_scalar_type_numbers_are_those_of_recorded_dtype_arguments() -> None:
    """``dtype=`` arguments arrive as numbers: 6 float, 15 bfloat16, 11 bool, 24 float8_e4m3fn."""
    assert [scalar_type(n) for n in (6, 15, 11, 24, 4)] == ["f32", "bf16", "bool", "f8", "i64"]
    assert scalar_type(99) is None


@pytest.mark.parametrize(
    ("dtypes", "expected"),
    [
        (["bf16", "f32"], "f32"),
        (["bf16", "f16"], "f32"),
        (["i64", "bf16"], "bf16"),
        (["bool", "u8"], "u8"),
        (["u8", "i8"], "i16"),
        (["u8", "i32"], "i32"),
        (["i32", "i64"], "i64"),
        (["f64", "c64"], "c128"),
        (["bool", "i16", "f16"], "f16"),
        (["f8", "f32"], None),
        ([], None),
    ],
)
def test_promotion_is_pytorchs(dtypes: list[str], expected: str | None) -> None:
    """Types combine as ``torch.promote_types`` combines them; what PyTorch refuses has no answer."""
    assert promote(dtypes) == expected


def test_categories_rank_the_types() -> None:
    """A short name falls into one of the four categories of type promotion."""
    assert [category(name) for name in ("bool", "u8", "i64", "bf16", "tf32", "c64")] == [
        "bool",
        "int",
        "int",
        "float",
        "float",
        "complex",
    ]
