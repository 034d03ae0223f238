"""Ops that launch no kernel, or only through others."""

from __future__ import annotations

import pytest

from foretrace.ops import is_composite, launches_nothing, work

BF16 = "c10::BFloat16"


@pytest.mark.parametrize(
    "op",
    [
        "aten::t",
        "aten::transpose",
        "aten::view",
        "aten::as_strided",
        "aten::expand",
        "aten::permute",
        "aten::slice",
        "aten::select",
        "aten::unsqueeze",
        "aten::squeeze",
        "aten::detach",
        "detach",
        "aten::alias",
        "aten::_unsafe_view",
        "aten::empty",
        "aten::empty_like",
        "aten::empty_strided",
        "aten::resize_",
        "aten::set_",
        "aten::lift_fresh",
        "aten::result_type",
        "prims::collapse_view",
    ],
)
def test_views_and_bookkeeping_launch_nothing(op: str) -> None:
    """Views and allocations cost the device nothing, whatever their arguments."""
    said = work(op, [[4, 8]], ["float"])
    assert said is not None
    assert (said.launches, said.flops, said.read_bytes, said.written_bytes) == (False, 0, 0, 0)
    assert launches_nothing(op)


def test_reshape_is_a_view_where_the_strides_are_dense() -> None:
    """A dense tensor reshapes without a copy; of another one the table does not claim to know."""
    dense = work("aten::reshape", [[4, 8], []], ["float", "ScalarList"], ["", "[32]"], [[8, 1], []])
    other = work("aten::reshape", [[4, 8], []], ["float", "ScalarList"], ["", "[32]"], [[1, 4], []])
    assert dense is not None
    assert other is not None
    assert (dense.launches, dense.moved_bytes) == (False, 0)
    assert (other.launches, other.moved_bytes) == (None, None)


@pytest.mark.parametrize(
    ("op", "composite"),
    [
        ("aten::linear", True),
        ("aten::matmul", True),
        ("aten::reshape", True),
        ("aten::to", True),
        ("aten::softmax", True),
        ("aten::scaled_dot_product_attention", True),
        ("aten::conv2d", True),
        ("aten::embedding", True),
        ("aten::clone", True),
        ("aten::mm", False),
        ("aten::addmm", False),
        ("aten::_softmax", False),
        ("aten::copy_", False),
        ("aten::add_", False),
        ("aten::t", False),
        ("my::op", False),
    ],
)
def test_composites_are_marked(op: str, composite: bool) -> None:  # noqa: FBT001 - a parametrised answer
    """An op that works through others is marked, so that a total never holds both."""
    assert is_composite(op) is composite
