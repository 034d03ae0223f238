"""Folders as TensorBoard's handler writes them."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import pytest

from foretrace.errors import InputError
from foretrace.trace import read_trace, traces_in

if TYPE_CHECKING:
    from pathlib import Path


def write(path: Path, rank: int | None, world: int = 8, *, last: bool = False) -> None:
    """A trace of one op; its rank stands before the events, or after 600 kB of them."""
    events = [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 2}]
    info = {} if rank is None else {"distributedInfo": {"backend": "nccl", "rank": rank, "world_size": world}}
    document = {"traceEvents": events * 7_000, **info} if last else {**info, "traceEvents": events}
    text = json.dumps({"schemaVersion": 1, **document}).encode()
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)


def test_ranks_found_missing_and_repeated_are_listed(tmp_path: Path) -> None:
    """Eight ranks, two of the same millisecond: seven files, told apart by what they say and not by their names."""
    for rank in (0, 1, 2, 3, 4, 6, 7):
        write(tmp_path / f"host_1.170000000000{rank}.pt.trace.json", rank)
    write(tmp_path / "host_1.1700000000009.pt.trace.json.gz", 3)
    with pytest.raises(InputError) as raised:
        read_trace(tmp_path)
    message = raised.value.message
    assert "world_size 8; found ranks 0–4, 6–7; missing 5; rank 3 twice or more" in message
    assert raised.value.hint == (
        "`foretrace fleet` reads them together, `foretrace read` one of them, `foretrace diff` compares two"
    )


@pytest.mark.parametrize("name", ["late.pt.trace.json", "late.pt.trace.json.gz"])
def test_a_rank_after_the_events_is_found(tmp_path: Path, name: str) -> None:
    """The header may follow the events, plain and packed."""
    write(tmp_path / name, 5, last=True)
    assert [(member.rank, member.world_size) for member in traces_in(tmp_path)] == [(5, 8)]


def test_the_only_trace_is_read_and_other_files_are_passed_over(tmp_path: Path) -> None:
    """Environments and other JSON beside a trace are no traces; folders below are looked into."""
    write(tmp_path / "worker" / "host_1.17.pt.trace.json.gz", 0)
    (tmp_path / "worker" / "host_1.17.pt.trace.env.json").write_text('{"schemaVersion": 1}')
    (tmp_path / "config.json").write_text('{"lr": 0.1}')
    assert read_trace(tmp_path).name(0) == "aten::mm"


def test_traces_without_ranks_are_listed_by_name(tmp_path: Path) -> None:
    """Nothing to say about ranks: which files there are."""
    for name in ("a.json", "b.json"):
        write(tmp_path / name, None)
    with pytest.raises(InputError, match=r"2 traces in .*: `a\.json`, `b\.json`"):
        read_trace(tmp_path)


def test_an_empty_folder_says_what_traces_are_called(tmp_path: Path) -> None:
    """The hint names the suffixes."""
    with pytest.raises(InputError, match="no trace in") as raised:
        read_trace(tmp_path)
    assert "*.json.gz" in (raised.value.hint or "")


def test_a_packed_file_that_cannot_be_unpacked_is_not_passed_over(tmp_path: Path) -> None:
    """Reading it says what is wrong; other packed JSON is no trace."""
    (tmp_path / "broken.json.gz").write_bytes(b"\x1f\x8b no gzip")
    (tmp_path / "shard.json.gz").write_bytes(gzip.compress(b'{"rows": [1]}'))
    assert [(member.path.name, member.rank) for member in traces_in(tmp_path)] == [("broken.json.gz", None)]
    with pytest.raises(InputError, match="cannot be unpacked"):
        read_trace(tmp_path)
