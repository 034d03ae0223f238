"""Phases besides complete slices."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from foretrace.trace import LOST, NONE, read_trace

if TYPE_CHECKING:
    from pathlib import Path

    from foretrace.trace import Trace


def read(folder: Path, *events: dict[str, Any]) -> Trace:
    """The trace of ``events`` on one thread."""
    path = folder / "trace.json"
    path.write_text(json.dumps([{"pid": 1, "tid": 1, **event} for event in events]))
    return read_trace(path)


def test_begin_and_end_make_a_slice(tmp_path: Path) -> None:
    """Pairs nest by thread, and keep the category, arguments and position of their begin."""
    trace = read(
        tmp_path,
        {"ph": "B", "name": "outer", "cat": "cpu_op", "ts": 10, "args": {"External id": 3, "Input Dims": [[2]]}},
        {"ph": "B", "name": "inner", "ts": 12.001},
        {"ph": "B", "name": "other thread", "ts": 13, "tid": 2},
        {"ph": "E", "ts": 15.5},
        {"ph": "E", "ts": 20},
        {"ph": "E", "ts": 14, "tid": 2},
    )
    rows = [
        (trace.name(i), int(c.index[i]), int(c.start_ns[i]), int(c.dur_ns[i]))
        for c in [trace.columns]
        for i in range(len(c))
    ]
    assert rows == [("inner", 1, 2_001, 3_499), ("outer", 0, 0, 10_000), ("other thread", 2, 3_000, 1_000)]
    assert (trace.category(1), int(trace.columns.external[1])) == ("cpu_op", 3)


def test_a_begin_without_end_is_unfinished(tmp_path: Path) -> None:
    """It stays as a slice without a duration; a lone end is counted."""
    trace = read(tmp_path, {"ph": "E", "ts": 1}, {"ph": "B", "name": "open", "ts": 10})
    assert (trace.name(0), trace.columns.dur_ns.tolist()) == ("open", [NONE])
    assert {note.kind: note.count for note in trace.notes} == {"lone-ends": 1, "unfinished": 1}


def test_async_and_counter_events_are_left_out_and_counted(tmp_path: Path) -> None:
    """They are no slices; the note says how many of each."""
    pair = [{"ph": "b", "name": "a", "id": 1, "ts": 1}, {"ph": "e", "name": "a", "id": 1, "ts": 2}]
    trace = read(tmp_path, *pair, {"ph": "C", "name": "c", "ts": 3}, {"ph": "X", "name": "x", "ts": 4, "dur": 1})
    assert len(trace.columns) == 1
    assert [note.text for note in trace.notes] == ["left out: 2 async events, 1 counter event"]


@pytest.mark.parametrize("dur", [-100, -0.001, None, 1e300])
def test_a_duration_that_is_none_is_unfinished(tmp_path: Path, dur: float | None) -> None:
    """Negative, missing and absurd durations count nothing, and are noted."""
    trace = read(tmp_path, {"ph": "X", "name": "x", "ts": 4, "dur": dur})
    assert trace.columns.dur_ns.tolist() == [NONE]
    assert "unfinished" in [note.kind for note in trace.notes]


def test_a_lost_timestamp_does_not_stretch_the_trace(tmp_path: Path) -> None:
    """Kernels at 0 in a file of absolute times: no time, counted; the others start the trace."""
    day = 1_680_718_159_986_758
    good = [{"ph": "X", "name": "op", "ts": day + i, "dur": 1} for i in range(3)]
    trace = read(tmp_path, *good, {"ph": "X", "cat": "kernel", "name": "k", "ts": 0, "dur": 5})
    assert trace.columns.start_ns.tolist() == [0, 1_000, 2_000, LOST]
    assert [(note.kind, note.count) for note in trace.notes] == [("lost-timestamps", 1)]


def test_many_metadata_rows_take_no_time(tmp_path: Path) -> None:
    """Two thirds of the events of some traces are metadata that repeats itself: each text is kept once."""
    rows = [{"ph": "M", "name": "process_name", "args": {"name": "python"}}, {"ph": "M", "name": "process_labels"}]
    rows[1]["args"] = {"labels": "CPU"}
    begin = time.process_time()
    trace = read(tmp_path, *(rows * 50_000), {"ph": "X", "name": "x", "ts": 1, "dur": 1})
    assert trace.process_labels == {1: "python CPU"}
    assert time.process_time() - begin < 10


def test_the_display_unit_changes_nothing(tmp_path: Path) -> None:
    """Times are microseconds whatever `displayTimeUnit` says, and the base makes ranks comparable."""
    starts = []
    for unit, base in (("ms", 1735632360000000000), ("ns", 1735632361000000000)):
        path = tmp_path / f"{unit}.json"
        event = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 100.0, "dur": 2.5}
        path.write_text(json.dumps({"displayTimeUnit": unit, "baseTimeNanoseconds": base, "traceEvents": [event]}))
        trace = read_trace(path)
        assert trace.columns.dur_ns.tolist() == [2_500]
        starts.append(trace.base_ns + int(trace.columns.start_ns[0]))
    assert starts[1] - starts[0] == 1_000_000_000
