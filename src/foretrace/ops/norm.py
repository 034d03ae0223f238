"""Normalisations: layer, RMS, group and batch norm, forward and backward."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from foretrace.ops.bytes import Tensor
from foretrace.ops.unsaid import UnsaidError
from foretrace.ops.work import Entry, Figures, result, unknown

if TYPE_CHECKING:
    from foretrace.ops.args import Args

# How many values of each statistic are saved: one a row, one a group, one a channel, or none.
_Saved: TypeAlias = Literal["rows", "groups", "channels", "none"]


@dataclass(frozen=True, slots=True)
class _Norm:
    """Where one normalisation's schema keeps its arguments.

    Attributes:
        flops: Operations an element.
        parameters: Indices of the tensors read beside the input: weight, bias, running statistics.
        saved: How many values of each statistic are written for the backward pass.
        statistics: How many statistics are saved (mean and reciprocal deviation, or the latter alone).
        training: Index of the flag without which the running statistics are used and nothing is saved.
    """

    flops: int
    parameters: tuple[int, ...]
    saved: _Saved = "none"
    statistics: int = 2
    training: int | None = None

    def __call__(self, args: Args) -> Figures:
        source = args.tensor(0)
        found = (args.find(index) for index in self.parameters)
        reads = (source, *(tensor for tensor in found if tensor is not None))
        written = result(args, Tensor(source.shape, source.dtype), len(args))
        count = self._saved_values(args, source)
        kind = "f64" if source.dtype == "f64" else "f32"  # statistics accumulate in at least f32
        saved = (Tensor((count,), kind),) * self.statistics if count else ()
        return Figures(self.flops * source.elements, reads, (written, *saved), source.dtype)

    def _saved_values(self, args: Args, source: Tensor) -> int:
        if self.training is not None and not args.flag(self.training):
            return 0
        if self.saved == "rows":
            normalized = len(args.integers(1))
            return math.prod(source.shape[: len(source.shape) - normalized])
        if self.saved == "groups":
            return args.integer(3) * args.integer(6)
        return math.prod(source.shape[1:2]) if self.saved == "channels" else 0


@dataclass(frozen=True, slots=True)
class _NormBackward:
    """The gradients towards input, weight and bias, as far as the mask asks for them.

    Attributes:
        flops: Operations an element.
        grad: Index of the gradient; the input is the other one of the first two.
        weight: Index of the weight.
        mask: Index of the ``output_mask``, or ``None`` where all are computed.
    """

    flops: int
    weight: int
    grad: int = 0
    mask: int | None = None

    def __call__(self, args: Args) -> Figures:
        grad, source, weight = args.tensor(self.grad), args.tensor(1 - self.grad), args.find(self.weight)
        wanted = [True] * 3 if self.mask is None else args.flags(self.mask)
        rest = [tensor for tensor in args.all_tensors()[2:] if tensor.shape]
        writes = [Tensor(source.shape, source.dtype)] if wanted[0] else []
        if any(wanted[1:]) and weight is None:
            raise UnsaidError
        writes += [Tensor(weight.shape, weight.dtype) for asked in wanted[1:] if asked and weight is not None]
        return Figures(self.flops * source.elements, (grad, source, *rest), tuple(writes), source.dtype)


def _norm(rule: _Norm | _NormBackward, *, composite: bool = False) -> Entry:
    return Entry("normalization", rule, composite)


# Operations an element, from the formulas: mean (1), variance (subtract, square, add: 3), scale to unit variance
# (1), weight (1), bias (1). RMS norm has no mean and no bias: square, add, scale, weight.
_LAYER, _RMS = 7, 4
# gradients: two sums over rows or channels (multiply, add each), the input's gradient, weight and bias sums
_LAYER_BACKWARD, _RMS_BACKWARD = 11, 8

_BATCH = _Norm(_LAYER, (1, 2, 3, 4), "channels", training=5)

OPS: dict[str, Entry] = {
    "native_layer_norm": _norm(_Norm(_LAYER, (2, 3), "rows")),
    "layer_norm": _norm(_Norm(_LAYER, (2, 3)), composite=True),
    "_fused_rms_norm": _norm(_Norm(_RMS, (2,), "rows", statistics=1)),
    "rms_norm": _norm(_Norm(_RMS, (2,)), composite=True),
    "native_group_norm": _norm(_Norm(_LAYER, (1, 2), "groups")),
    "group_norm": _norm(_Norm(_LAYER, (2, 3)), composite=True),
    # batch norms: (input, weight, bias, running_mean, running_var, training, …)
    **dict.fromkeys(("native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm"), _norm(_BATCH)),
    **dict.fromkeys(("batch_norm", "_batch_norm_impl_index"), _norm(_BATCH, composite=True)),
    "instance_norm": Entry("normalization", unknown, composite=True),
    "native_layer_norm_backward": _norm(_NormBackward(_LAYER_BACKWARD, weight=5, mask=7)),
    "_fused_rms_norm_backward": _norm(_NormBackward(_RMS_BACKWARD, weight=4, mask=5)),
    "native_group_norm_backward": _norm(_NormBackward(_LAYER_BACKWARD, weight=4, mask=9)),
    "native_batch_norm_backward": _norm(_NormBackward(_LAYER_BACKWARD, weight=2, mask=9)),
    **dict.fromkeys(
        ("cudnn_batch_norm_backward", "miopen_batch_norm_backward"),
        _norm(_NormBackward(_LAYER_BACKWARD, weight=2, grad=1)),
    ),
}
