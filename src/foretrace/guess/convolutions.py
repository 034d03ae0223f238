"""Which kernels a convolution or a batch norm takes: cuDNN's, or PyTorch's own.

The conditions are those of ``aten/src/ATen/native/Convolution.cpp`` and ``Normalization.cpp``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from foretrace.guess.launch import Launch, other, shapes_of
from foretrace.ops import short_dtype, work

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from foretrace.devices import Device
    from foretrace.guess.record import Call
    from foretrace.ops import Work

_IMAGES, _VOLUMES = 4, 5
_OWN_TYPES = frozenset({"f32", "f64"})


def convolution(call: Call, done: Work | None, _device: Device | None) -> Iterator[Launch]:
    """One of cuDNN's, and the bias by an op of its own; or PyTorch's kernel for each channel by itself."""
    shapes = shapes_of(call)
    x, weight, bias = call.shapes[:3]
    transposed = call.concrete[6] == "True"
    if not transposed and _own_depthwise(call, x, weight):
        yield Launch(f"aten::{'conv_depthwise3d' if len(x) == _VOLUMES else '_conv_depthwise2d'}", "conv", shapes, done)
        return
    name = "cudnn_convolution_transpose" if transposed else "cudnn_convolution"
    yield Launch(f"aten::{name}", "conv", shapes, done)
    if bias:
        out = list(done.out_shape) if done is not None and done.out_shape else list(call.results[0].shape)
        yield other("aten::add_", "pointwise", [out, [1, *bias, *(1 for _ in weight[2:])]], short_dtype(call.dtypes[0]))


def _own_depthwise(call: Call, x: list[int], weight: list[int]) -> bool:
    """fp32, one channel a group, laid out channel by channel: cuDNN is asked for other types and layouts."""
    channels, groups = x[1], int(call.concrete[8])
    dense = len(x) < _IMAGES or call.strides[0][1] != 1
    return (
        groups == channels > 1
        and weight[0] % channels == 0
        and len(x) <= _VOLUMES
        and dense
        and short_dtype(call.dtypes[0]) in _OWN_TYPES
    )


def convolution_backward(call: Call, done: Work | None, _device: Device | None) -> Iterator[Launch]:
    """A kernel towards the input, one towards the weight, and a sum for the bias, as the mask asks for them."""
    to_input, to_weight, to_bias = mask(call)
    shapes = shapes_of(call)
    for wanted, only in ((to_input, "[True, False, False]"), (to_weight, "[False, True, False]")):
        if wanted:
            one = work(call.op, call.shapes, call.dtypes, [*call.concrete[:-1], only], call.strides)
            yield Launch(call.op, "conv", shapes, one if one is not None and one.flops else done)
    if to_bias:
        grad = call.shapes[0]
        over = str([axis for axis in range(len(grad)) if axis != 1])
        summed = work(
            "aten::sum", [grad, [], [], []], [call.dtypes[0], "ScalarList", "Scalar", ""], ["", over, "False"]
        )
        yield Launch("aten::sum", "reduction", (tuple(grad),), summed)


def mask(call: Call) -> list[bool]:
    """The last argument, ``output_mask``."""
    return [item.strip() == "True" for item in call.concrete[-1].strip("[]").split(",")]


def batch_norm(call: Call, done: Work | None, _device: Device | None) -> Iterator[Launch]:
    """One kernel of cuDNN's; or PyTorch's: statistics, the running ones, the result, and only that in evaluation."""
    x, weight, bias = call.shapes[:3]
    if _by_cudnn(x, weight and bias, call.dtypes[0], call.dtypes[1]):
        yield Launch("aten::cudnn_batch_norm", "normalization", (), done)
        return
    training = call.concrete[5] == "True" and not call.op.endswith("_no_training")
    rest = None if done is None else replace(done, flops=0, read_bytes=0, written_bytes=0)
    yield Launch("aten::native_batch_norm", "normalization", (), done)
    for _ in range(2 if training else 0):
        yield Launch("aten::native_batch_norm", "normalization", (), rest)


def batch_norm_backward(call: Call, done: Work | None, _device: Device | None) -> Iterator[Launch]:
    """As `batch_norm`; cuDNN has one only for what it trained."""
    by_cudnn = call.concrete[7] == "True" and _by_cudnn(call.shapes[1], call.shapes[2], call.dtypes[1], call.dtypes[2])
    name = "cudnn_batch_norm_backward" if by_cudnn else call.op.partition("::")[2]
    yield Launch(f"aten::{name}", "normalization", shapes_of(call), done)


def _by_cudnn(x: Sequence[int], weights: Any, dtype: str, weight_dtype: str) -> bool:  # noqa: ANN401 - sizes, or nothing
    kinds = short_dtype(dtype), short_dtype(weight_dtype)
    return bool(weights) and len(x) > 2 and kinds in {("f32", "f32"), ("f16", "f32"), ("f64", "f64")}  # noqa: PLR2004 - rows and channels
