from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from build import TraceBuilder
from mutate import mutated

from foretrace.readings.costs import cost
from foretrace.readings.graph_work import static_copies

if TYPE_CHECKING:
    from collections.abc import Callable

    from foretrace.run import Run

BF16 = "c10::BFloat16"
GEMM = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT"
WIDE = {"grid": [132, 1, 1], "block": [384, 1, 1]}


def _eager_then_graph(*shapes: list[list[int]]) -> Run:
    """Products with recorded shapes, then a graph launch with one kernel of the same name."""
    builder = TraceBuilder()
    for i, dims in enumerate(shapes):
        at = 1_000 * i
        builder.op("aten::mm", at, 100, dims=dims, types=[BF16, BF16])
        builder.kernel(GEMM, at + 10, 500, launch=(at + 1, 2), **WIDE)
    at = 1_000 * len(shapes)
    builder.op("model", at, 100)
    return builder.kernel(GEMM, at + 10, 500, launch=(at + 1, 2), api="cudaGraphLaunch", **WIDE).run()


def test_a_kernel_with_one_work_elsewhere_does_it_in_a_graph_too() -> None:
    """The name's only recorded product, labelled as inferred."""
    inside = cost(_eager_then_graph([[4096, 4096], [4096, 4096]]), 1)
    assert (inside.flops, inside.dtype, inside.inferred) == (2 * 4096**3, "bf16", True)


def test_a_kernel_with_two_works_elsewhere_stays_unknown() -> None:
    """Two shapes under one name: which of them the graph holds is not known."""
    run = _eager_then_graph([[4096, 4096], [4096, 4096]], [[4096, 2048], [2048, 4096]])
    assert cost(run, 2).flops is None


@pytest.mark.parametrize("dims", [None, [], [[]], [[[-1, 2]]], ["x", "y"]])
def test_odd_shapes_of_a_static_copy_say_nothing(dims: Any) -> None:
    """A copy without a usable shape leaves the graph unknown."""

    def odd(event: dict[str, Any]) -> dict[str, Any]:
        if event["name"] != "aten::_foreach_copy_":
            return event
        return {**event, "args": {**event["args"], "Input Dims": dims}}

    run = mutated("mlp_64x128x768x3072_cudagraph", odd)
    assert all(cost(run, kernel).flops is None for kernel in run.kernels() if run.activities.in_graph[kernel])


def test_static_copies_are_those_of_the_call_that_launches_the_graph(recorded: Callable[[str], Run]) -> None:
    """One list copy a step, under the compiled region; a copy elsewhere is none."""
    run = recorded("mlp_64x128x768x3072_cudagraph")
    assert [run.name(op) for op in static_copies(run).tolist()] == ["aten::_foreach_copy_"] * 3
    assert len(static_copies(recorded("llama4_prefill"))) == 0
