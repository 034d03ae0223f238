"""Matrix-instruction shapes as GEMM names run them together (``s16816``), and what they imply."""

from __future__ import annotations

# PTX ISA, "mma" and "wmma" shapes: M, N, K, and the first architecture that has each.
_SHAPES = {
    "884": ((8, 8, 4), "sm70"),
    "1688": ((16, 8, 8), "sm75"),
    "8816": ((8, 8, 16), "sm75"),
    "8832": ((8, 8, 32), "sm75"),
    "88128": ((8, 8, 128), "sm75"),
    "1684": ((16, 8, 4), "sm80"),
    "16816": ((16, 8, 16), "sm80"),
    "16832": ((16, 8, 32), "sm80"),
    "16864": ((16, 8, 64), "sm80"),
    "168128": ((16, 8, 128), "sm80"),
    "168256": ((16, 8, 256), "sm80"),
    "161616": ((16, 16, 16), "sm70"),
    "32816": ((32, 8, 16), "sm70"),
    "83216": ((8, 32, 16), "sm70"),
}
_AMPERE_ONLY = frozenset({"bf16", "tf32", "f64"})

# The letter before the shape says what is accumulated in (BLAS's own letters; i for integers).
_ACCUMULATORS = {"s": "f32", "h": "f16", "d": "f64", "c": "c64", "gc": "c64", "z": "c128", "gz": "c128", "i": "int32"}
_NARROWED = {"tf32": "f32"}


def mma_shape(digits: str | None) -> tuple[int, int, int] | None:
    """``16816`` → (16, 8, 16); ``None`` for digits that are no known shape."""
    return _SHAPES[digits][0] if digits in _SHAPES else None


def first_arch(digits: str | None, in_dtype: str | None) -> str | None:
    """The first architecture with that instruction on that type: what the binary needs at least."""
    if digits not in _SHAPES:
        return None
    return "sm80" if in_dtype in _AMPERE_ONLY else _SHAPES[digits][1]


def accumulator(letter: str) -> str | None:
    """The accumulator that a letter names: ``s`` → f32, ``h`` → f16, ``i`` → int32."""
    return _ACCUMULATORS.get(letter)


def operand_dtype(letter: str, digits: str | None, written: str | None) -> str | None:
    """What enters the arithmetic: the type that is written, else what the letter and the shape leave open.

    ``s1688`` without a type is TF32 (with one, ``s1688gemm_bf16``, it is that type); no shape means CUDA cores in the
    letter's own precision.
    """
    if written:
        return written
    if digits is None or letter in {"h", "d"}:
        return accumulator(letter)
    return "tf32" if letter == "s" and digits in {"1688", "1684"} else None


def stored(dtype: str | None) -> str | None:
    """The type in memory: TF32 is stored as f32."""
    return _NARROWED.get(dtype, dtype) if dtype else None
