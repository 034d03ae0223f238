"""What an op costs: class, operations and bytes from its name, shapes and types. No torch."""

from __future__ import annotations

from foretrace.ops.bytes import Tensor, total_bytes
from foretrace.ops.dtypes import dtype_bytes, short_dtype
from foretrace.ops.fused import SEVERAL_PRODUCTS
from foretrace.ops.table import is_composite, launches_nothing, short_name, work
from foretrace.ops.work import Work

__all__ = [
    "SEVERAL_PRODUCTS",
    "Tensor",
    "Work",
    "dtype_bytes",
    "is_composite",
    "launches_nothing",
    "short_dtype",
    "short_name",
    "total_bytes",
    "work",
]
