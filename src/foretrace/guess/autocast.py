"""``torch.autocast`` and its gradient scaler as an accelerator has them, on tensors that lie on the CPU.

The CPU's autocast has lists of its own: it leaves softmax, the norms, ``pow``, ``exp`` and sums in the lower type and
casts others that an accelerator leaves alone. Here are the accelerator's (``aten/src/ATen/autocast_mode.h``).
"""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DEVICES = ("cuda", "hip", "xpu", "mps", "mtia", "hpu")
"""Devices whose work the stage does on the CPU."""

_KEY = "AutocastCPU"
_ASKED = ("is_autocast_enabled", "get_autocast_dtype")
_LOWER = "addmv addr mv linalg_multi_dot chain_matmul"
_FP32 = """
    acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow.Tensor_Scalar pow.Tensor_Tensor
    pow.Scalar softplus layer_norm native_layer_norm rms_norm group_norm frobenius_norm.dim nuclear_norm
    nuclear_norm.dim cosine_similarity dist pdist renorm logsumexp upsample_nearest1d _upsample_nearest_exact1d
    upsample_nearest2d _upsample_nearest_exact2d upsample_nearest3d _upsample_nearest_exact3d upsample_linear1d
    upsample_bilinear2d _upsample_bilinear2d_aa upsample_trilinear3d upsample_bicubic2d _upsample_bicubic2d_aa
"""
_FP32_RESULT = """
    prod prod.dim_int softmax.int log_softmax.int cumprod cumsum linalg_vector_norm linalg_matrix_norm
    linalg_matrix_norm.str_ord sum sum.dim_IntList
"""
_WIDEST = "addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler index_put tensordot scatter_add"


