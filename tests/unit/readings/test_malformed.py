"""Traces whose headers and arguments are not what Kineto writes are read all the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from build import TraceBuilder

from foretrace.diff import diff
from foretrace.readings import ask

if TYPE_CHECKING:
    from foretrace.run import Run

_GEMM = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT"
_FINE = [[64, 32], [32, 16]]
_TYPES = ["c10::BFloat16", "c10::BFloat16"]


def _product(dims: Any = None, types: Any = None, grid: Any = None, **args: Any) -> Run:
    trace = TraceBuilder().step(0, 0, 100)
    args |= {"Input Dims": _FINE if dims is None else dims, "Input type": _TYPES if types is None else types}
    trace.event("cpu_op", "aten::mm", 1, 20, **args)
    return trace.kernel(_GEMM, 30, 10, launch=(2, 3), grid=grid or [128, 1, 1], block=[256, 1, 1]).run()


@pytest.mark.parametrize(
    "dims",
    [7, 1.5, "64", [None, None], [["a", "b"], ["b", "c"]], [64, 32], [[2**40, 2**40], [2**40, 2**40]], [[1.5], [2]]],
)
def test_sizes_that_are_none(dims: Any) -> None:
    """No reading fails on malformed sizes, and no figure is made of them: the shapes are unknown."""
    run = _product(dims=dims)
    assert run.activity(0).shapes is None
    by_question = {answer.question: answer for answer in ask(run)}
    assert by_question["gemm_choice"].evidence[0]["flops"] is None
    assert diff(run, run, anyway=True).changes is not None


@pytest.mark.parametrize("types", [3, [1, 2], [None, None], {"0": "float"}])
def test_types_that_are_none(types: Any) -> None:
    """Element types that are no text are unknown, the sizes stay."""
    run = _product(types=types)
    assert (run.activity(0).shapes, run.activity(0).dtypes) == (_FINE, None)
    assert ask(run)
    assert diff(run, run, anyway=True).comparable


@pytest.mark.parametrize("key", ["Input Strides", "Concrete Inputs"])
@pytest.mark.parametrize("value", [5, 0.5, "x", [3, 4], [None, None], [[2**70], [1]]])
def test_other_arguments_that_are_none(key: str, value: Any) -> None:
    """Strides and values that are no lists do not keep the product's FLOPs from being counted."""
    run = _product(**{key: value})
    row = next(answer for answer in ask(run) if answer.question == "gemm_choice").evidence[0]
    assert row["flops"] == 65_536


@pytest.mark.parametrize("grid", [4, ["a", 1, 1], [2**40, 2**40, 1], [-1, 1, 1], [1.5, 1, 1], [None], {"x": 1}])
def test_grids_that_are_none(grid: Any) -> None:
    """A malformed grid is unknown."""
    run = _product(grid=grid)
    assert run.launch_shape(0) == (None, [256, 1, 1])
    assert ask(run)


def test_products_beyond_64_bits() -> None:
    """Sizes that fit one by one may still ask for more FLOPs than 64 bits hold: the work is unknown."""
    run = _product(dims=[[2**40, 1], [1, 2**40]])
    row = next(answer for answer in ask(run) if answer.question == "gemm_choice").evidence[0]
    assert row["flops"] is None


@pytest.mark.parametrize("listed", [["NVIDIA H200"], {"name": "NVIDIA H200"}, True, [None], [{"name": 3}], "x"])
def test_headers_that_are_none(listed: Any) -> None:
    """A header that lists no devices names none; reading and comparing go on."""
    trace = TraceBuilder(None, deviceProperties=listed).step(0, 0, 100)
    run = trace.kernel("k", 30, 10, launch=(2, 3)).run()
    assert run.device is None
    assert ask(run)
    assert diff(run, run, anyway=True).comparable


def test_nothing_takes_any_time() -> None:
    """Events of no length on several streams divide by nothing."""
    trace = TraceBuilder().step(0, 0, 100).kernel("a", 30, 0, launch=(2, 3))
    run = trace.kernel("b", 40, 0, launch=(10, 3), stream=8).run()
    assert {row["share"] for a in ask(run, ["streams"]) for row in a.evidence} == {0.0}
