"""What the named device calls where the CPU would call something else: attention, dropout, normalisation."""

from __future__ import annotations

import inspect
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode, get_overridable_functions

from foretrace.guess.autocast import autocast_type, cast, half_softmax

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from foretrace.devices import Device
    from foretrace.guess.record import Recorder

_ATTENTION = functional.scaled_dot_product_attention
_SOFTMAX = {
    function: kind
    for kind in ("softmax", "log_softmax")
    for function in (getattr(functional, kind), getattr(torch, kind), getattr(torch.Tensor, kind))
}
_HALF = (torch.float16, torch.bfloat16)
_CUDNN_ARCHS = frozenset({"9.0", "10.0", "10.3"})
_CUDNN_WIDEST, _FLASH_WIDEST = 128, 256
_FLASH_LEAST = 8.0
_RANK = 4


class DeviceOps(TorchFunctionMode):
    """Calls the ops of a CUDA device on CPU tensors, so that their names, sizes and gradients are recorded."""

    def __init__(self, device: Device | None, recorder: Recorder) -> None:
        super().__init__()
        self._device = device
        self._recorder = recorder

    def __torch_function__(
        self, func: Callable[..., Any], _types: object, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:  # noqa: ANN401 - whatever the function returns
        kwargs = kwargs or {}
        if func is _ATTENTION:
            return _attention(self._device, *args, **kwargs)
        if torch.compiler.is_compiling():
            return func(*args, **kwargs)  # Inductor takes these apart itself
        if func in (functional.dropout, torch.dropout):
            return _dropout(func, *args, **kwargs)
        if func in (functional.rms_norm, getattr(torch, "rms_norm", None)):
            return _rms_norm(self._recorder, *args, **kwargs)
        if func in _SOFTMAX:
            return _softmax(func, *args, **kwargs)
        return func(*args, **kwargs)


@contextmanager
def device_attention(device: Device | None) -> Iterator[None]:
    """``scaled_dot_product_attention`` is the named device's, also where Python code of PyTorch's own calls it."""

    def scaled_dot_product_attention(*args: Any, **kwargs: Any) -> torch.Tensor:  # noqa: ANN401 - PyTorch's own
        return _attention(device, *args, **kwargs)

    before = functional.scaled_dot_product_attention
    get_overridable_functions()  # cached at its first call, which should not find ours
    functional.scaled_dot_product_attention = scaled_dot_product_attention
    try:
        yield
    finally:
        functional.scaled_dot_product_attention = before


def _attention(
    device: Device | None,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,  # noqa: FBT001, FBT002 - PyTorch's signature
    scale: float | None = None,
    enable_gqa: bool = False,  # noqa: FBT001, FBT002 - as above
) -> torch.Tensor:
    lower = autocast_type()
    if lower is not None:  # autocast sees this function, and not what it is made of
        query, key, value, attn_mask = cast((query, key, value, attn_mask), lower)
    backend = attention_backend(query, key, value, attn_mask, device)
    if enable_gqa and backend in {"efficient", "math"} and key.shape[1] != query.shape[1]:
        key, value = (t.repeat_interleave(query.shape[1] // t.shape[1], 1) for t in (key, value))
    if attn_mask is not None and backend != "math":
        attn_mask = _added_mask(attn_mask, query, key)
    grad = torch.is_grad_enabled() and any(t.requires_grad for t in (query, key, value))
    # after q, k and v: what each op's schema has before `scale`
    given: dict[str, tuple[Any, ...]] = {
        "cudnn": (attn_mask, grad, dropout_p, is_causal, False),
        "flash": (dropout_p, is_causal, False),
        "efficient": (attn_mask, grad, dropout_p, is_causal),
        "math": (attn_mask, dropout_p, is_causal),
    }
    name = "_scaled_dot_product_attention_math" if backend == "math" else f"_scaled_dot_product_{backend}_attention"
    out: torch.Tensor = getattr(torch.ops.aten, name)(query, key, value, *given[backend], scale=scale)[0]
    return out


def _added_mask(mask: torch.Tensor, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """The mask as a bias for each head: a Boolean one becomes 0 and −∞ first."""
    if mask.dtype == torch.bool:
        mask = torch.where(mask.logical_not(), float("-inf"), torch.zeros((), dtype=query.dtype))
    return mask.expand(*query.shape[:3], key.shape[2])


def attention_backend(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, device: Device | None
) -> str:
    """Which kernel ``scaled_dot_product_attention`` takes: ``cudnn``, ``flash``, ``efficient`` or ``math``.

    The order and the conditions are those of ``aten/src/ATen/native/transformers/cuda/sdp_utils.cpp``: cuDNN first on
    data-centre Hopper and Blackwell, then flash attention, then the memory-efficient kernels. A single key is not
    cuDNN's (a decoder's first token on an H200 runs flash attention).
    """
    nvidia = device is None or device.vendor == "NVIDIA"
    capability = (device.compute_capability if device else None) or "0.0"
    if query.dim() != _RANK or not nvidia or query.shape[2] == 0 or key.shape[2] == 0:
        return "math"
    half, width = query.dtype in _HALF, max(query.shape[-1], value.shape[-1])
    aligned = query.shape[-1] % 8 == 0 and value.shape[-1] % 8 == 0
    if half and capability in _CUDNN_ARCHS and width <= _CUDNN_WIDEST and aligned and key.shape[2] > 1:
        return "cudnn"
    same = query.shape[-1] == value.shape[-1]
    if half and mask is None and float(capability) >= _FLASH_LEAST and width <= _FLASH_WIDEST and same:
        return "flash"
    return "efficient" if query.dtype in (*_HALF, torch.float32) else "math"


def _softmax(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - PyTorch's own
    """fp16 to fp32 in one kernel, where the CPU casts first."""
    given = dict(zip(("input", "dim"), args, strict=False)) | kwargs
    x, dim = given.get("input"), given.get("dim")
    if x is None or dim is None or kwargs.get("dtype") != torch.float32 or x.dtype != torch.float16:
        return func(*args, **kwargs)
    return half_softmax(_SOFTMAX[func], x, dim)


def _dropout(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - PyTorch's own
    """One kernel on a CUDA device (``native_dropout``), where the CPU has four ops."""
    names = ("input", "p", "training" if func is functional.dropout else "train")
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    p, train = given.get("p", 0.5), given.get("training", given.get("train", True))
    if not train or not 0 < p < 1 or given.get("inplace"):
        return func(*args, **kwargs)
    return torch.native_dropout(given["input"], p, True)[0]  # noqa: FBT003 - PyTorch's signature


def _rms_norm(recorder: Recorder, *args: Any, **kwargs: Any) -> torch.Tensor:  # noqa: ANN401 - PyTorch's own
    """One kernel on a CUDA device since PyTorch 2.9, where the CPU works through pow, mean, rsqrt and mul."""
    given = inspect.signature(functional.rms_norm).bind(*args, **kwargs)
    given.apply_defaults()
    x, shape, weight, eps = (given.arguments[name] for name in ("input", "normalized_shape", "weight", "eps"))
    if autocast_type() is not None:
        x, weight = cast((x, weight), torch.float32)
    return _RmsNorm.apply(x, weight, list(shape), eps, recorder)  # type: ignore[no-any-return, no-untyped-call]


class _RmsNorm(torch.autograd.Function):
    """``aten::_fused_rms_norm``, which no CPU has: recorded by name, its results empty."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401 - autograd's own
        x: torch.Tensor,
        weight: torch.Tensor | None,
        shape: list[int],
        eps: float | None,
        recorder: Recorder,
    ) -> torch.Tensor:
        """[..., *shape] → the same."""
        recorder.add("aten::_fused_rms_norm", [x, shape, weight, eps])
        ctx.save_for_backward(x, weight)
        ctx.shape, ctx.recorder = shape, recorder
        return torch.empty_like(x)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:  # noqa: ANN401 - autograd's own
        """Gradients of the input and the weight."""
        x, weight = ctx.saved_tensors
        rstd = x.new_empty((*x.shape[: x.dim() - len(ctx.shape)], *[1] * len(ctx.shape)), dtype=torch.float32)
        mask = [x.requires_grad, weight is not None and weight.requires_grad]
        ctx.recorder.add("aten::_fused_rms_norm_backward", [grads[0], x, ctx.shape, rstd, weight, mask])
        return torch.empty_like(x), None if weight is None else torch.empty_like(weight), None, None, None
