"""What can be worked out from an identity and is not written in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from foretrace.names.identity import Identity

_COLUMN_MAJOR = frozenset({"cublas", "xmma", "cutlass"})


def gemm_tile_MN(identity: Identity) -> tuple[int, int] | None:  # noqa: N802 - shape suffix, as in the whole project
    """One block's tile of a row-major output [M, N], so that ⌈M / tile M⌉ · ⌈N / tile N⌉ blocks cover it.

    BLAS is column-major, so that a framework with row-major tensors asks it for the transposed product: the name's
    first number runs along the row-major N. That holds for every nvjet and CUTLASS kernel of the recorded traces whose
    grid can tell the two readings apart. A CUTLASS 3 or XMMA name with a row-major output (``tnt``, ``tn_t``) was asked
    for the product itself. ``None`` where a kernel is no GEMM, has no tile or no layout in its name, or comes from
    elsewhere.
    """
    if identity.op_class != "gemm" or identity.tile is None:
        return None
    first, second, _ = identity.tile
    if identity.family == "nvjet":
        return (second, first) if len(identity.layout or "") == 3 else None  # noqa: PLR2004 - the form that was checked
    if identity.family not in _COLUMN_MAJOR or identity.layout is None:
        return None
    layout = identity.layout.replace("_", "")
    names_output = len(layout) == 3  # noqa: PLR2004 - A, B and the output
    return (first, second) if names_output and layout.endswith("t") else (second, first)


def has_bias(identity: Identity) -> bool:
    """Whether the GEMM adds a bias before it stores: no kernel of its own for ``nn.Linear``'s bias."""
    return identity.epilogue is not None and "bias" in identity.epilogue.split("+")
