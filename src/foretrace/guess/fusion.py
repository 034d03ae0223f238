"""The compiled guess: PyTorch's own compiler, run on fake tensors up to its decision what to fuse, and no further.

Dynamo captures the graphs and AOTAutograd splits forward from backward as always; Inductor lowers and schedules each
graph with its Triton backend on the CPU and is stopped in ``_post_fusion_custom_pass``, before it generates code. The
groups of nodes that it has then are the kernels. A GPU's decisions are asked for by counting ``cpu`` among Inductor's
GPU types and giving it the named device's number of SMs.
"""

from __future__ import annotations

import re
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any

import torch
from torch._dynamo.device_interface import CpuInterface
from torch._inductor import compile_fx, config, scheduler
from torch._inductor import utils as inductor

from foretrace.guess import record
from foretrace.guess.fused_layers import called
from foretrace.guess.record import Fused
from foretrace.ops.dtypes import short_dtype

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from foretrace.devices import Device
    from foretrace.guess.record import Call

_STEP = re.compile(r"\['?([^'\]]+)'?\]|(\w+)")
_DEFAULT_SMS = 132
_LONGEST_ROW = 1_024


class _StopHere(BaseException):
    """Leaves Inductor once it has decided what to fuse; none of its own handlers may take it."""


def decide(
    graph: torch.fx.GraphModule, inputs: Sequence[Any], device: Device | None, options: dict[str, Any]
) -> list[Call | Fused]:
    """What Inductor would launch for one graph of AOTAutograd's.

    Args:
        graph: Forward or backward, in ATen ops; changed by Inductor's passes.
        inputs: Its fake inputs.
        device: The device that the guess is about.
        options: What ``compile_fx`` passes to its ``inner_compile``.
    """
    phase = "backward" if options.get("is_backward") else "forward"
    launched: list[Call | Fused] = []

    def stop(nodes: list[Any]) -> list[Any]:
        launched.extend(item for node in nodes for item in _launched(node, phase, device))
        raise _StopHere

    with _as_gpu(device), config.patch(_post_fusion_custom_pass=stop), suppress(_StopHere):
        compile_fx.compile_fx_inner(graph, inputs, **options)
    return launched


def compile_graph(
    graph: torch.fx.GraphModule, inputs: Sequence[Any], inner: Callable[..., Any], patches: dict[str, Any] | None
) -> Callable[..., Any]:
    """Inductor's way from a graph of Dynamo's to those of AOTAutograd, with ``inner`` for each of these."""
    compiled: Any = compile_fx.compile_fx(graph, inputs, inner_compile=inner, config_patches=patches)
    return compiled  # type: ignore[no-any-return]


@contextmanager
def _as_gpu(device: Device | None) -> Iterator[None]:
    sms = (device.sms if device is not None else None) or _DEFAULT_SMS
    worker: Any = CpuInterface.Worker
    original = worker.get_device_properties
    with ExitStack() as stack:
        stack.enter_context(config.patch(cpu_backend="triton", fx_graph_cache=False))
        inductor.GPU_TYPES.append("cpu")
        stack.callback(inductor.GPU_TYPES.remove, "cpu")
        stack.enter_context(_backend_of_cpu())
        worker.get_device_properties = staticmethod(lambda _=None: type(original())(sms))
        stack.callback(setattr, worker, "get_device_properties", staticmethod(original))
        yield


@contextmanager
def _backend_of_cpu() -> Iterator[None]:
    """The one place that must know the CPU for what it is: where a device's code generator is made."""
    original = scheduler.Scheduler.create_backend

    def create(self: Any, device: torch.device) -> Any:  # noqa: ANN401 - Inductor's own
        inductor.GPU_TYPES.remove("cpu")
        try:
            return original(self, device)
        finally:
            inductor.GPU_TYPES.append("cpu")

    scheduler.Scheduler.create_backend = create  # type: ignore[method-assign]
    try:
        yield
    finally:
        scheduler.Scheduler.create_backend = original  # type: ignore[method-assign]


# nodes of Inductor's schedule → what they launch


def _launched(node: Any, phase: str, device: Device | None) -> Iterator[Call | Fused]:  # noqa: ANN401 - Inductor's own
    if isinstance(node, scheduler.NopKernelSchedulerNode):
        return
    if isinstance(node, scheduler.GroupedSchedulerNode):
        for part in node.snodes:
            yield from _launched(part, phase, device)
    elif node.is_extern():
        yield from _extern(node.node, phase, device)
    else:
        yield _fused(node, phase)


