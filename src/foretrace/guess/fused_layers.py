"""What this package's own gated MLPs launch on the named device: the path that its table picks, nothing launched."""

# ruff: noqa: N803 - the layers' own names
from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from foretrace.guess.device_ops import device_attention
from foretrace.guess.fast_paths import WHOLE_LAYERS, in_parts
from foretrace.guess.record import described, in_order, recording, value_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch import Tensor

    from foretrace.devices import Device
    from foretrace.fused.schedule import Schedule
    from foretrace.fused.weights import Weights
    from foretrace.guess.record import Call, Fused, Recorder


def layers_are_loaded() -> bool:
    """Whether anybody could call them."""
    return "foretrace.fused.functional" in sys.modules


@contextmanager
def fused_layers(device: Device | None, recorder: Recorder) -> Iterator[None]:
    """Inside, the layers go their real way for the named device; where they would launch a kernel, it is recorded.

    ``torch.compile`` meets their operators, as it would there: see `called`.
    """
    if device is None or not layers_are_loaded():
        yield  # nobody calls them
        return
    from foretrace.fused import eager, paths, plan  # noqa: PLC0415 - only where somebody uses them

    names = ("_few_rows", "_whole", "_hidden", "_inner", "glu", "glu_backward")
    there = _There(device, recorder, {name: getattr(paths, name) for name in names})
    new: dict[Any, dict[str, Any]] = {
        plan: {
            "runs_kernels": lambda tensors: any({t.dtype for t in tensors} == {dtype} for dtype in plan.KERNEL_DTYPES),
            "unwatched": lambda _tensors: not torch.compiler.is_compiling(),
            "path_for": there.path_for,
            "backward_path_for": there.backward_path_for,
        },
        paths: {
            "multiprocessors": lambda _index: device.sms or 0,
            "communicates": lambda: False,
            **{name: getattr(there, name) for name in names},
        },
    }
    if "torch._dynamo" in sys.modules:
        # on a device autograd runs a backward in a thread of its own, where Dynamo does not look
        for function in (eager.Glu, eager.GatedMlp):
            new[function] = {"backward": staticmethod(torch.compiler.disable(function.backward))}  # type: ignore[no-untyped-call]
    old = {owner: {name: vars(owner)[name] for name in attributes} for owner, attributes in new.items()}
    _put(new)
    try:
        yield
    finally:
        _put(old)


def called(node: Any, source: str | None, phase: str, device: Device | None) -> list[Call | Fused]:  # noqa: ANN401 - an FX node
    """The op that a node of a graph calls; what it launches, for an operator of the layers."""
    schema = node.target._schema  # noqa: SLF001 - the public way to a schema
    args, kwargs = value_of(node.args), value_of(node.kwargs)
    values = in_order(schema, tuple(args), dict(kwargs))
    space, _, name = schema.name.partition("::")
    if space == "foretrace":
        found = _launched_by(name, values, device)
    else:
        found = _in_parts(name, values, device) or [described(schema.name, values, source, phase)]
    return [replace(one, source=source, phase=phase) for one in found]


def _in_parts(name: str, values: Sequence[Any], device: Device | None) -> list[Call | Fused]:
    """What one of PyTorch's own ops over a whole layer calls; nothing for other ops."""
    if name not in WHOLE_LAYERS:
        return []
    with recording() as recorder, device_attention(device), torch.no_grad():
        in_parts(name, recorder)(*(_of_this_call(value) for value in values))
    return recorder.calls


def _launched_by(operator: str, values: Sequence[Any], device: Device | None) -> list[Call | Fused]:
    from foretrace.fused import ops  # noqa: PLC0415 - as above

    with recording() as recorder, fused_layers(device, recorder):
        given = [_of_this_call(value) for value in values]
        getattr(ops, operator)._init_fn(*given)  # noqa: SLF001 - what PyTorch keeps of a custom operator's own code
    return recorder.calls


