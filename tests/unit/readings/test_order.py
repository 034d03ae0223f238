from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from foretrace.errors import InputError
from foretrace.readings import READINGS, ask

if TYPE_CHECKING:
    from collections.abc import Callable

    from foretrace.run import Run

_ORDER = (
    "window",
    "steps",
    "kernels",
    "chain",
    "metadata",
    "queries",
    "launch",
    "idle",
    "bound",
    "roofline",
    "gemm_choice",
    "variance",
    "compiled",
    "round_trips",
    "modules",
    "memory",
    "graphs",
    "syncs",
    "copies",
    "streams",
    "collectives",
    "first",
)


def test_readers_order() -> None:
    """The questions stand in the order in which a careful reader asks them, each once."""
    names = [reading.question for reading in READINGS]
    assert names == [name for name in _ORDER if name in names]


@pytest.mark.parametrize(
    "name", ["train_mlp_eager", "ddp_straggler_rank0", "mlp_64x128x768x3072_cudagraph", "mlp_recompiles"]
)
def test_answers_are_plain_data(recorded: Callable[[str], Run], name: str) -> None:
    """Evidence is JSON as it stands, every shown column has a value in some row, and sentences end."""
    for answer in ask(recorded(name)):
        json.dumps([dict(row) for row in answer.evidence])
        for column in answer.columns:
            assert any(column.key in row for row in answer.evidence), (answer.question, column.key)
        assert answer.question == "window" or answer.sentence.endswith((".", ":")), answer.question


def test_unknown_question_is_an_input_error(recorded: Callable[[str], Run]) -> None:
    """A question that does not exist is refused with the list of those that do."""
    with pytest.raises(InputError) as error:
        ask(recorded("sdpa"), ["weather"])
    assert error.value.hint is not None
    assert "window" in error.value.hint
