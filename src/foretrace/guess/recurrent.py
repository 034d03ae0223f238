"""Recurrent networks as an accelerator runs them: a whole one by cuDNN or MIOpen in one op, a cell by a fused kernel.

The CPU takes them apart, or hands them to oneDNN, under names that no GPU trace has
(``aten/src/ATen/native/RNN.cpp`` chooses).
"""

from __future__ import annotations

import math
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from foretrace.devices import Device
    from foretrace.guess.record import Recorder

_MODES = {"rnn_relu": 0, "rnn_tanh": 1, "lstm": 2, "gru": 3}
"""cuDNN's numbers of them."""
_CELLS = {
    "lstm_cell": ("_thnn_fused_lstm_cell", "_backward_impl", 1),
    "gru_cell": ("_thnn_fused_gru_cell", "_backward", 2),
}
"""The fused kernel, the end of its backward's name, and how many bias gradients are summed there."""
NETWORKS = ("_cudnn_rnn", "miopen_rnn")
_MATRIX = 2


def flops(shapes: Sequence[Any]) -> int | None:
    """Operations of a whole network: each row of the input meets each weight matrix once, biases aside.

    Args:
        shapes: Sizes of the op's arguments: the input, [..., features], and the list of its weights.
    """
    rows = math.prod(shapes[0][:-1])
    matrices = [shape for shape in shapes[1] if len(shape) == _MATRIX]
    return 2 * rows * sum(map(math.prod, matrices)) if matrices else None


@contextmanager
def device_networks(device: Device | None, recorder: Recorder, *, cells: bool) -> Iterator[None]:
    """What ``nn.LSTM``, ``nn.GRU`` and ``nn.RNN`` call is the named device's; so for their cells if ``cells``.

    Dynamo leaves the networks alone, while Inductor fuses the cells itself.
    """
    vf: Any = torch._VF  # noqa: SLF001 - where the modules look their functions up
    made = {name: _network(name, device, recorder) for name in _MODES}
    made |= {name: _cell(name, recorder) for name in _CELLS if cells}
    for name, function in made.items():
        # loads Dynamo, which eager guesses do without
        setattr(vf, name, function if cells else torch.compiler.disable(function))  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        for name in made:
            delattr(vf, name)  # they are looked up elsewhere again


def _network(name: str, device: Device | None, recorder: Recorder) -> Callable[..., Any]:
    on_amd = device is not None and device.vendor == "AMD"
    op, library = ("miopen_rnn", "MIOpen") if on_amd else ("_cudnn_rnn", "cuDNN")

    def network(x: torch.Tensor, second: Any, third: Any, *rest: Any) -> Any:  # noqa: ANN401 - two signatures
        packed = isinstance(rest[0], list | tuple)
        (sizes, hidden, weights), rest = (
            ((second, third, rest[0]), rest[1:]) if packed else ((None, second, third), rest)
        )
        has_biases, layers, dropout, train, bidirectional, *more = rest
        states = list(hidden) if name == "lstm" else [hidden]
        width, inner = states[0].shape[-1], states[-1].shape[-1]  # an LSTM may project its states
        shapes = [(*x.shape[:-1], width * (2 if bidirectional else 1)), *(state.shape for state in states)]
        given = [x, list(weights), 4 if has_biases else 2, None, states[0], states[1] if name == "lstm" else None]
        given += [
            _MODES[name],
            inner,
            width if width != inner else 0,
            layers,
            bool(more and more[0]),
            dropout,
            train,
            bidirectional,
        ]
        recorder.notes[f"{library} runs a whole `{name}` as `aten::{op}`: how many kernels that is cannot be told"] = (
            None
        )

        def backward(*grads: torch.Tensor | None) -> None:
            recorder.add(f"aten::{op}_backward", [*given[:6], *grads])

        recorder.add(f"aten::{op}", [*given, sizes, None])
        return _Ran.apply(shapes, backward, x, *states, *weights)  # type: ignore[no-untyped-call]

    return network


def _cell(name: str, recorder: Recorder) -> Callable[..., Any]:
    op, ending, sums = _CELLS[name]

    def cell(x: torch.Tensor, hidden: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:  # noqa: ANN401 - tensors
        states = list(hidden) if name == "lstm_cell" else [hidden]
        gates = [x.matmul(w_ih.t()), states[0].matmul(w_hh.t())]
        recorder.add(f"aten::{op}", [*gates, states[-1], b_ih, b_hh])

        def backward(*grads: torch.Tensor | None) -> None:
            recorder.add(f"aten::{op}{ending}", [*grads, states[-1]])
            for _ in range(sums if b_ih is not None else 0):
                recorder.add("aten::sum", [gates[0], [0], False, None])

        results = _Ran.apply([state.shape for state in states], backward, *gates, *states, b_ih, b_hh)  # type: ignore[no-untyped-call]
        return results if name == "lstm_cell" else results[0]

    return cell


class _Ran(torch.autograd.Function):
    """Empty results of the given sizes, in the first tensor's type, for what was recorded by name."""

    @staticmethod
    def forward(ctx: Any, shapes: Any, backward: Callable[..., None], *tensors: torch.Tensor | None) -> Any:  # noqa: ANN401 - autograd's own
        """Any tensors → results of ``shapes``."""
        ctx.set_materialize_grads(False)
        ctx.ran, ctx.tensors = backward, tensors
        first = next(tensor for tensor in tensors if tensor is not None)
        return tuple(first.new_empty(shape) for shape in shapes)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:  # noqa: ANN401 - autograd's own
        """Gradients of all that need one."""
        ctx.ran(*grads)
        wanted = zip(ctx.tensors, ctx.needs_input_grad[2:], strict=True)
        return None, None, *(torch.empty_like(tensor) if needed else None for tensor, needed in wanted)
