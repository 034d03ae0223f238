"""Whatever events a file holds, the model's invariants hold and nothing is counted twice."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from foretrace.run import ROOT, Run, read

if TYPE_CHECKING:
    from pathlib import Path

WORK = ("kernel", "Kernel", "gpu_memcpy", "gpu_memset", "mtia_ccp_events")
CATEGORIES = (
    *WORK,
    *("cpu_op", "Operator", "user_annotation", "python_function", "cuda_runtime", "cuda_driver", "overhead"),
    *("cuda_sync", "gpu_user_annotation", "Trace", "cuda_profiler_range", "", "something_new"),
)
NAMES = (
    "aten::mm",
    "ProfilerStep#1",
    "ProfilerStep#2",
    "cudaGraphLaunch",
    "cudaStreamSynchronize",
    "nn.Module: a_0",
    "r",
)
PROCESSES = (1, 2, "[TP0] 1", "[TP1] 1", "rank 3", "CPU functions", "CUDA functions", "Spans")

events = st.fixed_dictionaries(
    {
        "ph": st.sampled_from("XXXXXXXXiBEsfMC"),
        "cat": st.sampled_from(CATEGORIES),
        "name": st.sampled_from(NAMES),
        "pid": st.sampled_from(PROCESSES),
        "tid": st.sampled_from((1, 2, -1, "t")),
        "ts": st.integers(-5, 60),
    },
    optional={
        "dur": st.integers(-2, 30),
        "id": st.integers(0, 3),
        "args": st.fixed_dictionaries(
            {},
            optional={
                "correlation": st.integers(-1, 4),
                "External id": st.integers(0, 3),
                "stream": st.integers(-1, 9),
                "device": st.integers(0, 1),
                "graph id": st.integers(0, 2),
                "name": st.sampled_from(("python", "rank 7")),
            },
        ),
    },
)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(events, max_size=30))
def test_every_list_of_events_makes_a_sound_run(tmp_path: Path, listed: list[dict[str, Any]]) -> None:
    """Invariants, the number of activities, busy as counted by microseconds of each GPU, and printable notes."""
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": listed}))
    run = read(path)
    run.check()
    work = [e for e in listed if e["ph"] in "Xi" and _is_work(e)]
    begun = sum(e["ph"] == "B" and _is_work(e) for e in listed)
    assert len(work) + begun == len(run.activities)
    if not begun:
        busy_us = {
            (e.get("args", {}).get("device"), t)
            for e in work
            for t in range(e["ts"], e["ts"] + max(e.get("dur", 0), 0))
        }
        assert 1_000 * len(busy_us) == run.busy_ns()
    assert all(note.text.isprintable() and note.count > 0 for note in run.notes)
    assert _owned(run) == len(run.activities)


def _is_work(event: dict[str, Any]) -> bool:
    return event["cat"] in WORK or (event["cat"] == "" and event["pid"] == "CUDA functions")


def _owned(run: Run) -> int:
    """Activities in a step, and those with a reason to be in none."""
    outside = [run.why_outside(i) for i in range(len(run.activities)) if run.activities.step[i] == ROOT]
    assert all(outside)
    return len(outside) + sum(len(step.activities) for step in run.steps)
