"""Where code looks at data, and what it is told: a guess has sizes only, so `.item()` and its like get one number."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import contextmanager
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode

from foretrace.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from foretrace.guess.record import Recorder

MOST_LOOKS = 1_000
"""Looks from one line of one module above which it is taken for a loop that the data would end."""
_OURS = ("torch", "foretrace")


class Numbers(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Answers ``.item()`` and its like where fake tensors do not know: with ``number``, in the tensor's type.

    Args:
        number: The answer.

    Attributes:
        where: Says the phase and the module of a look; an optimizer's looks at its own counters are not noted.
        notes: What was assumed, one text for each place.
    """

    supports_higher_order_operators = True  # as in `Recorder`

    def __init__(self, number: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.where: Callable[[], tuple[str, str | None]] = lambda: ("forward", None)
        self.notes: dict[str, None] = {}
        self._number = number
        self._times: Counter[tuple[str | None, str]] = Counter()

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """PyTorch's question to a mode: Dynamo and Inductor work on their own tensors, which are none of ours."""
        return True

    def restart(self) -> None:
        """Count looks anew; notes stay."""
        self._times.clear()

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        _types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401 - whatever the op returns
        try:
            return func(*args, **(kwargs or {}))
        except DataDependentOutputException:
            if func is torch.ops.aten.equal.default:
                answer: bool | float = bool(self._number)
            elif func is torch.ops.aten._local_scalar_dense.default:  # noqa: SLF001 - the op behind `.item()`
                answer = _number_like(args[0], self._number)
            else:
                raise
            self._note(answer)
            return answer

    def _note(self, answer: bool | float) -> None:  # noqa: FBT001 - a number of any kind
        phase, source = self.where()
        if phase == "optimizer":
            return
        place = _place()
        looker = f"`{source}` ({place})" if source else place
        self.notes[f"{looker} looks at data, which a guess has none of: {answer} was assumed"] = None
        self._times[source, place] += 1
        if self._times[source, place] > MOST_LOOKS:
            raise InputError(
                f"{looker} looked at data {MOST_LOOKS:,} times: the loop depends on data, and a guess has sizes only",
                hint="guess one iteration of it, or profile it instead",
            )


@contextmanager
def lists_at_once(recorder: Recorder) -> Iterator[None]:
    """``tolist()`` copies the whole tensor and looks once, as on a device; fake tensors look at each element."""
    original: Any = FakeTensor.tolist

    def tolist(self: FakeTensor) -> Any:  # noqa: ANN401 - a number, or nested lists of it
        if self.dim() == 0 or self.constant is not None or recorder.paused:
            return original(self)
        recorder.add("aten::_to_copy", [self, None, None, None, None, False, None])
        recorder.paused = True
        try:
            number = self.new_empty(()).item()
        finally:
            recorder.paused = False
        return _nested(list(self.shape), number)

    fake: Any = FakeTensor
    fake.tolist = tolist
    try:
        yield
    finally:
        fake.tolist = original


def _nested(shape: list[int], number: float) -> Any:  # noqa: ANN401 - as above
    return [_nested(shape[1:], number) for _ in range(shape[0])] if shape else number


def _number_like(tensor: torch.Tensor, number: int) -> bool | int | float:
    """``number`` as what the tensor's ``.item()`` would be."""
    if tensor.dtype == torch.bool:
        return bool(number)
    return float(number) if tensor.dtype.is_floating_point else number


def _place() -> str:
    """File and line of the innermost code that is neither PyTorch's nor ours."""
    frame = sys._getframe(1)  # noqa: SLF001 - the one way to the caller
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in _OURS:
        frame = frame.f_back
    return f"{PurePath(frame.f_code.co_filename).name}:{frame.f_lineno}"
