"""A model of what Inductor fuses, for when its own decision cannot be had (another version, an op that it refuses).

Ops with a library's kernel (products, convolutions, attention, sorts, scatters) are kernels of their own and give
their results one level more than their inputs have. Everything else that computes may wait for the level on which it is
first read, and is fused with what it is connected to on that level. On the articles' MLP, forward and backward, that
gives the groups that Inductor gives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from foretrace.guess.fused_layers import called
from foretrace.guess.record import Fused
from foretrace.ops import launches_nothing, work

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import torch

    from foretrace.devices import Device
    from foretrace.guess.record import Call

_LIBRARY = frozenset({"gemm", "conv", "attention", "sort", "scan", "gather-scatter", "fft", "other"})


def decide(graph: torch.fx.GraphModule, phase: str, device: Device | None) -> list[Call | Fused]:
    """The kernels of a graph in ATen ops, in the order of their first op.

    Args:
        graph: With the fake results of its nodes in ``meta["val"]``.
        phase: ``forward`` or ``backward``.
        device: The device that the guess is about.
    """
    level = _levels(graph.graph.nodes)
    group: dict[Any, list[Any]] = {}
    for node in graph.graph.nodes:
        if node.op != "call_function" or (not _is_view(node) and _class(node) in _LIBRARY):
            group[node] = []
            continue
        near = [group[source] for source in node.all_input_nodes if level[source] == level[node] or _is_view(node)]
        members = _joined(near)
        if not _is_view(node):
            members.append(node)
            for member in members:
                group[member] = members
        group[node] = members
    return [item for node in graph.graph.nodes for item in _kernels(node, group, phase, device)]


def _levels(nodes: Iterable[Any]) -> dict[Any, int]:
    """How many library kernels must have run before each node runs, at its earliest; then as late as it is read."""
    level: dict[Any, int] = {}
    ordered = list(nodes)
    for node in ordered:
        ready = max((level[source] for source in node.all_input_nodes), default=0)
        library = node.op == "call_function" and not _is_view(node) and _class(node) in _LIBRARY
        level[node] = ready + 1 if library else ready
    for node in reversed(ordered):
        if node.op != "call_function" or (not _is_view(node) and _class(node) in _LIBRARY):
            continue
        readers = [user for user in node.users if user.op == "call_function"]
        by_library = [level[user] - 1 for user in readers if not _is_view(user) and _class(user) in _LIBRARY]
        by_others = [level[user] for user in readers if _is_view(user) or _class(user) not in _LIBRARY]
        if by_others:
            level[node] = max(level[node], min(by_others + by_library))
    return level


def _joined(groups: Iterable[list[Any] | None]) -> list[Any]:
    """One list with the members of all, each once."""
    return list(dict.fromkeys(node for some in groups if some for node in some))


def _kernels(
    node: Any,  # noqa: ANN401 - an FX node
    group: dict[Any, list[Any]],
    phase: str,
    device: Device | None,
) -> Iterator[Call | Fused]:
    if node.op != "call_function" or _is_view(node):
        return
    if _class(node) in _LIBRARY:
        yield from called(node, None, phase, device)
        return
    members = group[node]
    if members[0] is not node:
        return
    ops = tuple(sorted({_name(member) for member in members}))
    reduces = any(_class(member) in {"reduction", "normalization", "softmax"} for member in members)
    kind = "red" if reduces else "poi"
    name = "_".join([f"triton_{kind}_fused", *ops])
    yield Fused(name, "reduction" if reduces else "pointwise", ops, None, None, None, phase)


def _is_view(node: Any) -> bool:  # noqa: ANN401 - an FX node
    schema = getattr(node.target, "_schema", None)
    return schema is None or launches_nothing(schema.name) or _name(node) in {"reshape", "getitem"}


def _class(node: Any) -> str:  # noqa: ANN401 - an FX node
    done = work(node.target._schema.name, None, None)  # noqa: SLF001 - the public way to a schema
    return done.op_class if done is not None else "pointwise"


def _name(node: Any) -> str:  # noqa: ANN401 - an FX node
    original = node.meta.get("original_aten") or node.target
    return str(getattr(original, "_overloadpacket", original).__name__)
