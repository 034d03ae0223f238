"""The table of one step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from foretrace.report.kernel_table import kernel_table
from foretrace.report.op_table import op_table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from foretrace.run import Run

Kernel = tuple[str, str, float]
"""Name, op, µs."""


def _steps(*steps: Sequence[Kernel], cat: str = "kernel") -> list[tuple[Any, ...]]:
    """Rows of a trace with these kernels in these steps, 1000 µs apart."""
    rows: list[tuple[Any, ...]] = []
    correlation = 0
    for number, kernels in enumerate(steps):
        at = number * 1_000
        rows.append(("user_annotation", f"ProfilerStep#{number}", at, 1_000, 1, {}))
        for i, (name, op, us) in enumerate(kernels):
            correlation += 1
            begin = at + 20 * i
            ids = {"correlation": correlation}
            rows += [
                ("cpu_op", op, begin, 10, 1, {}),
                ("cuda_runtime", "cudaLaunchKernel", begin + 2, 2, 1, ids),
                (cat, name, begin + 6, us, 7, {**ids, "stream": 7, "device": 0}),
            ]
    return rows


def _cells(run: Run, *keys: str) -> list[tuple[Any, ...]]:
    table = kernel_table(run)
    assert table is not None
    return [tuple(row.get(key) for key in keys) for row in table.rows]


def test_times_are_medians_over_steps(built: Callable[..., Run]) -> None:
    """Three equal steps: each kernel in its place, the middle of its three times."""
    steps = [[("ka", "aten::a", us), ("kb", "aten::b", 1)] for us in (5, 6, 12)]
    run = built(*_steps(*steps))
    assert _cells(run, "kernel", "op", "times", "time_ns") == [("ka", "a", 1, 6_000), ("kb", "b", 1, 1_000)]
    assert _cells(run, "share") == [(6 / 7,), (1 / 7,)]
    table = kernel_table(run)
    assert table is not None
    assert table.title == "On the GPU, in one step (medians of 3 steps), in order"
    assert "times" not in {column.key for column in table.columns}


def test_steps_that_differ_are_averaged(built: Callable[..., Run]) -> None:
    """A kernel of one step out of two counts half: the rows add up to a mean step."""
    run = built(*_steps([("ka", "aten::a", 4)], [("ka", "aten::a", 8), ("kb", "aten::b", 3)]))
    assert _cells(run, "kernel", "times", "time_ns") == [("ka", 1, 6_000), ("kb", 0.5, 1_500)]
    table = kernel_table(run)
    assert table is not None
    assert table.title == "On the GPU, in one step (means of 2 steps), in order"


def test_many_kernels_are_put_together_and_ranked(built: Callable[..., Run]) -> None:
    """Twenty kinds, one of them 30 times: the longest twelve are shown, the rest is one line."""
    kinds = [(f"k{i}", f"aten::op{i}", 1 + i * 0.1) for i in range(20)]
    run = built(*_steps([*kinds, *[("often", "aten::often", 1)] * 20]))
    rows = _cells(run, "kernel", "times", "time_ns")
    assert len(rows) == 12
    assert rows[0] == ("often", 20, 20_000)
    assert rows[1] == ("k19", 1, 2_900)
    table = kernel_table(run)
    assert table is not None
    assert table.title == "On the GPU, in the one step, longest first"
    assert table.more == "and 9 more: 12.6 µs"  # k0 … k8: 9 + 0.1 × (0 + … + 8)


def test_copies_that_take_time_have_a_row(built: Callable[..., Run]) -> None:
    """A copy belongs to what the device did; a memset of a thousandth of the time is only counted."""
    rows = [
        *_steps([("Memcpy HtoD (Pageable -> Device)", "aten::copy_", 600)], cat="gpu_memcpy"),
        ("gpu_memset", "Memset (Device)", 700, 0.5, 7, {"stream": 7, "device": 0}),
    ]
    steps = [row for row in rows if row[0] != "gpu_memset"]
    assert _cells(built(*steps), "kernel", "op") == [("Memcpy HtoD (Pageable -> Device)", "copy_")]
    table = kernel_table(built(*[row for row in rows if row[0] != "user_annotation"]))
    assert table is not None
    assert (len(table.rows), table.more) == (1, "and 1 memset: 500 ns")


def test_what_ran_is_listed_in_order_with_its_terms(recorded: Callable[[str], Run]) -> None:
    """The mask's copy stands where it ran, a division by a number says how it is done, and terms are explained."""
    table = kernel_table(recorded("attention_naive"))
    assert table is not None
    assert [row["op"] for row in table.rows] == [
        "bmm", "div", "fill_", "triu", "copy_", "masked_fill_", "_softmax", "bmm"
    ]  # fmt: skip
    assert table.rows[1]["kernel"] == "elementwise mul by 1/x"
    assert table.more == (
        "and 1 memset: 736 ns. Of limit: share of the peak FLOP/s (compute) or bandwidth (memory); latency: too small "
        "to fill the device; –: none or not known"
    )