def _extern(node: Any, phase: str, device: Device | None) -> Iterator[Call | Fused]:  # noqa: ANN401 - as above
    """The op that Inductor takes from a library, or what a fused layer's operator launches; nothing for a view."""
    name = str(getattr(node, "python_kernel_name", None) or "")
    wanted = _schema_name(getattr(node, "op_overload", None)).partition("::")[2]
    wanted = wanted or name.removeprefix("extern_kernels.").partition(".")[0]
    origins = [origin for origin in node.get_origins() if origin.op == "call_function"]
    for origin in origins:
        space, _, called_op = _schema_name(origin.target).partition("::")
        if space in record.NO_WORK:
            return
        if called_op == wanted:
            yield from called(origin, _module([origin]), phase, device)
            return
    if name:
        values = [torch.empty(_sizes(i.get_size()), dtype=i.get_dtype()) for i in node.inputs if hasattr(i, "get_size")]
        yield record.described(f"aten::{wanted}", values, _module(origins), phase)


def _schema_name(op: Any) -> str:  # noqa: ANN401 - an `OpOverload`, or anything else that a node can call
    schema = getattr(op, "_schema", None)
    return str(schema.name) if schema is not None else ""


def _sizes(sizes: Sequence[Any]) -> list[int]:
    return [int(size) for size in sizes]


def _fused(node: Any, phase: str) -> Fused:  # noqa: ANN401 - Inductor's own
    nodes = node.get_nodes()
    origins = [origin for part in nodes if part.node is not None for origin in part.node.get_origins()]
    ops = {_original(origin) for origin in origins} - {None}
    kind = "for" if node.is_foreach() else "tem" if node.is_template() else _kind(node)
    outputs = [output for part in nodes for output in part.get_outputs()]
    return Fused(
        name="_".join([f"triton_{kind}", "fused", *sorted(op for op in ops if op)]),
        op_class="reduction" if node.is_reduction() else "pointwise",
        ops=tuple(sorted(op for op in ops if op)),
        moved_bytes=_bytes(node),
        dtype=short_dtype(str(outputs[-1].node.get_dtype())) if outputs else None,
        source=_module(origins),
        phase=phase,
    )


def _kind(node: Any) -> str:  # noqa: ANN401 - Inductor's own
    """``poi``, or for a reduction ``per`` when a block holds its whole row (up to 1,024 elements), else ``red``."""
    if not node.is_reduction():
        return "poi"
    try:
        length = int(node.group[1][1])
    except (AttributeError, IndexError, TypeError):
        return "red"
    return "per" if length <= _LONGEST_ROW else "red"


def _bytes(node: Any) -> int | None:  # noqa: ANN401 - Inductor's own
    try:
        return int(node.get_read_write_buffers_sizes())
    except (AttributeError, NotImplementedError, TypeError):
        return None


def _original(origin: torch.fx.Node) -> str | None:
    """The op that the user's code called, before Inductor took it apart: what kernel names are made of."""
    op = origin.meta.get("original_aten")
    packet = getattr(op, "_overloadpacket", None)
    return packet.__name__ if packet is not None else None


def _module(origins: Sequence[torch.fx.Node]) -> str | None:
    """The innermost module that all ``origins`` come from, as ``named_modules()`` has it (the outermost: its class)."""
    stacks = [origin.meta.get("nn_module_stack") or origin.meta.get("fwd_nn_module_stack") for origin in origins]
    paths = [[(_path(where), kind) for where, kind in stack.values()] for stack in stacks if stack]
    if not paths:
        return None
    shared = [levels[0] for levels in zip(*paths, strict=False) if len({level[0] for level in levels}) == 1]
    if not shared:
        return None
    path, kind = shared[-1]
    return path or str(getattr(kind, "__name__", kind)).rpartition(".")[2]


def _path(where: str) -> str:
    """``L['self'].layers[0].mlp`` → ``layers.0.mlp``."""
    inside = re.sub(r"^L\['?\w+'?\]", "", where).replace("_modules", "")
    return ".".join(bracketed or plain for bracketed, plain in _STEP.findall(inside))
