"""Stands in for ``torch.compile``'s Inductor while a guess runs: it decides as Inductor does, and computes nothing."""

from __future__ import annotations

import copy
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from foretrace.guess.record import described
from foretrace.guess.stage import not_compiled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from foretrace.devices import Device
    from foretrace.guess.record import Call, Fused, Recorder


_SEVERAL = 2


@dataclass(slots=True)
class Compiler:
    """Stands in for Inductor: decides as it does, runs nothing, and reports kernels to the recorder when called.

    Attributes:
        device: The device that the guess is about.
        recorder: Who is told what runs.
        notes: What could not be had from Inductor.
        made: Graphs captured so far; `ran` and `breaks` speak of those that were called since `restart`.
    """

    device: Device | None
    recorder: Recorder | None = None
    made: int = 0
    notes: dict[str, None] = field(default_factory=dict)
    _ran: set[int] = field(default_factory=set)
    _breaks: dict[int, str] = field(default_factory=dict)

    @property
    def ran(self) -> int:
        """Different graphs that were called."""
        return len(self._ran)

    @property
    def breaks(self) -> tuple[str, ...]:
        """Why and where those graphs ended early; without a place where Dynamo gave the whole function up."""
        placed = tuple(dict.fromkeys(self._breaks[graph] for graph in sorted(self._ran) if graph in self._breaks))
        if placed or self.ran < _SEVERAL:
            return placed
        from torch._dynamo.utils import counters  # noqa: PLC0415 - loaded by now

        reasons = (*counters["graph_break"], *counters["unimplemented"])
        return tuple(dict.fromkeys(str(reason).strip().splitlines()[0] for reason in reasons))

    def restart(self) -> None:
        """Forget what was called."""
        self._ran.clear()

    def compile(
        self, graph: torch.fx.GraphModule, inputs: Sequence[Any], patches: dict[str, Any] | None
    ) -> Callable[..., Any]:
        """What Dynamo calls for each graph in the place of ``compile_fx``."""
        from foretrace.guess import fusion  # noqa: PLC0415 - loads Inductor, which eager guesses do without

        self.made += 1
        reason = getattr(graph, "compile_subgraph_reason", None)
        if reason is not None and reason.graph_break:
            self._breaks[self.made] = _break(reason)
        replayed = bool((patches or {}).get("triton.cudagraphs"))
        with self._paused():
            return fusion.compile_graph(graph, inputs, partial(self._inner, self.made, replayed), patches)

    def _inner(
        self,
        number: int,
        replayed: bool,  # noqa: FBT001 - bound by `partial`
        graph: torch.fx.GraphModule,
        inputs: Sequence[Any],
        **options: Any,  # noqa: ANN401 - Inductor's
    ) -> Callable[..., Any]:
        from foretrace.guess import fusion, fusion_model  # noqa: PLC0415 - as above

        runnable = torch.fx.GraphModule(graph, copy.deepcopy(graph.graph))  # Inductor's passes change the other
        with self._paused():
            try:
                launched = fusion.decide(graph, inputs, self.device, options)
            except Exception as error:  # noqa: BLE001 - whatever stops Inductor, the guess goes on
                launched = fusion_model.decide(
                    runnable, "backward" if options.get("is_backward") else "forward", self.device
                )
                why = f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"
                self.notes[f"fusion is modelled, not Inductor's own decision ({why})"] = None
        if replayed:
            launched = [*_copied_inputs(inputs, options.get("static_input_idxs", ())), *launched]
        return _boxed(partial(self._call, number, runnable, launched))

    def _call(
        self, number: int, runnable: torch.fx.GraphModule, launched: Sequence[Call | Fused], args: Sequence[Any]
    ) -> Any:  # noqa: ANN401 - any result
        with self._paused():
            results = runnable(*args)
        self._ran.add(number)
        if self.recorder is not None:
            self.recorder.calls.extend(launched)
        return results

    @contextmanager
    def _paused(self) -> Iterator[None]:
        recorder = self.recorder
        if recorder is None:
            yield
            return
        before, recorder.paused = recorder.paused, True
        try:
            yield
        finally:
            recorder.paused = before


def _copied_inputs(inputs: Sequence[Any], static: Sequence[int]) -> list[Call]:
    """Before a CUDA graph is replayed its inputs are copied to where it was recorded, in one launch."""
    moving = [t for i, t in enumerate(inputs) if i not in static and isinstance(t, torch.Tensor) and t.dim()]
    if not moving:
        return []
    return [described("aten::_foreach_copy_", [moving, moving, False], None, "forward")]


def _boxed(call: Callable[[Sequence[Any]], Any]) -> Callable[..., Any]:
    """AOTAutograd's calling convention: one list, which the callee may empty."""
    call._boxed_call = True  # type: ignore[attr-defined]  # noqa: SLF001 - how the convention is marked
    return call


@contextmanager
def compiling(compiler: Compiler, *, surely: bool) -> Iterator[None]:
    """Whatever calls ``torch.compile`` with Inductor inside is compiled by ``compiler``; ``surely`` says it will."""
    counters = sys.modules.get("torch._dynamo.utils")
    if counters is not None:
        counters.counters.clear()  # so that reasons are this guess's own
    if surely or counters is not None:
        not_compiled()
    wrapper: Any = torch._TorchCompileInductorWrapper  # noqa: SLF001 - what `torch.compile` makes of "inductor"
    original = wrapper.__call__

    def call(self: Any, graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:  # noqa: ANN401 - PyTorch's own
        return compiler.compile(graph, inputs, self.config)

    wrapper.__call__ = call
    try:
        yield
    finally:
        wrapper.__call__ = original
        if compiler.made or surely:  # a call that raised leaves marks too
            torch._dynamo.reset()  # noqa: SLF001 - what was compiled here computes nothing


def _break(reason: Any) -> str:  # noqa: ANN401 - Dynamo's own
    why = str(reason.reason).strip().splitlines()[0]
    if not reason.user_stack:
        return why
    frame = reason.user_stack[-1]
    return f"{why} in {frame.name} ({frame.filename.rpartition('/')[2]}:{frame.lineno})"
