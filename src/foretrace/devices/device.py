"""One device and its ceilings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

PEAK_DTYPES = ("f64", "f32", "tf32", "f16", "bf16", "f8", "f4", "i8")

# Spellings of the types that have peaks: Kineto's, PyTorch's, and those of kernel names.
_SPELLINGS = {
    "f64": ("double", "float64", "fp64"),
    "f32": ("float", "float32", "fp32"),
    "tf32": (),
    "f16": ("half", "float16", "fp16"),
    "bf16": ("bfloat16",),
    "f8": (
        "fp8", "e4m3", "e5m2", "mxfp8", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz",
    ),
    "f4": ("fp4", "e2m1", "mxfp4", "nvfp4", "float4_e2m1fn_x2"),
    "i8": ("int8", "signed char", "char", "u8", "uint8", "unsigned char"),
}  # fmt: skip
_CANONICAL = {name: dtype for dtype, names in _SPELLINGS.items() for name in (dtype, *names)}


@dataclass(frozen=True, slots=True)
class Device:
    """A device as PyTorch sees it, and what its vendor says it can reach; ``None`` is unknown.

    Attributes:
        name: The device, with its form where that matters: ``NVIDIA H100 PCIe``.
        vendor: ``NVIDIA``, ``AMD``, ``Intel``.
        arch: The vendor's name of the architecture.
        compute_capability: CUDA compute capability, ``9.0``.
        sms: Streaming multiprocessors, compute units, Xe-cores or tensor processor cores.
        peak_flops: Dense operations a second by input type, in the spelling of `PEAK_DTYPES`. ``f32`` is full
            precision and ``tf32`` apart; 16- and 8-bit floats accumulate in f32.
        memory_bytes_per_s: Bandwidth between the device and its memory.
        memory_bytes: Capacity of that memory.
        l2_bytes: The largest cache that all compute units share.
        link_bytes_per_s: Bandwidth to the host in one direction.
        peer_link_bytes_per_s: Bandwidth to other devices in one direction, all links together.
        sources: Where the figures come from: ``peaks``, ``memory``, ``l2``, ``link``, ``sms``; ``rest`` for the
            others.
    """

    name: str
    vendor: str | None
    arch: str | None
    compute_capability: str | None
    sms: int | None
    peak_flops: Mapping[str, float]
    memory_bytes_per_s: float | None
    memory_bytes: int | None
    l2_bytes: int | None
    link_bytes_per_s: float | None
    peer_link_bytes_per_s: float | None
    sources: Mapping[str, str]

    def peak(self, dtype: str | None) -> float | None:
        """Dense operations a second for inputs of a type in any spelling; ``None`` when no rate is stated.

        >>> from foretrace.devices import find
        >>> find("NVIDIA H200").peak("c10::BFloat16")
        989400000000000.0
        """
        return None if dtype is None else self.peak_flops.get(canonical_dtype(dtype) or "")

    def ridge(self, dtype: str | None) -> float | None:
        """FLOPs a byte at which arithmetic and memory take equally long; above it a kernel is compute-bound.

        Source: Williams, Waterman, Patterson, *Roofline* (2009).
        """
        peak = self.peak(dtype)
        return None if peak is None or self.memory_bytes_per_s is None else peak / self.memory_bytes_per_s

    def source(self, figure: str) -> str | None:
        """Where ``peaks``, ``memory``, ``l2``, ``link`` or ``sms`` come from."""
        return self.sources.get(figure, self.sources.get("rest"))


def canonical_dtype(dtype: str) -> str | None:
    """A type's spelling in `PEAK_DTYPES`, from any of Kineto's, PyTorch's or kernel names' spellings."""
    name = dtype.strip().lower().removeprefix("c10::").removeprefix("torch.")
    return _CANONICAL.get(name)
