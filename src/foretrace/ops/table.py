"""The one table of ops: name, shapes and types in; class, operations and bytes out.

Nesting is the caller's matter: an op that works through other ops is a *composite*, and a total counts the
innermost op that launched, never a composite together with its children.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from foretrace.ops import (
    attention,
    conv,
    copies,
    fused,
    indexing,
    lists,
    matmul,
    norm,
    nothing,
    pointwise,
    pooling,
    reduction,
    rows,
)
from foretrace.ops.args import Args
from foretrace.ops.bytes import total_bytes
from foretrace.ops.unsaid import UnsaidError
from foretrace.ops.work import Entry, Figures, Work, unknown

if TYPE_CHECKING:
    from collections.abc import Sequence

_NAMESPACES = ("aten", "prims")
_PRODUCTS, _COMPLEX = frozenset({"gemm", "conv"}), frozenset({"c32", "c64", "c128"})
"""A complex multiply-add is 4 multiplications and 4 additions, where a real one is one of each."""
_BARE = frozenset({"detach", "detach_"})  # autograd's own records of these come without a namespace

# Ops of which only the class is said.
_ONLY_NAMED: dict[str, Entry] = {
    **dict.fromkeys(
        ("cross_entropy_loss", "nll_loss", "nll_loss_nd", "kl_div", "l1_loss", "binary_cross_entropy_with_logits"),
        Entry("reduction", unknown, composite=True),
    ),
    **dict.fromkeys(("_fft_r2c", "_fft_c2c", "_fft_c2r"), Entry("fft", unknown)),
    **dict.fromkeys(
        ("fft_fft", "fft_ifft", "fft_rfft", "fft_irfft", "fft_fft2", "fft_ifft2", "fft_fftn", "fft_rfftn", "stft"),
        Entry("fft", unknown, composite=True),
    ),
    **dict.fromkeys(("tensordot", "inner", "chain_matmul"), Entry("gemm", unknown, composite=True)),
}

TABLE: dict[str, Entry] = {
    **pointwise.OPS,
    **matmul.OPS,
    **conv.OPS,
    **attention.OPS,
    **reduction.OPS,
    **pooling.OPS,
    **rows.OPS,
    **norm.OPS,
    **copies.OPS,
    **indexing.OPS,
    **lists.OPS,
    **fused.OPS,
    **_ONLY_NAMED,
}

_NOTHING = Work("other", 0, 0, 0, launches=False)


def work(
    op: str,
    shapes: Sequence[object] | None,
    dtypes: Sequence[object] | None,
    concrete: Sequence[object] | None = None,
    strides: Sequence[object] | None = None,
) -> Work | None:
    """What one call of ``op`` costs, from its arguments as Kineto records them.

    Args:
        op: ``aten::mm``; also ``prims::…``, and ``aten::mm.out`` with an overload's name.
        shapes: ``Input Dims``.
        dtypes: ``Input type``; a list of types may stand for ``TensorList`` where they are known.
        concrete: ``Concrete Inputs``.
        strides: ``Input Strides``; without them tensors are taken as dense.

    Returns:
        The work, with ``None`` for each figure that the arguments do not determine; ``None`` for an op that the
        table does not know (Triton kernels, collectives, custom ops).
    """
    name = _base_name(op)
    if name is None:
        return None
    if name in nothing.NAMES:
        return _NOTHING
    entry, inplace = _entry(name)
    if entry is None:
        return None
    args = Args(shapes or (), dtypes or (), concrete or (), strides or (), inplace=inplace)
    try:
        figures = entry.rule(args)
    except (UnsaidError, LookupError, ValueError, ArithmeticError):
        figures = Figures()  # not recorded, or at odds with the schema: a missing dimension, a stride of 0
    return _work(entry.op_class, figures)


def is_composite(op: str) -> bool:
    """Whether ``op`` does its work through other ops of the trace, which are counted in its stead."""
    name = _base_name(op)
    entry = None if name is None else _entry(name)[0]
    return entry is not None and entry.composite


def short_name(op: str) -> str:
    """``aten::mm`` and this package's own ops without their namespaces, others whole."""
    return op.removeprefix("aten::").removeprefix("foretrace::")


def launches_nothing(op: str) -> bool:
    """Whether ``op`` is a view or bookkeeping whatever its arguments."""
    return _base_name(op) in nothing.NAMES


def _base_name(op: str) -> str | None:
    namespace, separator, name = op.partition("::")
    if not separator:
        return op if op in _BARE else None
    if namespace in _NAMESPACES:
        return name.partition(".")[0]
    return op if op in fused.OPS else None


def _entry(name: str) -> tuple[Entry | None, bool]:
    """The table's entry for a name, and whether the name is the in-place form (``add_``) of one."""
    if name in TABLE:
        return TABLE[name], name.endswith("_") and not name.endswith("__")
    if name.endswith("_") and not name.endswith("__"):
        return TABLE.get(name.removesuffix("_")), True
    return None, False


def _work(op_class: str, figures: Figures) -> Work:
    first = figures.writes[0] if figures.writes else None
    read = figures.reads[0] if figures.reads else None
    dtype = figures.dtype or (read.dtype if read else None)
    flops = figures.flops
    if flops is not None and op_class in _PRODUCTS and dtype in _COMPLEX:
        flops *= 4
    return Work(
        op_class,
        flops,
        total_bytes(figures.reads),
        total_bytes(figures.writes),
        figures.launches,
        dtype,
        first.shape if first else None,
        first.dtype if first else None,
    )
