"""Whatever events a file holds, its page can be made, and its timeline can be pointed at."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import foretrace
from foretrace.render.to_html import to_html
from foretrace.report.overview import overview
from foretrace.report.page import page_of
from foretrace.run import Kind

if TYPE_CHECKING:
    from pathlib import Path

    from foretrace.report.timeline import Timeline

KINDS = ("kernel", "kernel", "gpu_memcpy", "gpu_memset", "cpu_op", "user_annotation", "python_function", "cuda_runtime")
NAMES = ("aten::mm", "ProfilerStep#1", "ProfilerStep#2", "cudaGraphLaunch", "nn.Module: a_0", "<b>", "nvjet_tst_64x8")

events = st.fixed_dictionaries(
    {
        "ph": st.just("X"),
        "cat": st.sampled_from(KINDS),
        "name": st.sampled_from(NAMES),
        "pid": st.sampled_from((1, 2, "[TP0] 1")),
        "tid": st.sampled_from((1, "t")),
        "ts": st.integers(0, 60),
        "dur": st.integers(1, 30),
        "args": st.fixed_dictionaries(
            {},
            optional={
                "correlation": st.integers(0, 4),
                "stream": st.integers(-1, 9),
                "device": st.integers(0, 1),
                "Input Dims": st.just([[8, 4], [4, 2]]),
            },
        ),
    }
)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(events, max_size=25))
def test_every_list_of_events_has_a_page(tmp_path: Path, listed: list[dict[str, Any]]) -> None:
    """Every kernel is drawn once, every box lies in its lane and in the span, and no two share a place."""
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"deviceProperties": [{"name": "NVIDIA H200"}], "traceEvents": listed}))
    run = foretrace.read(path)
    answers = foretrace.ask(run)
    page = page_of(run, answers)
    assert "<b>" not in to_html(overview(run, answers), page).replace("<b>note:", "").partition("<main")[0]
    if not page.timelines:
        assert not np.any(run.host.kind != Kind.PYTHON)
        assert not len(run.activities)
        return
    drawn = page.timelines[0]
    assert drawn.kernels == int((run.activities.kind == Kind.KERNEL).sum())
    assert len({box.event for box in drawn.slices}) == len(drawn.slices)
    _check_places(drawn)


def _check_places(drawn: Timeline) -> None:
    ends: dict[tuple[int, int], int] = {}
    for box in sorted(drawn.slices, key=lambda box: (box.start_ns, box.dur_ns)):
        place = box.lane, box.row
        assert ends.get(place, 0) <= box.start_ns <= box.start_ns + box.dur_ns <= drawn.span_ns
        assert box.row < drawn.lanes[box.lane].rows
        assert drawn.lanes[box.lane].device == (box.detail is not None)
        assert box.launch is None or not drawn.lanes[drawn.slices[box.launch].lane].device
        ends[place] = box.start_ns + box.dur_ns
