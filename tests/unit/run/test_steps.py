"""Step marks that overlap: which of them divide the run, and which launch is whose."""

from __future__ import annotations

from typing import Any

import pytest

Recorder = Any


def _five_launches(trace: Recorder, start: float, first: int, thread: int = 1) -> None:
    for i in range(5):
        at = start + 100 * i
        trace.add(
            cat="cuda_runtime", name="cudaLaunchKernel", tid=thread, ts=at, dur=4, args={"correlation": first + i}
        )
        trace.kernel(first + i, at + 10, 20)


def test_a_step_marked_twice_is_one_step(trace: Recorder) -> None:
    """Marks as an op and as an annotation, of one name and time, are one step with all of its kernels."""
    for number in range(3):
        trace.op(f"ProfilerStep#{number}", 1000 * number, 990)
        trace.annotation(f"ProfilerStep#{number}", 1000 * number, 990)
        _five_launches(trace, 1000 * number + 10, 1 + 5 * number)
    run = trace.run()
    assert [(step.name, len(step.activities)) for step in run.steps] == [(f"ProfilerStep#{i}", 5) for i in range(3)]
    assert {note.kind: note.count for note in run.notes}["nested-steps"] == 3


def test_the_outer_of_nested_steps_divides(trace: Recorder) -> None:
    """A profiler inside a profiler marks parts of steps: the outer steps own every kernel."""
    for number in range(2):
        trace.annotation(f"ProfilerStep#{number}", 1000 * number, 990)
        trace.annotation(f"ProfilerStep#{100 + number}", 1000 * number + 50, 300)
        _five_launches(trace, 1000 * number + 60, 1 + 5 * number)
    run = trace.run()
    assert [len(step.activities) for step in run.steps] == [5, 5]
    assert [note.text for note in run.notes if note.kind == "nested-steps"] == [
        "2 step marks inside another step: not used, the outer ones are"
    ]


def test_a_nested_mark_of_another_process_that_works_is_nested(trace: Recorder) -> None:
    """It is told as such, and not as one of a process without work."""
    trace.annotation("ProfilerStep#0", 0, 990)
    trace.op("aten::mm", 10, 20)
    trace.add(cat="user_annotation", name="ProfilerStep#0", pid=2, ts=100, dur=500)
    trace.add(cat="cpu_op", name="aten::mm", pid=2, ts=110, dur=20)
    run = trace.run()
    assert len(run.steps) == 1
    assert {"nested-steps", "odd-steps"} & {note.kind for note in run.notes} == {"nested-steps"}


@pytest.mark.parametrize("shift", [300, 990])
def test_threads_with_steps_of_their_own(trace: Recorder, shift: int) -> None:
    """Each of two threads launches into its own steps, also where the steps of the two overlap in time."""
    for number in range(3):
        for thread in (1, 2):
            start = 1000 * number + (shift if thread == 2 else 0)
            trace.add(cat="user_annotation", name=f"ProfilerStep#{number}", tid=thread, ts=start, dur=990)
            _five_launches(trace, start + 10, 1 + 10 * number + 5 * thread, thread)
    run = trace.run()
    host_threads = run.host.thread[run.activities.launch]
    for step in run.steps:
        assert len(step.activities) == 5
        assert set(host_threads[step.activities].tolist()) == {int(run.host.thread[step.slice])}
