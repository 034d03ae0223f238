"""Put the names of modules into a trace: one ``record_function`` scope around each module's forward.

A scope is called ``nn.Module: `` and the name that ``named_modules()`` gives (``nn.Module: layers.0.mlp.gate_proj``);
the outermost module, which has no name there, goes by its class (``nn.Module: Llama``). The prefix is a contract with
those who read the trace, because the reading side never imports this room.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import torch
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch.autograd.profiler import record_function
    from torch.utils.hooks import RemovableHandle

PREFIX = "nn.Module: "


class ModuleScopes:
    """The scopes of one module and of all inside it, there from `install` to `remove`.

    Modules that are compiled or scripted, and what is inside them, get none: a hook there would become a part of the
    graph (or break it), and what is fused has no module of its own.

    Args:
        module: The outermost module.

    """

    def __init__(self, module: nn.Module) -> None:
        self._modules = tuple((PREFIX + (name or type(module).__name__), part) for name, part in _open_modules(module))
        self._open = _OpenScopes()
        self._handles: list[RemovableHandle] = []

    @property
    def count(self) -> int:
        """How many modules have a scope."""
        return len(self._modules)

    def install(self) -> None:
        """Hook every module; harmless when they are hooked already."""
        if not self._handles:
            for scope, module in self._modules:
                self._hook(module, scope)

    def remove(self) -> None:
        """Take all hooks away; the module is as before. Harmless when called again."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _hook(self, module: nn.Module, scope: str) -> None:
        def enter(module: nn.Module, _args: object) -> None:
            self._open.push(module, torch.profiler.record_function(scope))

        def leave(module: nn.Module, _args: object, _output: object) -> None:
            self._open.pop(module)

        # first in and last out, so that other hooks' work is inside; always_call: also when forward raises
        self._handles.append(module.register_forward_pre_hook(enter, prepend=True))
        self._handles.append(module.register_forward_hook(leave, always_call=True))


class _OpenScopes(threading.local):
    """The scopes that are open, innermost last; one list a thread, as checkpointing runs forwards in backward's."""

    def __init__(self) -> None:
        self.stack: list[tuple[nn.Module, record_function]] = []

    def push(self, module: nn.Module, scope: record_function) -> None:
        scope.__enter__()  # type: ignore[no-untyped-call]
        self.stack.append((module, scope))

    def pop(self, module: nn.Module) -> None:
        # a pre-hook that raised before ours leaves nothing of ours to close
        if self.stack and self.stack[-1][0] is module:
            self.stack.pop()[1].__exit__(None, None, None)


def _open_modules(root: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """``named_modules()`` without those that are compiled or scripted; a shared module goes by its first name."""
    seen: set[int] = set()
    waiting = [("", root)]
    while waiting:
        name, module = waiting.pop()
        if id(module) in seen or _is_closed(module):
            continue
        seen.add(id(module))
        yield name, module
        children = [(f"{name}.{key}" if name else key, child) for key, child in module.named_children()]
        waiting.extend(reversed(children))


def _is_closed(module: nn.Module) -> bool:
    if isinstance(module, torch.jit.ScriptModule):
        return True
    # torch.compile(module) wraps it and keeps the original; module.compile() sets the call implementation
    return hasattr(module, "_orig_mod") or getattr(module, "_compiled_call_impl", None) is not None