def test_only_signs_that_are_in_the_table_are_explained(recorded: Callable[[str], Run]) -> None:
    """Where every kernel is too small the columns with dashes are not there, and nothing is said of a dash."""
    table = kernel_table(recorded("linear_1024x32x64_eager"))
    assert table is not None
    assert table.more == "Latency: too small to fill the device"
    split = kernel_table(recorded("mlp_1x1x768x3072_eager"))
    assert split is not None
    assert split.more == "Latency: too small to fill the device; –: none or not known"


def test_what_a_graph_replays_has_no_op(recorded: Callable[[str], Run]) -> None:
    """The op around a graph launch is the same for all nodes and says nothing of any."""
    rows = _cells(recorded("mlp_64x128x768x3072_cudagraph"), "op")
    assert rows == [("_foreach_copy_",), *[("CUDA graph",)] * 4]


def test_no_device_activity_has_no_table(built: Callable[..., Run]) -> None:
    """A trace of the CPU has no kernels to show."""
    assert kernel_table(built(("cpu_op", "aten::mm", 0, 5, 1, {}))) is None


def test_operators_by_their_own_time(built: Callable[..., Run]) -> None:
    """Self time leaves out the ops inside; calls and times are per step, what lies outside the steps does not count."""
    run = built(
        ("cpu_op", "aten::warm", 0, 50, 1, {}),
        ("user_annotation", "ProfilerStep#1", 100, 100, 1, {}),
        ("cpu_op", "aten::linear", 110, 40, 1, {}),
        ("cpu_op", "aten::mm", 115, 30, 1, {}),
        ("user_annotation", "ProfilerStep#2", 200, 100, 1, {}),
        ("cpu_op", "aten::linear", 210, 40, 1, {}),
        ("cpu_op", "aten::mm", 215, 30, 1, {}),
    )
    table = op_table(run)
    assert table is not None
    assert table.title == "On the CPU, in one step (medians of 2 steps)"
    assert list(table.rows) == [
        {"op": "aten::mm", "calls": 1.0, "self_ns": 30_000.0, "share": 0.75},
        {"op": "aten::linear", "calls": 1.0, "self_ns": 10_000.0, "share": 0.25},
    ]


def test_one_odd_step_does_not_rank_the_operators(built: Callable[..., Run]) -> None:
    """Medians of three steps, as on the GPU; means where an op is not in every step."""

    def rows(*gelu: int) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = []
        for number, took in enumerate(gelu):
            at = 1_000 * number
            found += [
                ("user_annotation", f"ProfilerStep#{number}", at, 900, 1, {}),
                ("cpu_op", "aten::mm", at + 10, 90, 1, {}),
            ]
            found += [("cpu_op", "aten::gelu", at + 110, took, 1, {})] if took else []
        return found

    steady = op_table(built(*rows(10, 700, 10)))
    assert steady is not None
    assert [(row["op"], row["self_ns"]) for row in steady.rows] == [("aten::mm", 90_000.0), ("aten::gelu", 10_000.0)]
    rare = op_table(built(*rows(0, 30, 0)))
    assert rare is not None
    assert rare.title == "On the CPU, in one step (means of 3 steps)"
    assert [(row["op"], row["calls"], row["self_ns"]) for row in rare.rows] == [
        ("aten::mm", 1.0, 90_000.0),
        ("aten::gelu", 1 / 3, 10_000.0),
    ]


def test_no_operators_no_table(built: Callable[..., Run]) -> None:
    """A trace without ops has none to show."""
    assert op_table(built(("user_annotation", "only", 0, 5, 1, {}))) is None