def _of_this_call(value: Any) -> Any:  # noqa: ANN401 - any argument
    """A tensor with the sizes that it has now, where a compiler has made them symbols."""
    if not isinstance(value, torch.Tensor):
        return value
    return value.new_empty_strided([int(n) for n in value.shape], [int(n) for n in value.stride()])


def _put(attributes: dict[Any, dict[str, Any]]) -> None:
    for owner, names in attributes.items():
        for name, value in names.items():
            setattr(owner, name, value)


class _There:
    """The functions of ``foretrace.fused.plan`` and ``paths`` on a device that is not here; M rows, K dim, N hidden."""

    def __init__(self, device: Device, recorder: Recorder, original: dict[str, Any]) -> None:
        self._device, self._recorder, self._original = device, recorder, original

    def _add(self, name: str, *tensors: Tensor | None) -> None:
        self._recorder.add(f"foretrace::{name}", [t for t in tensors if t is not None])

    def _path(self, x: Tensor, dim: int, hidden: int, *, training: bool, biased: bool) -> str:
        from foretrace.fused import plan  # noqa: PLC0415 - as above

        device, rows = self._device, x.shape[0]
        return plan.explain_on(
            device.name, rows, dim, hidden,
            capability=device.compute_capability, training=training, dtype=x.dtype, bias=biased,
        ).path  # fmt: skip

    def path_for(self, x_MK: Tensor, weights: Weights, *, training: bool) -> str:
        hidden, dim = weights.gate.shape
        return self._path(x_MK, dim, hidden, training=training, biased=any(b is not None for b in weights[3:]))

    def backward_path_for(self, dy_MK: Tensor, gate_up_M2N: Tensor | None, down_KN: Tensor | None) -> str:
        if down_KN is None or gate_up_M2N is None:
            return "pointwise"
        return self._path(dy_MK, *down_KN.shape, training=True, biased=False)

    def _few_rows(self, _path: str, x_MK: Tensor, w: Weights, _activation: str) -> Tensor:
        self._add("gate_up", x_MK, w.gate, w.up)
        self._add("down", x_MK, w.down)
        return torch.empty_like(x_MK)

    def _whole(self, x_MK: Tensor, w: Weights, _activation: str, _order: Schedule, **_: object) -> Tensor:
        self._add("gated_mlp", x_MK, w.gate, w.up, w.down)
        return torch.empty_like(x_MK)

    def _hidden(
        self, path: str, x_MK: Tensor, w: Weights, activation: str, saved: tuple[Tensor, Tensor] | None
    ) -> Tensor:
        if path == "pointwise":
            hidden: Tensor = self._original["_hidden"](path, x_MK, w, activation, saved)
            return hidden
        self._add("gated_forward", x_MK, w.gate, w.up, *(saved or ()))
        return x_MK.new_empty(x_MK.shape[0], w.gate.shape[0])

    def _inner(
        self, path: str, dy_MK: Tensor, gate_MN: Tensor, up_MN: Tensor, down_weight_KN: Tensor, *_: object,
        keep_hidden: bool,
    ) -> Tensor | None:  # fmt: skip
        hidden = gate_MN.new_empty(gate_MN.shape) if keep_hidden or path == "fused" else None
        if path == "fused":
            self._add("gated_backward", dy_MK, down_weight_KN, gate_MN, up_MN)
        else:
            self._add("pointwise_backward", torch.mm(dy_MK, down_weight_KN), gate_MN, up_MN, hidden)
        return hidden

    def glu(self, gate: Tensor, up: Tensor, _activation: str) -> Tensor:
        self._add("pointwise", gate, up)
        return torch.empty_like(gate)

    def glu_backward(self, dout: Tensor, gate: Tensor, up: Tensor, _activation: str) -> tuple[Tensor, Tensor]:
        self._add("pointwise_backward", dout, gate, up)
        return torch.empty_like(gate), torch.empty_like(up)
