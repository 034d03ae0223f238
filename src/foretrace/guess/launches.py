"""Which kernels one dispatched op launches on a CUDA device: none, itself, or others by their own names."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from foretrace.guess import foreach, gemm, recurrent
from foretrace.guess.convolutions import batch_norm, batch_norm_backward, convolution, convolution_backward, mask
from foretrace.guess.launch import Launch, filled, least_work, other, shapes_of
from foretrace.ops import Tensor, Work, launches_nothing, short_dtype, total_bytes, work

if TYPE_CHECKING:
    from foretrace.devices import Device
    from foretrace.guess.record import Call


def launches(call: Call, device: Device | None) -> tuple[Launch, ...]:
    """The kernels of one call in their order; none for views, bookkeeping and what stays on the host."""
    if call.on_host or call.hint == "view" or launches_nothing(call.op):
        return ()
    done = work(call.op, call.shapes, call.dtypes, call.concrete, call.strides)
    if done is not None and done.launches is False:
        return ()
    done = least_work(call, done)
    base = call.op.partition("::")[2].removesuffix("_")
    over_lists = base.startswith(("_foreach_", "_fused_", "_amp_foreach_"))
    of_nothing = None if over_lists or done is None else _of_nothing(call, done)
    if of_nothing is not None:
        return of_nothing
    if _empty(call):
        return ()
    if over_lists and (found := _over_lists(call, done)):
        return found
    rule = _RULES.get(base)
    return tuple(rule(call, done, device) if rule else _itself(call, done))


def _over_lists(call: Call, done: Work | None) -> tuple[Launch, ...]:
    """As many launches as the lists need; none where none of the arguments is a list."""
    count = foreach.launch_count(call.shapes)
    if not count:
        return ()
    if call.op == "aten::_foreach_norm":
        return _norms(call, done, count)
    op_class = "optimizer" if done is None or done.op_class == "pointwise" else done.op_class
    return (Launch(call.op, op_class, shapes_of(call), _share(done, count)),) * count


def _norms(call: Call, done: Work | None, count: int) -> tuple[Launch, ...]:
    """Norms of chunks, put into zeros, then one kernel for those of tensors (``ForeachReduceOp.cu``)."""
    of_chunks = Launch(call.op, "reduction", shapes_of(call), _share(done, count))
    of_tensors = Launch(call.op, "reduction", (), None, why="norms of tensors from those of their chunks")
    return (Launch("aten::fill_", "fill", (), None), *(of_chunks,) * count, of_tensors)


def _share(done: Work | None, count: int) -> Work | None:
    """An even part of the work for each of ``count`` launches."""
    if done is None or done.flops is None or done.read_bytes is None or done.written_bytes is None:
        return done
    return replace(
        done,
        flops=done.flops // count,
        read_bytes=done.read_bytes // count,
        written_bytes=done.written_bytes // count,
    )


def _itself(call: Call, done: Work | None, op_class: str | None = None) -> Iterator[Launch]:
    named = op_class or (done.op_class if done else "pointwise" if call.hint == "pointwise" else "other")
    yield Launch(call.op, named, shapes_of(call), done)


def _of_nothing(call: Call, done: Work) -> tuple[Launch, ...] | None:
    """What is left of an op where sizes are 0: nothing, or its result filled; ``None`` where sizes are not.

    An empty result needs no kernel. A sum over nothing, as of a product whose K is 0, is filled with what it starts
    from, and ``addmm`` scales what it adds (``aten/src/ATen/native/cuda/Blas.cpp``, ``native/ReduceOps.cpp``).
    """
    if done.out_shape is None or call.op.endswith("_backward"):  # a backward's other results may hold something
        return None
    if 0 in done.out_shape:
        return ()
    if done.op_class not in _SUMS:
        return None
    added = done.op_class == "gemm" and "add" in call.op
    terms = shapes_of(call)[1:3] if added else shapes_of(call)[:1]
    if not any(0 in shape for shape in terms):
        return None
    if added and str(call.concrete[3]) not in {"0", "0.0"}:
        return (Launch("aten::mul", "pointwise", (), None, why="K is 0: nothing is left but the added matrix"),)
    return (Launch("aten::fill_", "fill", (), None, why="a sum over nothing"),)


def _empty(call: Call) -> bool:
    """Whether every tensor of the call has no elements."""
    sizes = [shape for shape in shapes_of(call) if not isinstance(shape[0], tuple)]
    return bool(sizes) and all(0 in shape for shape in sizes)


_FEW_INDICES = 3_072
_SUMS = frozenset({"gemm", "reduction"})

# rules: (call, its work, device) → launches

Rule = Callable[["Call", "Work | None", "Device | None"], Iterator[Launch]]


def _as(*parts: str) -> Rule:
    """Other ops in its place: ``op:class`` each; the first that is ``*`` carries the work of the whole."""

    def rule(call: Call, done: Work | None, _device: Device | None) -> Iterator[Launch]:
        for part in parts:
            carries = part.startswith("*")
            op, _, op_class = part.removeprefix("*").partition(":")
            shapes = shapes_of(call) if carries and op == call.op.partition("::")[2] else ()
            yield Launch(f"aten::{op}", op_class, shapes, done if carries else None)

    return rule


def _network(call: Call, _done: Work | None, _device: Device | None) -> Iterator[Launch]:
    """A recurrent network in one op, of which the products can be counted: twice as many in its backward."""
    counted = recurrent.flops(call.shapes)
    twice = 2 if call.op.endswith("_backward") else 1
    done = Work("gemm", counted and twice * counted, None, None, launches=True, dtype=short_dtype(call.dtypes[0]))
    yield Launch(call.op, "gemm", shapes_of(call), done, why="how many kernels this is cannot be told")


def _copy(call: Call, done: Work | None, _device: Device | None) -> Iterator[Launch]:
    """A new tensor filled by ``copy_(new, old)``."""
    yield Launch("aten::copy_", "copy", (*shapes_of(call)[:1], *shapes_of(call)[:1]), done)


def _classed(op_class: str) -> Rule:
    return lambda call, done, _device: _itself(call, done, op_class)


def _product(call: Call, done: Work | None, device: Device | None) -> Iterator[Launch]:
    """``mm``, ``bmm``: one GEMM, and a reduction where K is split."""
    yield Launch(call.op, "gemm", shapes_of(call), done)
    yield from _helper(call, call.shapes[0], call.shapes[1], device)


def _added_product(call: Call, done: Work | None, device: Device | None) -> Iterator[Launch]:
    """``addmm``: the bias in the epilogue, or copied into the result first; in place it is the result."""
    added, left, right = call.shapes[:3]
    beta = call.concrete[3]
    fits = call.op == "aten::addmm" and gemm.bias_in_epilogue(added, left, right, beta)
    if not fits and not call.op.endswith("_") and str(beta) not in {"0", "0.0"}:
        yield Launch("aten::copy_", "copy", (), None, why="the added matrix is copied into the result first")
    yield Launch(call.op, "gemm", shapes_of(call), done, epilogue="bias" if fits else None)
    yield from _helper(call, left, right, device)


def _helper(call: Call, left: list[int], right: list[int], device: Device | None) -> Iterator[Launch]:
    why = gemm.split_k(left, right, device)
    if why is not None:
        yield Launch(call.op, "gemm-helper", shapes_of(call), None, why=why)


def _loss(call: Call, done: Work | None, _device: Device | None) -> Iterator[Launch]:
    """A loss an element, then their mean or sum; ``mse_loss(self, target, reduction, …)``."""
    yield Launch(call.op, "pointwise", shapes_of(call), done)
    reduced = {"1": "aten::mean", "2": "aten::sum"}.get(call.concrete[2])
    if reduced:
        yield other(reduced, "reduction", [call.shapes[0]], short_dtype(call.dtypes[0]))


def _weighted_loss(call: Call, done: Work | None, device: Device | None) -> Iterator[Launch]:
    """``binary_cross_entropy(self, target, weight, reduction)``; what is reduced is copied over the losses."""
    elements, *reduced = _loss(replace(call, concrete=[*call.concrete[:2], call.concrete[3]]), done, device)
    yield elements
    dtype = short_dtype(call.dtypes[0])
    if call.shapes[2]:
        yield other("aten::mul_", "pointwise", [call.shapes[0], call.shapes[2]], dtype)
    for one in reduced:
        yield one
        yield other("aten::copy_", "copy", [[1], [1]], dtype)


def _norm_backward(call: Call, done: Work | None, _device: Device | None) -> Iterator[Launch]:
    """The gradient of the input, and a second kernel for those of weight and bias."""
    yield Launch(call.op, "normalization", shapes_of(call), done)
    if any(mask(call)[1:]):
        yield Launch(call.op, "normalization", shapes_of(call), None)


def _embedding_backward(call: Call, done: Work | None, _device: Device | None) -> Iterator[Launch]:
    """Gradients of few indices are added up in one kernel, of many after sorting (3,072 in ``Embedding.cu``)."""
    grad, indices = call.shapes[:2]
    if math.prod(indices) > _FEW_INDICES:
        yield Launch(call.op, "sort", (), None, why="indices are sorted first")
    yield _zeros(done)
    rows = Tensor(tuple(grad), short_dtype(call.dtypes[0]))
    read = (rows, Tensor(tuple(indices), short_dtype(call.dtypes[1])))
    yield Launch(call.op, "gather-scatter", shapes_of(call), _moving(done, read, rows))


def _picked_backward(call: Call, done: Work | None, _device: Device | None) -> Iterator[Launch]:
    """``nll_loss_backward``: zeros, and one entry a target."""
    yield _zeros(done)
    target = Tensor(tuple(call.shapes[2]), short_dtype(call.dtypes[2]))
    picked = Tensor(target.shape, short_dtype(call.dtypes[1]))
    yield Launch(call.op, "pointwise", shapes_of(call), _moving(done, (target,), picked))


def _into_zeros(call: Call, done: Work | None, _device: Device | None) -> Iterator[Launch]:
    """A tensor copied into a part of a filled one: padding, the gradient of a slice."""
    yield _zeros(done)
    yield other("aten::copy_", "copy", [call.shapes[0], call.shapes[0]], short_dtype(call.dtypes[0]))


def _after_zeros(call: Call, done: Work | None, _device: Device | None) -> Iterator[Launch]:
    """A kernel that adds into zeros, as the gradient of pooling by maximum."""
    yield _zeros(done)
    yield from _itself(call, done)


def _zeros(done: Work | None) -> Launch:
    """The result filled first."""
    return filled(done.out_shape, done.out_dtype) if done else filled(None, None)


def _moving(done: Work | None, read: tuple[Tensor, ...], written: Tensor) -> Work | None:
    """The work with the bytes of what a kernel touches of a result that another one has filled."""
    return done and replace(done, read_bytes=total_bytes(read), written_bytes=total_bytes((written,)))


def _out_of_place(call: Call, done: Work | None, _device: Device | None) -> Iterator[Launch]:
    """``masked_fill`` and the like on a copy of their first argument."""
    if not call.op.endswith("_"):
        yield Launch("aten::copy_", "copy", (*shapes_of(call)[:1], *shapes_of(call)[:1]), None)
    yield Launch(f"{call.op.removesuffix('_')}_", done.op_class if done else "other", shapes_of(call), done)


_RULES: dict[str, Rule] = {
    **dict.fromkeys(("mm", "bmm"), _product),
    **dict.fromkeys(("addmm", "baddbmm", "addmv", "addbmm"), _added_product),
    **dict.fromkeys(("_to_copy", "clone", "repeat", "contiguous", "_copy_from"), _copy),
    **dict.fromkeys(
        ("ones", "zeros", "full", "ones_like", "zeros_like", "full_like", "new_ones", "new_zeros", "new_full"),
        _as("*fill_:fill"),
    ),
    "zero": _as("*fill_:fill"),
    "scalar_tensor": _as("*fill_:fill"),
    "embedding": _as("*index_select:gather-scatter"),
    "embedding_dense_backward": _embedding_backward,
    **dict.fromkeys(("triu", "tril"), _classed("pointwise")),
    **dict.fromkeys(("rand", "rand_like"), _as("*uniform_:random")),
    **dict.fromkeys(("randn", "randn_like"), _as("*normal_:random")),
    **dict.fromkeys(("randint", "randint_like"), _as("*random_:random")),
    "bernoulli": _as("*bernoulli_:random"),
    "native_dropout_backward": _classed("pointwise"),
    "stack": _as("*cat:copy"),
    **dict.fromkeys(("constant_pad_nd", "slice_backward", "select_backward"), _into_zeros),
    "max_pool2d_with_indices_backward": _after_zeros,
    "index_put": _as("*_index_put_impl_:gather-scatter"),
    **dict.fromkeys(("mse_loss", "smooth_l1_loss", "huber_loss"), _loss),
    "binary_cross_entropy": _weighted_loss,
    **dict.fromkeys(("nll_loss_backward", "nll_loss2d_backward"), _picked_backward),
    "equal": _as("eq:pointwise", "all:reduction", "_local_scalar_dense:copy"),
    "topk": _as("*topk:sort", "topk:sort"),
    "nonzero": _as("*nonzero:reduction", "nonzero:copy", "nonzero:scan"),
    **{f"{op}{ending}": _network for op in recurrent.NETWORKS for ending in ("", "_backward")},
    **dict.fromkeys(("_thnn_fused_lstm_cell", "_thnn_fused_gru_cell"), _classed("pointwise")),
    **dict.fromkeys(("_thnn_fused_lstm_cell_backward_impl", "_thnn_fused_gru_cell_backward"), _classed("pointwise")),
    "convolution": convolution,
    "convolution_backward": convolution_backward,
    **dict.fromkeys(("native_layer_norm_backward", "_fused_rms_norm_backward"), _norm_backward),
    "native_group_norm": _as("*native_group_norm:normalization", "native_group_norm:normalization", "add:pointwise"),
    **dict.fromkeys(
        ("native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_no_training"), batch_norm
    ),
    "native_batch_norm_backward": batch_norm_backward,
    "_scaled_dot_product_cudnn_attention": _as("*_cudnn_attention_forward:attention"),
    "_scaled_dot_product_flash_attention": _as("*_flash_attention_forward:attention"),
    "_scaled_dot_product_efficient_attention": _as("*_efficient_attention_forward:attention"),
    # a kernel for rowsum(dO · O), the main one, and a conversion of dQ
    **{
        f"_scaled_dot_product_{kind}_attention_backward": _as(
            f"_{kind}_attention_backward:attention",
            f"*_{kind}_attention_backward:attention",
            f"_{kind}_attention_backward:attention",
        )
        for kind in ("cudnn", "flash")
    },
    **dict.fromkeys(("masked_fill", "scatter_add", "scatter", "index_add", "index_copy", "index_fill"), _out_of_place),
    "_scaled_dot_product_efficient_attention_backward": _as("*_efficient_attention_backward:attention"),
}
