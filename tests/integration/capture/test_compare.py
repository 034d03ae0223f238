"""What is measured only when variants are compared: numerics, and the cost of new shapes."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

from foretrace.capture import Target, capture_target, new_shapes, numerics, parse_target
from foretrace.capture.target import Workload
from foretrace.run import read
from foretrace.trace.compile_log import beside

if TYPE_CHECKING:
    from pathlib import Path


def _nothing() -> None:
    return None


def test_errors_are_absolute_and_relative() -> None:
    """(3, 4) has norm 5; off by 0.5 in one element that is 0.5 absolute and 0.1 relative."""
    found = numerics.errors((torch.tensor([3.0, 4.5]),), (torch.tensor([3.0, 4.0]),))
    assert found == numerics.Numerics(0.5, pytest.approx(0.1))


def test_results_of_other_shapes_have_no_error() -> None:
    """What cannot be subtracted is not compared."""
    assert numerics.errors((torch.ones(2),), (torch.ones(3),)) is None
    assert numerics.errors((), ()) is None


def test_the_reference_is_the_module_in_fp32() -> None:
    """bf16 weights and inputs, widened without rounding: their exact product, not the rounded one."""
    layer = nn.Linear(2, 1, bias=False, dtype=torch.bfloat16)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0, 2.0**-9]]))
    x = torch.ones(1, 2, dtype=torch.bfloat16)
    with torch.no_grad():
        rounded = layer(x)
        (exact,) = numerics.reference(Workload(layer, (x,))) or ()
    assert (rounded.item(), exact.item()) == (1.0, 1.0 + 2.0**-9)


def test_what_has_no_single_result_has_no_reference() -> None:
    """Active dropout, a function, and a module that fails in fp32."""

    class Picky(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x.dtype == torch.float32:
                raise TypeError
            return x

    x = torch.ones(2, dtype=torch.bfloat16)
    assert numerics.reference(Workload(nn.Dropout(0.5), (x,))) is None
    assert numerics.reference(Workload(torch.abs, (x,))) is None
    assert numerics.reference(Workload(Picky(), (x,))) is None
    assert numerics.reference(Workload(nn.Dropout(0.5).eval(), (x,))) is not None


def test_two_new_shapes_are_run() -> None:
    """Another batch, then another length too; a mask with the length twice follows, features stay."""
    seen = []

    def call(x: torch.Tensor, *, mask: torch.Tensor) -> None:
        seen.append((tuple(x.shape), tuple(mask.shape)))

    workload = Workload(call, (torch.ones(8, 6, 5),), {"mask": torch.ones(8, 1, 6, 6)})
    found = new_shapes.measure(workload, call, _nothing)
    assert [shape.what for shape in found] == ["batch 8 → 4", "sequence 6 → 3"]
    assert set(seen) == {((4, 6, 5), (4, 1, 6, 6)), ((4, 3, 5), (4, 1, 3, 3))}
    assert [(shape.recompiles, shape.failed) for shape in found] == [(0, None), (0, None)]


def test_rows_without_a_sequence_get_two_batches() -> None:
    """[rows, features]: only the rows change; a single row grows, because 1 is special to compilers."""
    seen = []
    workload = Workload(lambda x: seen.append(tuple(x.shape)), (torch.ones(1, 5),))
    found = new_shapes.measure(workload, workload.call, _nothing)
    assert [shape.what for shape in found] == ["batch 1 → 2", "batch 1 → 3"]
    assert set(seen) == {(2, 5), (3, 5)}


def test_token_ids_stay_in_range() -> None:
    """New rows repeat old ones: an embedding never sees an id that it does not have."""
    seen = []
    workload = Workload(seen.append, (torch.tensor([[7, 8, 9]]),))
    new_shapes.measure(workload, workload.call, _nothing)
    assert seen[0].tolist() == [[7, 8, 9], [7, 8, 9]]


def test_a_module_that_knows_one_shape_says_so() -> None:
    """The failure is kept in words and costs nothing else."""

    def fixed(x: torch.Tensor) -> torch.Tensor:
        return x.view(4, 3)

    workload = Workload(fixed, (torch.ones(4, 3),))
    first, _second = new_shapes.measure(workload, fixed, _nothing)
    assert first.cost_ns is None
    assert str(first.failed).startswith("RuntimeError: shape '[4, 3]' is invalid")


def test_without_tensors_there_are_no_shapes() -> None:
    """A training step without arguments has none."""
    assert new_shapes.measure(Workload(_nothing), _nothing, _nothing) == ()


def test_an_environment_without_timings_is_read(targets: Path, tmp_path: Path) -> None:
    """What was not measured is null in the file and unknown in the run; the rest is there."""
    target = parse_target(f"{targets / 'mlp.py'}:geglu", [])
    assert isinstance(target, Target)
    capture_target(target, out=tmp_path, unprofiled=False)
    assert json.loads((tmp_path / "geglu_eager.env.json").read_text())["unprofiled"] is None
    environment = read(tmp_path / "geglu_eager.json.gz").environment
    assert environment is not None
    assert (environment.variant, environment.unprofiled.host_ns) == ("eager", None)


@pytest.mark.slow
def test_compared_variants_know_their_errors_and_recompiles(targets: Path, tmp_path: Path) -> None:
    """In the environment file and in what reading makes of it: eager has no recompile, compile has one at least."""
    target = parse_target(f"{targets / 'mlp.py'}:geglu", [])
    assert isinstance(target, Target)
    capture_target(target, variants=["eager", "compile"], out=tmp_path, unprofiled=True, compare=True)
    eager, compiled = (read(tmp_path / f"geglu_{name}.json.gz").environment for name in ("eager", "compile"))
    assert eager is not None
    assert compiled is not None
    assert eager.numerics is not None
    assert eager.numerics.max_abs_error == 0  # fp32 already
    assert compiled.numerics is not None
    assert (compiled.numerics.relative_error or 0) < 1e-5  # other order of sums
    assert [shape.recompiles for shape in eager.new_shapes] == [0, 0]
    assert compiled.new_shapes[0].recompiles == 1
    assert (compiled.new_shapes[0].cost_ns or 0) > (eager.new_shapes[0].cost_ns or 0)
    written = json.loads((tmp_path / "geglu_compile.env.json").read_text())
    assert [shape["what"] for shape in written["new_shapes"]] == ["batch 4 → 2", "batch 4 → 3"]


@pytest.mark.slow
def test_what_torch_compile_says_is_kept_beside_the_trace(tmp_path: Path) -> None:
    """A module that counts its calls is compiled again each time, up to the limit; eager has nothing to say."""
    (tmp_path / "counting.py").write_text(
        "import torch\n"
        "class Counting(torch.nn.Module):\n"
        "    calls = 0\n"
        "    def forward(self, x):\n"
        "        self.calls += 1\n"
        "        return x * self.calls\n"
        "def counting():\n"
        "    return Counting(), (torch.ones(3),)\n"
    )
    target = parse_target(f"{tmp_path / 'counting.py'}:counting", [])
    assert isinstance(target, Target)
    capture_target(target, variants=["eager", "compile"], out=tmp_path)
    assert not (tmp_path / "counting_eager.compile.log").exists()
    found = beside(str(tmp_path / "counting_compile.json.gz"))
    assert found is not None
    (entry,) = found.recompiles
    assert (entry.function, entry.line, entry.limit) == ("forward", 4, 8)
    assert entry.guards[0].guard == "self.calls"
    assert entry.compile_ids[0] == "0/1"
    assert not logging.getLogger("torch._dynamo.guards.__recompiles").handlers
