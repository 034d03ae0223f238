"""Convolutions of any rank, grouped, transposed, and their gradients."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from foretrace.ops.bytes import Tensor
from foretrace.ops.flops import convolution_flops
from foretrace.ops.unsaid import UnsaidError
from foretrace.ops.work import Entry, Figures, result

if TYPE_CHECKING:
    from foretrace.ops.args import Args


@dataclass(frozen=True, slots=True)
class _Convolution:
    """Where one convolution's schema keeps its arguments.

    Attributes:
        stride: Index of the strides.
        padding: Index of the padding.
        dilation: Index of the dilation.
        bias: Index of the bias.
        addend: Index of a tensor added to the result.
        transposed: Index of the flag, or the answer itself where the op's name says it.
        output_padding: Index of the output padding of transposed convolutions.
        groups: Index of the number of groups.
    """

    stride: int
    padding: int
    dilation: int | None = None
    bias: int | None = None
    addend: int | None = None
    transposed: int | bool = False
    output_padding: int | None = None
    groups: int | None = None

    def __call__(self, args: Args) -> Figures:
        x, weight = args.tensor(0), args.tensor(1)
        transposed = self._is_transposed(args)
        spatial = self._out_sizes(args, x, weight, transposed=transposed)
        channels = weight.shape[1] * self._groups(args) if transposed else weight.shape[0]
        batch = x.shape[: len(x.shape) - len(spatial) - 1]
        computed = Tensor((*batch, channels, *spatial), x.dtype)
        flops = convolution_flops(x.elements if transposed else computed.elements, weight.shape)
        extras = [args.find(index) for index in (self.bias, self.addend)]
        reads = (x, weight, *(tensor for tensor in extras if tensor is not None))
        return Figures(flops, reads, (result(args, computed, self._arity()),))

    def _arity(self) -> int:
        indices = (self.stride, self.padding, self.dilation, self.bias, self.addend, self.output_padding)
        return max(index for index in (*indices, self.groups) if index is not None) + 1

    def _is_transposed(self, args: Args) -> bool:
        return self.transposed if isinstance(self.transposed, bool) else args.flag(self.transposed)

    def _groups(self, args: Args) -> int:
        return 1 if self.groups is None else args.integer(self.groups, 1)

    def _out_sizes(self, args: Args, x: Tensor, weight: Tensor, *, transposed: bool) -> list[int]:
        """Sizes of the result's spatial dimensions (the formulas in the documentation of ``torch.nn.Conv2d``)."""
        kernel = weight.shape[2:]
        rank = len(kernel)
        if rank == 0 or len(x.shape) not in (rank + 1, rank + 2):
            raise UnsaidError
        stride = _spread(args, self.stride, rank, 1)
        padding = _spread(args, self.padding, rank, 0)
        dilation = _spread(args, self.dilation, rank, 1)
        extra = _spread(args, self.output_padding, rank, 0)
        sizes = []
        for axis, size in enumerate(x.shape[-rank:]):
            reach = dilation[axis] * (kernel[axis] - 1) + 1
            if transposed:
                sizes.append((size - 1) * stride[axis] - 2 * padding[axis] + reach + extra[axis])
            else:
                sizes.append((size + 2 * padding[axis] - reach) // stride[axis] + 1)
        return sizes


def _spread(args: Args, index: int | None, rank: int, default: int) -> list[int]:
    """One number per spatial axis: as given, one for all, or ``default`` where the op has no such argument."""
    if index is None or index >= len(args):
        return [default] * rank
    values = args.integers(index)
    if len(values) not in (1, rank):
        raise UnsaidError
    return values * rank if len(values) == 1 else values


def _backward(args: Args) -> Figures:
    """``convolution_backward(grad_output, input, weight, bias_sizes, …, transposed=7, …, output_mask=10)``.

    Each of the two gradients costs as much as the forward pass; inputs that both need are read twice, by the
    two kernels.
    """
    grad, x, weight = args.tensor(0), args.tensor(1), args.tensor(2)
    to_input, to_weight, to_bias = args.flags(10)
    one = convolution_flops(x.elements if args.flag(7) else grad.elements, weight.shape)
    reads = [grad, weight] * to_input + [grad, x] * to_weight + [grad] * to_bias
    bias = Tensor((math.prod(grad.shape[1:2]),), grad.dtype)
    writes = [Tensor(x.shape, x.dtype)] * to_input + [Tensor(weight.shape, weight.dtype)] * to_weight
    flops = one * (to_input + to_weight) + grad.elements * to_bias
    return Figures(flops, tuple(reads), (*writes, *[bias] * to_bias), grad.dtype)


def _conv(rule: _Convolution, *, composite: bool = False) -> Entry:
    return Entry("conv", rule, composite)


_CONVOLUTION = _conv(
    _Convolution(bias=2, stride=3, padding=4, dilation=5, transposed=6, output_padding=7, groups=8), composite=True
)
_FUNCTIONAL = _conv(_Convolution(bias=2, stride=3, padding=4, dilation=5, groups=6), composite=True)
_TRANSPOSED = _conv(
    _Convolution(bias=2, stride=3, padding=4, output_padding=5, groups=6, dilation=7, transposed=True),
    composite=True,
)
_LIBRARY = _conv(_Convolution(bias=2, padding=3, stride=4, dilation=5, groups=6))
_SLOW = _conv(_Convolution(bias=3, stride=4, padding=5))
_DEPTHWISE = _conv(_Convolution(bias=3, stride=4, padding=5, dilation=6))

OPS: dict[str, Entry] = {
    "convolution": _CONVOLUTION,
    "_convolution": _CONVOLUTION,
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), _FUNCTIONAL),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), _TRANSPOSED),
    "cudnn_convolution": _conv(_Convolution(padding=2, stride=3, dilation=4, groups=5)),
    "cudnn_convolution_transpose": _conv(
        _Convolution(padding=2, output_padding=3, stride=4, dilation=5, groups=6, transposed=True)
    ),
    "cudnn_convolution_relu": _conv(_Convolution(bias=2, stride=3, padding=4, dilation=5, groups=6)),
    "cudnn_convolution_add_relu": _conv(_Convolution(addend=2, bias=4, stride=5, padding=6, dilation=7, groups=8)),
    **dict.fromkeys(("miopen_convolution", "miopen_depthwise_convolution", "mkldnn_convolution"), _LIBRARY),
    **dict.fromkeys(("thnn_conv2d", "slow_conv3d", "_slow_conv2d_forward", "slow_conv3d_forward"), _SLOW),
    **dict.fromkeys(("_conv_depthwise2d", "conv_depthwise3d"), _DEPTHWISE),
    "convolution_backward": Entry("conv", _backward),
}
