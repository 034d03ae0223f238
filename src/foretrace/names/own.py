"""The kernels of foretrace's own fused layers.

::

    foretrace_<what>[_tma|_portable]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from foretrace.names.identity import Identity

if TYPE_CHECKING:
    from foretrace.names.symbol import Symbol

_KERNELS = {
    "gated_forward": (
        "gemm",
        "gated",
        "gate and up projections, activation and product in one GEMM; with many rows the down projection too",
    ),
    "gated_backward": ("gemm", "gated backward", "gradient of the product, activation's backward in the epilogue"),
    "gate_up": ("gemm", "gated", "gate and up projections for few rows, activation and product in the epilogue"),
    "down": ("gemm", None, "down projection for few rows, K split over blocks"),
    "glu": ("pointwise", None, "activation times gate's partner"),
    "glu_backward": ("pointwise", None, "backward of activation times gate's partner"),
}
_PREFIX = "foretrace_"


def parse(symbol: Symbol) -> Identity | None:
    """Decode the name of one of our kernels, or ``None``."""
    if not symbol.name.startswith(_PREFIX):
        return None
    what = symbol.name.removeprefix(_PREFIX).removesuffix("_tma").removesuffix("_portable")
    if what not in _KERNELS:
        return None
    op_class, epilogue, words = _KERNELS[what]
    return Identity(
        name=symbol.name,
        family="foretrace",
        library="foretrace",
        op_class=op_class,
        epilogue=epilogue,
        in_words=f"foretrace {what.replace('_', ' ')}: {words}",
    )
