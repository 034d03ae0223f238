"""A step or a region of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from foretrace.errors import InputError
from foretrace.report.selection import Selection, region_names, select

if TYPE_CHECKING:
    from collections.abc import Callable

    from foretrace.run import Run


@pytest.fixture
def run(built: Callable[..., Run]) -> Run:
    """Two steps; each runs a forward region on thread 1 and, meanwhile, a backward launch on thread 2."""
    rows = []
    for number, at in ((7, 0), (8, 100)):
        rows += [
            ("user_annotation", f"ProfilerStep#{number}", at, 100, 1, {}),
            ("user_annotation", "forward", at + 10, 40, 1, {}),
            ("cpu_op", "aten::mm", at + 12, 10, 1, {}),
            ("cuda_runtime", "cudaLaunchKernel", at + 14, 2, 1, {"correlation": number * 10}),
            ("cpu_op", "MmBackward0", at + 30, 10, 2, {}),
            ("cpu_op", "aten::mm", at + 31, 8, 2, {}),
            ("cuda_runtime", "cudaLaunchKernel", at + 33, 2, 2, {"correlation": number * 10 + 1}),
            ("cpu_op", "aten::add", at + 60, 10, 1, {}),
            ("cuda_runtime", "cudaLaunchKernel", at + 62, 2, 1, {"correlation": number * 10 + 2}),
        ]
        rows += [
            ("kernel", f"kernel_{i}", at + start, 5, 7, {"correlation": number * 10 + i, "stream": 7, "device": 0})
            for i, start in enumerate((20, 40, 70))
        ]
    return built(*rows)


def _names(run: Run) -> list[str]:
    return [run.activity_name(i) for i in range(len(run.activities))]


def test_a_step_keeps_what_starts_inside_it_on_every_thread(run: Run) -> None:
    """One step of two: its three kernels and its slices, and the model still holds together."""
    part = select(run, Selection(step=8))
    part.check()
    assert [step.name for step in part.steps] == ["ProfilerStep#8"]
    assert _names(part) == ["kernel_0", "kernel_1", "kernel_2"]
    assert part.activity(0).start_ns == 120_000
    assert len(part.host) == 9


def test_a_region_keeps_its_steps_and_its_backward(run: Run) -> None:
    """Kernels launched meanwhile on autograd's thread stay, with their chain; what follows the region goes."""
    part = select(run, Selection(region="forward"))
    part.check()
    assert _names(part) == ["kernel_0", "kernel_1"] * 2
    assert [len(step.activities) for step in part.steps] == [2, 2]
    assert part.activity(0).chain == ("forward", "aten::mm")
    assert part.activity(1).chain == ("forward", "MmBackward0", "aten::mm")
    assert "aten::add" not in {part.name(i) for i in range(len(part.host))}


def test_step_and_region_together(run: Run) -> None:
    """Both restrictions hold at once."""
    part = select(run, Selection(step=7, region="forward"))
    part.check()
    assert _names(part) == ["kernel_0", "kernel_1"]


def test_nothing_selected_is_the_whole_run(run: Run) -> None:
    """Without a restriction the run itself comes back."""
    assert select(run, Selection()) is run
    assert not Selection()
    assert Selection(step=0)


def test_regions_are_listed_in_order(run: Run) -> None:
    """Each region once; steps are none."""
    assert region_names(run) == ("forward",)


@pytest.mark.parametrize(
    ("selection", "message", "hint"),
    [
        (Selection(step=3), "no step 3 in this trace", "its steps are 7, 8"),
        (Selection(region="back"), "no region `back` in this trace", "its regions are `forward`"),
    ],
)
def test_what_is_not_there_is_refused_with_what_is(run: Run, selection: Selection, message: str, hint: str) -> None:
    """The error names what was asked for, the hint what the trace has."""
    with pytest.raises(InputError) as caught:
        select(run, selection)
    assert (caught.value.message, caught.value.hint) == (message, hint)


def test_a_trace_without_steps_says_how_to_get_them(built: Callable[..., Run]) -> None:
    """Asking for a step where there is none explains where steps come from."""
    with pytest.raises(InputError) as caught:
        select(built(("cpu_op", "aten::mm", 0, 1, 1, {})), Selection(step=1))
    assert caught.value.hint == "it has none: profile with a schedule and `prof.step()`"
