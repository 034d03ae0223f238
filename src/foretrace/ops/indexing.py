"""Gather and scatter: only the rows and elements that an index names are touched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foretrace.ops.bytes import Tensor
from foretrace.ops.unsaid import UnsaidError
from foretrace.ops.work import Entry, Figures, result, unknown

if TYPE_CHECKING:
    from foretrace.ops.args import Args
    from foretrace.ops.work import Rule


def _embedding(args: Args) -> Figures:
    """``embedding(weight[V, D], indices)``: one row of the table an index, not the table."""
    weight, indices = args.tensor(0), args.tensor(1)
    rows = Tensor((*indices.shape, *weight.shape[1:]), weight.dtype)
    return Figures(0, (rows, indices), (rows,))


def _embedding_backward(args: Args) -> Figures:
    """``embedding_dense_backward(grad[..., D], indices, num_weights, …)``: adds rows into a table of zeros."""
    grad, indices = args.tensor(0), args.tensor(1)
    table = Tensor((args.integer(2), *grad.shape[-1:]), grad.dtype)
    return Figures(grad.elements, (grad, indices), (table,))


def _index_select(args: Args) -> Figures:
    """``index_select(self, dim, index)``: as many slices along ``dim`` as the index has entries."""
    source, index = args.tensor(0), args.tensor(2)
    picked = Tensor(_along(args, source, index.elements), source.dtype)
    return Figures(0, (picked, index), (result(args, picked, 3),))


def _gather(args: Args) -> Figures:
    """``gather(self, dim, index)``: one element an index."""
    source, index = args.tensor(0), args.tensor(2)
    picked = Tensor(index.shape, source.dtype)
    return Figures(0, (picked, index), (result(args, picked, 3),))


def _take(args: Args) -> Figures:
    """``take(self, index)``: one element an index, of the flat input."""
    source, index = args.tensor(0), args.tensor(1)
    picked = Tensor(index.shape, source.dtype)
    return Figures(0, (picked, index), (result(args, picked, 2),))


def _scatter(*, adds: bool) -> Rule:
    """``scatter(self, dim, index, src or value)``: one element written an index; an addition reads it first."""

    def rule(args: Args) -> Figures:
        source, index, values = args.tensor(0), args.tensor(2), args.find(3)
        touched = Tensor(index.shape, source.dtype)
        given = [] if values is None or not values.shape else [Tensor(index.shape, values.dtype)]
        return _into(args, source, touched, [index, *given], adds=adds)

    return rule


def _index_add(*, adds: bool) -> Rule:
    """``index_add(self, dim, index, source)``, ``index_copy``, ``index_fill``: whole slices along ``dim``."""

    def rule(args: Args) -> Figures:
        source, index, values = args.tensor(0), args.tensor(2), args.find(3)
        touched = Tensor(_along(args, source, index.elements), source.dtype)
        given = [] if values is None or not values.shape else [values]
        return _into(args, source, touched, [index, *given], adds=adds)

    return rule


def _into(args: Args, source: Tensor, touched: Tensor, reads: list[Tensor], *, adds: bool) -> Figures:
    """Writes into a tensor: in place only what is touched, else into a copy of the whole."""
    read = [*reads, touched] if adds else reads
    flops = touched.elements if adds else 0
    if args.inplace:
        return Figures(flops, tuple(read), (touched,), source.dtype)
    whole = Tensor(source.shape, source.dtype)
    return Figures(flops, (source, *read), (whole, touched), source.dtype)


def _along(args: Args, source: Tensor, size: int) -> tuple[int, ...]:
    dim, rank = args.integer(1), len(source.shape)
    if not -rank <= dim < rank:
        raise UnsaidError
    return tuple(size if axis == dim % rank else given for axis, given in enumerate(source.shape))


def _entries(rule: Rule, names: str) -> dict[str, Entry]:
    return {name: Entry("gather-scatter", rule) for name in names.split()}


# Kineto records nothing of a list of optional tensors, so what `x[i]` and `x[i] = …` touch stays unknown.
OPS: dict[str, Entry] = {
    "embedding": Entry("gather-scatter", _embedding, composite=True),
    **_entries(_embedding_backward, "embedding_dense_backward"),
    "embedding_backward": Entry("gather-scatter", _embedding_backward, composite=True),
    **_entries(_index_select, "index_select"),
    **_entries(_gather, "gather"),
    **_entries(_take, "take"),
    **_entries(_scatter(adds=False), "scatter"),
    **_entries(_scatter(adds=True), "scatter_add"),
    **_entries(_index_add(adds=True), "index_add"),
    **_entries(_index_add(adds=False), "index_copy index_fill"),
    **_entries(unknown, "index _index_put_impl _unsafe_index masked_select nonzero put"),
    **dict.fromkeys(("index_put", "_unsafe_index_put"), Entry("gather-scatter", unknown, composite=True)),
    **_entries(unknown, "masked_scatter scatter_reduce _embedding_bag _embedding_bag_backward one_hot gather_backward"),
}
