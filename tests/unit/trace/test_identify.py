"""What a file is when it is no trace."""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING

import pytest

from foretrace.errors import TraceError
from foretrace.trace import read_trace

if TYPE_CHECKING:
    from pathlib import Path

EXECUTION_TRACE = {"schema": "1.1.1", "pid": 1, "time": "t", "start_ts": 1, "nodes": [], "finish_ts": 2}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (json.dumps(EXECUTION_TRACE).encode(), "is a PyTorch execution trace"),
        (pickle.dumps({"segments": [], "device_traces": []}), "is a CUDA memory snapshot"),
        (json.dumps({"segments": [], "device_traces": []}).encode(), "is a CUDA memory snapshot"),
        (pickle.dumps([1, 2]), "is a Python pickle"),
        (b"SQLite format 3\x00", "is an SQLite database"),
        (b'{"cells": [], "nbformat": 4}', "is a Jupyter notebook"),
        (b'{"a": 1, "b": 2}', r"is JSON without `traceEvents` \(it has `a`, `b`\)"),
        (b'{"traceEvents": null}', "its `traceEvents` is no list"),
        (b"[1, 2, 3]", "is JSON without `traceEvents`"),
        (b'"text"', "is JSON without `traceEvents`"),
        (b"[" * 100_000, "no JSON with `traceEvents`"),
        (b"hello", "no JSON with `traceEvents`"),
        (b"\x00\x01\x02", "no JSON with `traceEvents`"),
        (b"   ", "no JSON with `traceEvents`"),
    ],
)
def test_what_is_no_trace_is_named(tmp_path: Path, data: bytes, message: str) -> None:
    """One line that says what the file is, and a hint; never a traceback."""
    path = tmp_path / "x.json"
    path.write_bytes(data)
    with pytest.raises(TraceError, match=message) as raised:
        read_trace(path)
    assert "\n" not in raised.value.message
    assert raised.value.hint


@pytest.mark.parametrize("data", [b"[]", b'{"traceEvents": []}', b'{"traceEvents":[\n]}\r\n'])
def test_a_trace_without_events_is_a_trace(tmp_path: Path, data: bytes) -> None:
    """Empty lists are what a schedule that never became active leaves."""
    path = tmp_path / "x.json"
    path.write_bytes(data)
    assert len(read_trace(path).columns) == 0
