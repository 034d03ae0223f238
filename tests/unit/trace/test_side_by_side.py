"""A large file's pieces, decoded by several processes."""

from __future__ import annotations

import gzip
import json
import re
from concurrent.futures import BrokenExecutor, Executor, Future
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from foretrace.processes import Processes
from foretrace.trace import decode, read_trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from foretrace.trace import Trace

DATA = Path(__file__).parents[2] / "data"
TRACES = [
    DATA / "h200" / "llama4_decode1.json.gz",
    DATA / "h200" / "train_mlp_compiled.json.gz",
    DATA / "two_ranks" / "ddp_rank0.json.gz",
    *sorted((DATA / "cases").glob("c*.json")),
]


@pytest.fixture(autouse=True)
def _every_file_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "_LARGE", 0)
    monkeypatch.setattr(decode, "_LEAST_PIECE", 1 << 11)


@pytest.fixture(scope="module")
def two() -> Iterator[Processes]:
    """Two processes."""
    with Processes(2) as executor:
        yield executor


def assert_same(one: Trace, other: Trace) -> None:
    """Everything that was read, the codes too."""
    for name in ("columns", "flows"):
        for column in fields(getattr(one, name)):
            mine, theirs = (getattr(getattr(trace, name), column.name) for trace in (one, other))
            assert mine.dtype == theirs.dtype
            assert np.array_equal(mine, theirs), column.name
    for name in ("metadata", "base_ns", "tables", "process_labels", "thread_names", "collectives", "notes"):
        assert getattr(one, name) == getattr(other, name), name


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.name)
def test_the_same_is_read(path: Path, two: Processes) -> None:
    """Sound files and malformed ones: columns, tables, notes."""
    try:
        expected = read_trace(path)
    except Exception as error:  # noqa: BLE001 - whichever it is, it is the same
        with pytest.raises(type(error), match=re.escape(str(error))):
            read_trace(path, executor=two)
    else:
        assert_same(read_trace(path, executor=two), expected)


def test_pairs_and_labels_across_pieces(tmp_path: Path, two: Processes) -> None:
    """A slice begins in one piece and ends in another; rows of metadata and counters lie between."""
    events: list[dict[str, Any]] = [{"ph": "B", "name": "outer", "pid": 1, "tid": 1, "ts": 1}]
    for i in range(400):
        events.append({"ph": "X", "cat": "cpu_op", "name": f"op {i % 7}", "pid": 1, "tid": 1, "ts": 2 + i, "dur": 0.5})
        events.append({"ph": "C", "name": "memory", "pid": 1, "ts": 2 + i, "args": {"bytes": i}})
        events.append({"ph": "M", "name": "thread_name", "pid": 1, "tid": i % 9, "args": {"name": f"thread {i % 9}"}})
    events.append({"ph": "E", "pid": 1, "tid": 1, "ts": 900})
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    found = read_trace(path, executor=two)
    assert_same(found, read_trace(path))
    assert (len(found.columns), found.thread_names[1, 8]) == (401, "thread 8")


class Dying(Executor):
    """Does some work, then its processes are gone."""

    def __init__(self, lives: int) -> None:
        self.lives = lives

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run it at once, while there are lives."""
        future: Future[Any] = Future()
        if self.lives:
            self.lives -= 1
            future.set_result(fn(*args, **kwargs))
        else:
            future.set_exception(BrokenExecutor())
        return future


@pytest.mark.parametrize("lives", [0, 5])
def test_without_workers_the_rest_is_read_here(lives: int) -> None:
    """Processes that cannot start or are killed cost time, and nothing of the trace."""
    executor = Dying(lives)
    assert_same(read_trace(TRACES[0], executor=executor), read_trace(TRACES[0]))
    assert not executor.lives


def test_no_process_for_a_small_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Starting one takes longer than reading it."""
    monkeypatch.undo()
    path = tmp_path / "trace.json"
    path.write_bytes(gzip.decompress(TRACES[0].read_bytes()))
    executor = Dying(0)
    executor.submit = pytest.fail  # type: ignore[method-assign]
    assert len(read_trace(path, executor=executor).columns)
