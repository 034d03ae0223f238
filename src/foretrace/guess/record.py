"""What a call dispatches: every op below autograd, with its arguments as a trace would hold them and its module."""

from __future__ import annotations

import warnings
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode

from foretrace.guess.sizes import assumed
from foretrace.ops import Tensor, launches_nothing, short_dtype, work

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NO_WORK = frozenset({"prim", "profiler", "debugprims", "streams"})
"""Namespaces whose ops put nothing on the device."""


_KEYS: Any = torch._C.DispatchKey  # noqa: SLF001 - nothing public names them
_IN_PARTS = frozenset({"binary_cross_entropy_with_logits", "logsumexp", "isinf", "block_diag"})
"""Ops of the table that are others' work on every device, and of which a trace has those others."""
_INDEXED = frozenset(
    {"aten::index", "aten::_unsafe_index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_"}
)


@dataclass(frozen=True, slots=True)
class Call:
    """One dispatched op.

    Attributes:
        op: ``aten::mm``.
        shapes, dtypes, concrete, strides: Its arguments in the order of its schema, as Kineto records them, with the
            element types of lists.
        source: Name of the module that called it, or whose forward it is the backward of; ``None`` outside modules.
        phase: ``forward``, ``backward`` or ``optimizer``.
        weight_bytes: Bytes of its tensors that are parameters or buffers: they do not grow with the batch.
        on_host: Whether its tensors are the optimizer's step counters, which stay on the CPU.
        hint: What ATen's own metadata say: ``view`` (its results alias an argument), ``pointwise`` (tagged so), or
            ``None``.
        results: Sizes and types of the tensors that it returned, where it was run.
    """

    op: str
    shapes: list[Any]
    dtypes: list[Any]
    concrete: list[Any]
    strides: list[Any]
    source: str | None
    phase: str
    weight_bytes: int
    on_host: bool
    hint: str | None
    results: tuple[Tensor, ...] = ()


