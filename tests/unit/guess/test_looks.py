"""What a guess says where code looks at data, and that it ends."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
from torch import nn

from foretrace.errors import InputError
from foretrace.guess import guess


class Guarded(nn.Module):
    """Looks at its input before it works on it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[...] → the same."""
        if torch.isnan(x).any():
            return x.exp().exp()
        return x * 2


class Halving(nn.Module):
    """Loops until its data are small."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[...] → the same."""
        while x.abs().max() > 1e-3:
            x = x * 0.5
        return x


def test_a_branch_on_data_is_noted() -> None:
    """The note names the module, the line, and the answer that chose the branch."""
    made = guess(Guarded(), torch.ones(4, 8))
    assert [k.op for k in made.kernels][-2:] == ["aten::exp", "aten::exp"]
    note = next(note for note in made.notes if "looks at data" in note)
    assert note.startswith("`Guarded` (test_looks.py:")
    assert note.endswith("True was assumed")


def test_a_branch_on_data_is_noted_when_compiled() -> None:
    """What Dynamo breaks the graph for is answered and noted in the same way."""
    made = guess(Guarded(), torch.ones(4, 8), variant="compile")
    assert sum("test_looks.py" in note and note.endswith("True was assumed") for note in made.notes) == 1


def test_a_number_that_is_known_is_no_assumption() -> None:
    """A constant made on the way answers for itself, and an optimizer's own step counter is no data."""
    assert guess(lambda x: x * torch.tensor(3.0).item(), torch.ones(4)).notes == ()
    layer = nn.Linear(4, 4)
    optimizer = torch.optim.Adam(layer.parameters())

    def step(x: torch.Tensor) -> None:
        layer(x).sum().backward()
        optimizer.step()

    assert not any("looks at data" in note for note in guess(step, torch.ones(2, 4)).notes)


def test_a_loop_that_data_would_end_is_refused() -> None:
    """It does not hang: after a thousand looks from one line the loop is named."""
    with pytest.raises(InputError, match=r"`Halving` \(test_looks\.py:\d+\) looked at data 1,000 times") as caught:
        guess(Halving(), torch.ones(4, 8))
    assert caught.value.hint == "guess one iteration of it, or profile it instead"


def test_a_list_is_one_copy_and_one_look() -> None:
    """However long it is: 2,000 elements are no loop, and come in the tensor's nesting."""
    made = guess(lambda x: len(x.view(1_000, 2).tolist()[999]) * x, torch.ones(2_000))
    assert [k.op for k in made.kernels] == ["aten::copy_", "aten::mul"]
    assert [note.endswith("1.0 was assumed") for note in made.notes] == [True]


def test_a_module_that_exits_is_an_error() -> None:
    """`sys.exit` in a forward ends the guess with a reason, not the process."""
    with pytest.raises(InputError, match="ends the program: SystemExit: 7"):
        guess(lambda _x: sys.exit(7), torch.ones(2))


def test_sizes_that_depend_on_data_are_assumed() -> None:
    """Unique values, bins and repeats have a size that their arguments allow, and a note says which."""
    x = torch.zeros(6, 2, dtype=torch.long)

    def sizes(t: torch.Tensor) -> torch.Tensor:
        values, inverse = torch.unique(t, return_inverse=True)
        assert (values.shape, inverse.shape) == ((12,), (6, 2))
        assert torch.unique(t, dim=0).shape == (6, 2)
        assert torch.unique_consecutive(t).shape == (12,)
        assert torch.bincount(t[:, 0], minlength=8).shape == (8,)
        return torch.repeat_interleave(t, t[:, 0], dim=0)

    made = guess(sizes, x)
    assert sum("depends on data" in note for note in made.notes) == 3
    assert [k.op for k in made.kernels][-1] == "aten::index_select"


@pytest.mark.parametrize("ask", [torch.equal, torch.allclose])
def test_two_tensors_are_taken_to_be_equal(ask: Any) -> None:
    """The comparison, its reduction and the look run, and the answer is noted."""
    made = guess(lambda t: t.exp() if ask(t, t) else t, torch.ones(4))
    assert [k.op for k in made.kernels][-3:] == ["aten::all", "aten::_local_scalar_dense", "aten::exp"]
    assert any(note.endswith("True was assumed") for note in made.notes)
