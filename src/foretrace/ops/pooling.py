"""Pooling: windows of an image reduced to one value each, and the way back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foretrace.ops.bytes import Tensor
from foretrace.ops.unsaid import UnsaidError
from foretrace.ops.work import Entry, Figures, result, unknown

if TYPE_CHECKING:
    from foretrace.ops.args import Args
    from foretrace.ops.work import Rule


def _pooled(args: Args, rank: int, *, dilation: int | None, ceil_mode: int) -> tuple[int, ...]:
    """Sizes of the result (the formulas in the documentation of ``torch.nn.MaxPool2d``).

    The arguments are ``(self, kernel_size, stride, padding, …)``; an empty stride is the kernel's size.
    """
    source, kernel = args.tensor(0), args.integers(1)
    strides = args.integers(2) or kernel
    padding = args.integers(3)
    spacing = [1] if dilation is None else args.integers(dilation)
    sizes = []
    for axis, size in enumerate(source.shape[-rank:]):
        window, stride, pad, gap = (one[axis % len(one)] for one in (kernel, strides, padding, spacing))
        room = size + 2 * pad - gap * (window - 1) - 1
        steps = -(-room // stride) if args.flag(ceil_mode) else room // stride
        if args.flag(ceil_mode) and steps * stride >= size + pad:
            steps -= 1  # the last window must start inside the image or its left padding
        sizes.append(steps + 1)
    return (*source.shape[:-rank], *sizes)


def _max(rank: int) -> Rule:
    """``max_pool2d_with_indices(self, kernel_size, stride, padding, dilation, ceil_mode)``: values, indices."""

    def rule(args: Args) -> Figures:
        source = args.tensor(0)
        shape = _pooled(args, rank, dilation=4, ceil_mode=5)
        return Figures(0, (source,), (Tensor(shape, source.dtype), Tensor(shape, "i64")))

    return rule


def _average(rank: int) -> Rule:
    """``avg_pool2d(self, kernel_size, stride, padding, ceil_mode, …)``: an addition an element of each window."""

    def rule(args: Args) -> Figures:
        source, kernel = args.tensor(0), args.integers(1)
        written = result(args, Tensor(_pooled(args, rank, dilation=None, ceil_mode=4), source.dtype), 7)
        window = 1
        for axis in range(rank):
            window *= kernel[axis % len(kernel)]
        return Figures(window * written.elements, (source,), (written,))

    return rule


def _adaptive(rank: int) -> Rule:
    """``_adaptive_avg_pool2d(self, output_size)``: every element added once."""

    def rule(args: Args) -> Figures:
        source, sizes = args.tensor(0), args.integers(1)
        if len(sizes) != rank:
            raise UnsaidError
        written = result(args, Tensor((*source.shape[:-rank], *sizes), source.dtype), 2)
        return Figures(source.elements, (source,), (written,))

    return rule


def _max_backward(args: Args) -> Figures:
    """``max_pool2d_with_indices_backward(grad, self, …, indices)``: each gradient added where its maximum stood."""
    grad, source, indices = args.tensor(0), args.tensor(1), args.tensor(7)
    return Figures(grad.elements, (grad, indices), (Tensor(source.shape, source.dtype),), grad.dtype)


def _entry(rule: Rule, *, composite: bool = False) -> Entry:
    return Entry("reduction", rule, composite)


OPS: dict[str, Entry] = {
    "max_pool2d_with_indices": _entry(_max(2)),
    "max_pool3d_with_indices": _entry(_max(3)),
    "avg_pool2d": _entry(_average(2)),
    "avg_pool3d": _entry(_average(3)),
    "_adaptive_avg_pool2d": _entry(_adaptive(2)),
    "_adaptive_avg_pool3d": _entry(_adaptive(3)),
    "max_pool2d_with_indices_backward": _entry(_max_backward),
    "max_pool3d_with_indices_backward": _entry(_max_backward),
    **dict.fromkeys(("avg_pool2d_backward", "_adaptive_avg_pool2d_backward"), _entry(unknown)),
    **dict.fromkeys(
        ("max_pool1d", "max_pool2d", "max_pool3d", "avg_pool1d", "adaptive_avg_pool1d", "adaptive_avg_pool2d"),
        _entry(unknown, composite=True),
    ),
}
