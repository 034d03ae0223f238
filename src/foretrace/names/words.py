"""The phrases that sentences about kernels are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

# Marketing names by compute capability (NVIDIA CUDA C++ Programming Guide) and by LLVM target (AMDGPU usage guide).
_ARCH_WORDS = {
    "sm50": "Maxwell",
    "sm52": "Maxwell",
    "sm60": "Pascal",
    "sm61": "Pascal",
    "sm70": "Volta",
    "sm75": "Turing",
    "sm80": "Ampere",
    "sm86": "Ampere",
    "sm87": "Ampere",
    "sm89": "Ada",
    "sm90": "Hopper",
    "sm100": "Blackwell",
    "sm103": "Blackwell Ultra",
    "sm110": "Blackwell",
    "sm120": "Blackwell",
    "sm121": "Blackwell",
    "gfx908": "MI100",
    "gfx90a": "MI200",
    "gfx942": "MI300",
    "gfx950": "MI350",
}
_DTYPE_WORDS = {"f16": "fp16", "f32": "fp32", "f64": "fp64", "c64": "complex fp32", "c128": "complex fp64"}


EPILOGUE_WORDS = {"bias": "adds a bias", "gated": "gate and up in one GEMM, their gated activation before it stores"}
"""What a GEMM does with its result before it stores it."""


def joined(*parts: str | None, by: str = "; ") -> str:
    """The parts that are there, in order."""
    return by.join(part for part in parts if part)


def arch_words(arch: str | None) -> str | None:
    """``sm90`` → ``Hopper``; the tag itself where it has no name that people use."""
    if arch is None:
        return None
    return _ARCH_WORDS.get(arch.removesuffix("a") if arch.startswith("sm") else arch, arch)


def dtype_words(dtype: str | None) -> str | None:
    """``f32`` → ``fp32``: as people say it."""
    return None if dtype is None else _DTYPE_WORDS.get(dtype, dtype)


def times(numbers: Iterable[int]) -> str:
    """``(2, 1)`` → ``2×1``."""
    return "×".join(str(n) for n in numbers)


def tile_words(tile: tuple[int, int, int | None]) -> str:
    """``(256, 128, 64)`` → ``256×128×64``; without K where there is none."""
    return times(n for n in tile if n is not None)


def made_for(arch: str | None) -> str:
    """``" for Hopper"``, or nothing, to put behind a noun."""
    return f" for {arch_words(arch)}" if arch else ""


def stage_words(stages: int | None) -> str | None:
    """``4`` → ``4 stages``."""
    return f"{stages} stage{'s' if stages > 1 else ''}" if stages else None