@contextmanager
def autocast_as_there() -> Iterator[None]:
    """Inside, autocasting is an accelerator's, whichever device it is asked for, and so is the gradient scaler.

    Who asks whether an accelerator autocasts, as modules do that have a fast path, is told.
    """
    autocast: Any = torch.autocast
    scaler: Any = torch.amp.GradScaler
    enter, scale, step = autocast.__init__, scaler.__init__, scaler._maybe_opt_step  # noqa: SLF001 - what looks at gradients
    asked = {name: getattr(torch, name) for name in _ASKED}
    registered: list[torch.library.Library] = []

    def init(
        self: torch.autocast,
        device_type: str,
        dtype: torch.dtype | None = None,
        enabled: bool = True,  # noqa: FBT001, FBT002 - PyTorch's own signature, which Dynamo binds
        cache_enabled: bool | None = None,  # noqa: FBT001 - as above
    ) -> None:
        if device_type in DEVICES:
            device_type, dtype = "cpu", dtype or torch.float16
        if not registered:
            registered.append(_registered())
        enter(self, device_type, dtype, enabled, cache_enabled)

    def init_scaler(self: Any, device: str = "cuda", *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - PyTorch's own
        scale(self, "cpu" if device in DEVICES else device, *args, **kwargs)

    def step_if_finite(self: Any, optimizer: Any, state: dict[str, Any], *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as above
        """The gradients are taken to be finite: what people profile is a step that is taken."""
        state["found_inf_per_device"] = dict.fromkeys(state["found_inf_per_device"], torch.tensor(0.0))
        return step(self, optimizer, state, *args, **kwargs)

    autocast.__init__, scaler.__init__, scaler._maybe_opt_step = init, init_scaler, step_if_finite  # noqa: SLF001 - as above
    for name, function in asked.items():
        setattr(torch, name, _of_the_cpu(function))
    try:
        yield
    finally:
        for name, function in asked.items():
            setattr(torch, name, function)
        autocast.__init__, scaler.__init__, scaler._maybe_opt_step = enter, scale, step  # noqa: SLF001 - as above
        for library in registered:
            library._destroy()  # type: ignore[no-untyped-call]  # noqa: SLF001 - without a public form


def _of_the_cpu(asked: Callable[[str], Any]) -> Callable[..., Any]:
    def answer(device_type: str = "cuda") -> Any:  # noqa: ANN401 - PyTorch's own
        return asked("cpu" if device_type in DEVICES else device_type)

    return answer


def autocast_type() -> torch.dtype | None:
    """The type that products are cast to now; ``None`` outside of autocast."""
    return torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None


def cast(value: Any, dtype: torch.dtype) -> Any:  # noqa: ANN401 - any argument
    """``value`` with the floating-point tensors in it as ``dtype``, as autocast casts them: fp64 stays."""
    if isinstance(value, list | tuple):
        return type(value)(cast(item, dtype) for item in value)
    return value.to(dtype) if _eligible(value) else value


def half_softmax(name: str, x: torch.Tensor, dim: int) -> torch.Tensor:
    """``softmax`` or ``log_softmax`` of fp16 in fp32: one kernel there (``aten/src/ATen/native/SoftMax.cpp``)."""
    result: torch.Tensor = getattr(torch.ops.aten, f"_{name}")(x, dim, True)  # noqa: FBT003 - PyTorch's signature
    return result


def _eligible(value: Any) -> bool:  # noqa: ANN401 - any argument
    return isinstance(value, torch.Tensor) and value.is_floating_point() and value.dtype != torch.float64


def _registered() -> torch.library.Library:
    """The accelerator's lists put over the CPU's, where they differ, until the library is destroyed."""
    library = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    policies = ((_LOWER, _in_lower), (_FP32, _in_fp32), (_FP32_RESULT, _to_fp32), (_WIDEST, _in_widest))
    kernels: dict[str, Any] = {
        name: _without_autocast(name, policy) for names, policy in policies for name in names.split()
    }
    known = [set(torch._C._dispatch_get_registrations_for_dispatch_key(key)) for key in (_KEY, "AutocastCUDA")]  # noqa: SLF001 - without a public form
    kernels |= {name.removeprefix("aten::"): torch.library.fallthrough_kernel for name in known[0] - known[1]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that kernels are overridden is the purpose
        for name, kernel in kernels.items():
            library.impl(name, kernel, _KEY)  # type: ignore[no-untyped-call]
    return library


def _without_autocast(name: str, policy: Callable[..., Any]) -> Callable[..., Any]:
    packet, _, overload = name.partition(".")
    op = getattr(getattr(torch.ops.aten, packet), overload or "default")
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)  # noqa: SLF001 - as above

    def kernel(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the op's own
        with torch._C._ExcludeDispatchKeyGuard(keys):  # noqa: SLF001 - as above
            return policy(op, args, kwargs)

    return kernel


# policies: (op, its arguments) → its result


def _in_lower(op: Any, args: Any, kwargs: Any) -> Any:  # noqa: ANN401 - any op's
    lower = torch.get_autocast_dtype("cpu")
    return op(*cast(args, lower), **{name: cast(value, lower) for name, value in kwargs.items()})


def _in_fp32(op: Any, args: Any, kwargs: Any) -> Any:  # noqa: ANN401 - as above
    return op(*cast(args, torch.float32), **{name: cast(value, torch.float32) for name, value in kwargs.items()})


def _to_fp32(op: Any, args: Any, kwargs: Any) -> Any:  # noqa: ANN401 - as above
    """Results in fp32 unless a type is asked for."""
    named = [argument.name for argument in op._schema.arguments]  # noqa: SLF001 - the public way to a schema
    given = dict(zip(named, args, strict=False)) | kwargs
    if _eligible(args[0]) and given.get("dtype") is None:
        name = op._schema.name.removeprefix("aten::")  # noqa: SLF001 - as above
        if name.endswith("softmax") and args[0].dtype == torch.float16:
            return half_softmax(name, given["self"], given["dim"])
        given["dtype"] = torch.float32
    return op(**given)


def _in_widest(op: Any, args: Any, kwargs: Any) -> Any:  # noqa: ANN401 - as above
    tensors = [value for value in torch.utils._pytree.tree_leaves(args) if _eligible(value)]  # noqa: SLF001 - the tree of arguments
    widest = torch.float32 if any(t.dtype == torch.float32 for t in tensors) else torch.get_autocast_dtype("cpu")
    return op(*cast(args, widest), **kwargs)
