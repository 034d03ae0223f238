from __future__ import annotations

from typing import TYPE_CHECKING

from build import TraceBuilder

from foretrace.readings.groups import fold, groups
from foretrace.readings.lines import lines, longest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from foretrace.run import Run

import numpy as np


def _steps(*steps: Sequence[tuple[str, float]]) -> Run:
    """Kernels (name, µs) of each step, one after the other."""
    builder = TraceBuilder()
    for i, kernels in enumerate(steps):
        at = 1_000 * i
        builder.step(i, at, 900)
        for j, (name, duration) in enumerate(kernels):
            builder.kernel(name, at + 100 * j + 10, duration, launch=(at + 100 * j + 1, 2))
    return builder.run()


def test_alike_steps_are_aligned_by_position() -> None:
    """Two kernels of one name at two places of the step stay two groups with one time a step."""
    found = groups(_steps([("gemm", 10), ("gemm", 20)], [("gemm", 12), ("gemm", 22)]))
    assert [group.durations_ns for group in found] == [(10_000, 12_000), (20_000, 22_000)]
    assert [group.count for group in found] == [1, 1]


def test_unlike_steps_are_grouped_by_call() -> None:
    """A step with one kernel more: one group a name, in order of the first launch, and steps without it stay out."""
    found = groups(_steps([("b", 10), ("a", 20)], [("a", 12), ("a", 22), ("b", 1)], [("a", 5)]))
    assert [group.name for group in found] == ["b", "a"]
    assert [group.durations_ns for group in found] == [(10_000, 1_000), (20_000, 34_000, 5_000)]
    assert [group.per_step for group in found] == [((0,), (4,), ()), ((1,), (2, 3), (5,))]
    assert found[1].count == 1


def test_what_most_steps_lack_is_counted_as_a_part() -> None:
    """A kernel of one step in three runs 1/3 times a step; what one step lacks still runs as often as in the others."""
    found = groups(_steps([("rare", 10), ("a", 20)], [("a", 20), ("b", 5)], [("a", 20), ("b", 5)]))
    assert [(group.name, round(group.count, 3)) for group in found] == [("rare", 0.333), ("a", 1), ("b", 1)]


def test_every_kernel_is_in_one_group(recorded: Callable[[str], Run]) -> None:
    """Groups of a large and uneven trace hold each of its 1879 kernels once."""
    every = [kernel for group in groups(recorded("mlp_recompiles")) for kernel in group.activities]
    assert len(every) == len(set(every)) == 1879


def test_no_kernels_no_groups() -> None:
    """A trace of the CPU alone has none."""
    assert groups(TraceBuilder().op("aten::mm", 0, 10).run()) == ()


def test_fold_numbers_rows_alike_only_when_all_columns_are() -> None:
    """Two columns: three different pairs, one of them twice."""
    code = fold(np.array([1, 1, 2, 1]), np.array([-1, 7, 7, -1]))
    assert code[0] == code[3]
    assert len(set(code.tolist())) == 3


def test_longest_keeps_the_order() -> None:
    """The two lines that take the most time, in the order in which they ran."""
    every = lines(_steps([("a", 5), ("b", 1), ("c", 9)], [("a", 5), ("b", 1), ("c", 9)]))
    assert [line.identity.name for line in longest(every, 2)] == ["a", "c"]