@dataclass(frozen=True, slots=True)
class Fused:
    """One kernel that Inductor would generate.

    Attributes:
        name: As in a trace, without the number at its end.
        op_class: ``pointwise`` or ``reduction``.
        ops: The ops whose work it does, as its name lists them.
        moved_bytes: Bytes read and written.
        dtype: Type of its first result.
        source, phase: As in `Call`.
    """

    name: str
    op_class: str
    ops: tuple[str, ...]
    moved_bytes: int | None
    dtype: str | None
    source: str | None
    phase: str


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records every op while it is entered; use `recording`."""

    supports_higher_order_operators = True  # PyTorch's question to a mode: they are passed on, their ops recorded

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[Call | Fused] = []
        self.paused = False
        self.notes: dict[str, None] = {}
        self._names: dict[int, str] = {}
        self._roots: list[torch.nn.Module] = []
        self._weights: set[int] = set()
        self._modules: list[str] = []
        self._optimizers: list[tuple[str, bool]] = []
        self._forward_of: dict[int, str | None] = {}
        self.optimized = False

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """PyTorch's question to a mode: Dynamo and Inductor work on their own tensors, which are none of ours."""
        return True

    def __torch_dispatch__(
        self,
        func: Any,  # noqa: ANN401 - an `OpOverload`, which has no stub
        _types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401 - whatever the op returns
        kwargs = kwargs or {}
        schema = getattr(func, "_schema", None)
        if self.paused or schema is None or schema.name.partition("::")[0] in NO_WORK:
            return func(*args, **kwargs)
        if schema.name in _INDEXED:
            args = (args[0], self._positions(args[1]), *args[2:])
        hint = _hint(func)
        composed = _composed(func, schema, hint)
        if composed is not None:
            with self:  # its parts are recorded in its stead
                return func._op_dk(composed, *args, **kwargs)  # noqa: SLF001 - nothing public asks for one kernel
        call = self.add(schema.name, in_order(schema, args, kwargs), hint)
        if schema.name == "aten::nonzero":
            return self._found(args[0])
        if schema.name == "aten::masked_select":
            return args[0].new_empty(self._found(args[1]).shape[0])
        results = None if torch.compiler.is_compiling() else self._assumed(schema, args, kwargs)
        if results is None:
            results = func(*args, **kwargs)
        if any(argument.is_out for argument in schema.arguments):  # an empty one is now as large as the result
            now = described(call.op, in_order(schema, args, kwargs), call.source, call.phase)
            call = replace(call, shapes=now.shapes, strides=now.strides)
        self.calls[-1] = replace(call, results=_written(results))
        return results

    def _assumed(self, schema: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: ANN401 - as above
        if schema.overload_name == "Tensor" and kwargs.get("output_size") is not None:
            return None  # somebody said it
        return assumed(schema.name, in_order(schema, args, kwargs), self.notes)

    def _found(self, mask: torch.Tensor) -> torch.Tensor:
        """What ``nonzero`` would find, [found, dim]: with nobody to say how many, all elements."""
        self.notes["how many elements a mask keeps depends on data: all were assumed"] = None
        return mask.new_empty((mask.numel(), mask.dim()), dtype=torch.long)

    def _positions(self, indices: Sequence[torch.Tensor | None]) -> list[torch.Tensor | None]:
        """Indices with every mask turned into positions, as indexing on a device does first."""
        positions: list[torch.Tensor | None] = []
        for index in indices:
            if index is None or index.dtype not in {torch.bool, torch.uint8}:
                positions.append(index)
                continue
            self.add("aten::nonzero", [index])
            positions += self._found(index).unbind(1)
        return positions

    def add(self, op: str, values: Sequence[Any], hint: str | None = None) -> Call:
        """Record a call of ``op`` with ``values`` for its arguments."""
        phase, source = self.where()
        tensors = list(_tensors(values))
        weights = sum(self._weight_bytes(tensor) for tensor in tensors)
        on_host = phase == "optimizer" and self._on_host(tensors)
        call = described(op, values, source, phase, weight_bytes=weights, on_host=on_host, hint=hint)
        self.calls.append(call)
        return call

    def where(self) -> tuple[str, str | None]:
        """The phase, and the module that runs now or whose forward's backward runs."""
        node: Any = torch._C._current_autograd_node()  # noqa: SLF001 - nothing public tells
        if node is not None:
            return "backward", self._forward_of.get(node._sequence_nr())  # noqa: SLF001 - as above
        if self._optimizers:
            return "optimizer", self._optimizers[-1][0]
        source = self._modules[-1] if self._modules else None
        if torch.is_grad_enabled():  # the op's autograd node has taken the last number; others share the next one
            self._forward_of.setdefault(torch.autograd._get_sequence_nr() - 1, source)  # type: ignore[attr-defined]  # noqa: SLF001 - as above
        return "forward", source

    def _weight_bytes(self, tensor: torch.Tensor) -> int:
        known = _storage(tensor) in self._weights
        return tensor.numel() * tensor.element_size() if known else 0

    def _on_host(self, tensors: Sequence[torch.Tensor]) -> bool:
        return not self._optimizers[-1][1] and all(tensor.dim() == 0 for tensor in tensors)

    def enter_module(self, module: torch.nn.Module, _args: object) -> None:
        """Before a forward; the first module that is called names all that are inside it.

        One that is in none of these, as what a forward makes on its way, goes by its caller's name.
        """
        known = self._names.get(id(module)) or (self._modules[-1] if self._modules else None)
        if known is None:
            self._roots.append(module)  # kept, so that no other module has its id
            for name, part in module.named_modules():
                self._names.setdefault(
                    id(part), name.removeprefix("_orig_mod").removeprefix(".") or type(part).__name__
                )
            if not torch.compiler.is_compiling():  # Dynamo follows a hook into its graph, and cannot follow this
                self._weigh(module)
        self._modules.append(known or self._names[id(module)])

    def _weigh(self, module: torch.nn.Module) -> None:
        storages = {_storage(tensor) for tensor in (*module.parameters(), *module.buffers())}
        self._weights |= {storage for storage in storages if storage is not None}

    def leave_module(self, _module: torch.nn.Module, _args: object, _output: object) -> None:
        """After a forward, also when it raised."""
        self._modules.pop()

    def enter_optimizer(self, optimizer: torch.optim.Optimizer, _args: object, _kwargs: object) -> None:
        """Before a step: what is left open works on lists of tensors, as it does on an accelerator."""
        self.optimized = True
        on_device = any(group.get("capturable") or group.get("fused") for group in optimizer.param_groups)
        self._optimizers.append((type(optimizer).__name__, on_device))
        for group in optimizer.param_groups:
            if group.get("foreach", False) is None and not group.get("fused"):
                group["foreach"] = True

    def leave_optimizer(self, _optimizer: torch.optim.Optimizer, _args: object, _kwargs: object) -> None:
        """After a step."""
        self._optimizers.pop()


@contextmanager
def recording() -> Iterator[Recorder]:
    """Record what is dispatched inside, with the names of modules."""
    recorder = Recorder()
    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", message="Using `torch.compile")  # the hooks below are ours
        for handle in (
            register_module_forward_pre_hook(recorder.enter_module),
            register_module_forward_hook(recorder.leave_module, always_call=True),
            register_optimizer_step_pre_hook(recorder.enter_optimizer),
            register_optimizer_step_post_hook(recorder.leave_optimizer),
        ):
            stack.callback(handle.remove)
        stack.enter_context(recorder)
        yield recorder


def described(
    op: str,
    values: Sequence[Any],
    source: str | None,
    phase: str,
    *,
    weight_bytes: int = 0,
    on_host: bool = False,
    hint: str | None = None,
) -> Call:
    """The `Call` of ``op`` with ``values`` for its arguments in the order of its schema."""
    shapes, dtypes, concrete, strides = zip(*map(_described, values), strict=True) if values else ((),) * 4
    arguments = (list(shapes), list(dtypes), list(concrete), list(strides))
    return Call(op, *arguments, source, phase, weight_bytes, on_host, hint)


def value_of(argument: Any) -> Any:  # noqa: ANN401 - a tree of FX nodes and numbers
    """An argument of a node with the fake results of other nodes in their place."""
    return torch.fx.map_arg(argument, lambda node: node.meta.get("val"))


def in_order(schema: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:  # noqa: ANN401 - no stub has it
    """The op's arguments in the order of its schema, defaults filled in, as Kineto sees them."""
    values = []
    for position, argument in enumerate(schema.arguments):
        if position < len(args):
            values.append(args[position])
        else:
            values.append(kwargs.get(argument.name, argument.default_value))
    return values


def _hint(func: Any) -> str | None:  # noqa: ANN401 - no stub has it
    returned = [result.alias_info for result in func._schema.returns]  # noqa: SLF001 - the public way to a schema
    if returned and all(alias is not None and not alias.is_write for alias in returned):
        return "view"
    return "pointwise" if torch.Tag.pointwise in func.tags else None


def _composed(func: Any, schema: Any, hint: str | None) -> Any:  # noqa: ANN401 - as above
    """The kernel of an op that is written in other ops, the same for every device; ``None`` where it works itself.

    Those that autograd takes apart come whole in inference mode. The others are taken apart where the table knows none.
    """
    has: Any = torch._C._dispatch_has_kernel_for_dispatch_key  # noqa: SLF001 - kernels of ATen's own, not of Python's
    if has(func.name(), _KEYS.CompositeImplicitAutograd):
        return _KEYS.CompositeImplicitAutograd
    name = schema.name.partition("::")[2]
    known = hint is not None or work(schema.name, None, None) is not None or launches_nothing(schema.name)
    if (known and name not in _IN_PARTS) or not _returns_something(schema):
        return None
    everywhere = [_KEYS.CompositeExplicitAutograd]
    if name in _IN_PARTS:  # whose results are written by such a kernel too, as `logsumexp.out`
        everywhere.append(_KEYS.CompositeExplicitAutogradNonFunctional)
    return next((key for key in everywhere if has(func.name(), key)), None)


def _returns_something(schema: Any) -> bool:  # noqa: ANN401 - as above
    return bool(schema.returns) and all(str(result.type) in {"Tensor", "bool"} for result in schema.returns)


def _written(results: Any) -> tuple[Tensor, ...]:  # noqa: ANN401 - whatever an op returns
    given = results if isinstance(results, list | tuple) else [results]
    return tuple(
        Tensor(tuple(t.shape), short_dtype(str(t.dtype)), tuple(t.stride()) if t.layout == torch.strided else None)
        for t in _tensors(given)
    )


def _described(value: Any) -> tuple[Any, Any, str, Any]:  # noqa: ANN401 - any argument
    """Shape, type, text and strides of one argument."""
    if isinstance(value, torch.Tensor):
        return list(value.shape), str(value.dtype), "", list(value.stride())
    if isinstance(value, list | tuple) and value and any(isinstance(item, torch.Tensor) for item in value):
        shapes, dtypes, _, strides = zip(*map(_described, value), strict=True)
        return list(shapes), list(dtypes), "", list(strides)
    if value is None:
        return [], "", "", []
    if isinstance(value, torch.dtype):
        return [], "Scalar", str(value), []
    kind = "ScalarList" if isinstance(value, list | tuple) else "Scalar" if isinstance(value, int | float) else ""
    return [], kind, str(list(value) if isinstance(value, tuple) else value), []


def _storage(tensor: torch.Tensor) -> int | None:
    """The storage that a tensor shares with its views; ``None`` for one without, as sparse ones and functorch's are."""
    try:
        return int(tensor.untyped_storage()._cdata)  # noqa: SLF001 - nothing public tells them apart
    except (NotImplementedError, RuntimeError):
        return None


def _tensors(values: Sequence[Any]) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)
