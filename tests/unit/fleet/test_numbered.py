"""Files that say which collective it is, and whom a message goes to (PyTorch 2.13)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from foretrace.fleet import Fleet, Summary, summarize
from foretrace.fleet.jobs import jobs_of
from foretrace.fleet.merge import meet
from foretrace.fleet.summary import Group, Part, StepTimes
from foretrace.render.to_terminal import to_terminal
from foretrace.report.fleet import fleet_document

if TYPE_CHECKING:
    from pathlib import Path

US = 1_000
PIPELINE = Group("1", "[0, 1, 2, 3]", None)


def part(start: int, end: int, **said: Any) -> Part:
    """A kernel of the pipeline's group; times in µs."""
    given = {"step": None, "group": PIPELINE, "kind": "all-reduce", "moved_bytes": 8, "exposed_ns": 0, **said}
    return Part(start_ns=start * US, end_ns=end * US, **given)


def summary(rank: int, *parts: Part) -> Summary:
    """A rank of four, without steps."""
    return Summary(f"rank{rank}.json", rank, 4, None, None, 0, 1_000 * US, (), parts, ())


def test_windows_that_begin_apart() -> None:
    """The numbers match; by their order the first of rank 0 would be taken for the first of rank 1."""
    ranks = {
        0: summary(0, *(part(100 * n, 100 * n + 60, sequence=n) for n in (3, 4, 5, 6))),
        1: summary(1, *(part(100 * n + 50, 100 * n + 60, sequence=n) for n in (5, 6, 7))),
    }
    found = meet(ranks)
    assert [(m.ranks, m.start_ns) for m in found.met] == [((0, 1), (100 * n * US, (100 * n + 50) * US)) for n in (5, 6)]
    assert (found.unmatched, found.odd_ranks, found.ahead_ns, found.counted) == (3, (), {}, True)
    shown = to_terminal(fleet_document(Fleet(tuple(jobs_of([*ranks.values()])), ())))
    assert "3 kernels of collectives left out" in shown
    assert "they wait 0 ns in all, in their median" in shown
    assert "by their order alone" not in shown


def test_a_pipeline() -> None:
    """Rank 1 receives from 0 and sends to 2 in one step; each message meets its own end, whatever lies between."""
    ranks = {
        0: summary(0, part(0, 50, kind="send", peer=1), part(100, 150, kind="send", peer=1)),
        1: summary(
            1,
            part(10, 50, kind="recv", peer=0),
            part(60, 90, kind="send", peer=2),
            part(110, 150, kind="recv", peer=0),
        ),
        2: summary(2, part(20, 90, kind="recv", peer=1)),
    }
    met = meet(ranks).met
    assert [(m.kind, m.ranks, m.start_ns) for m in met] == [
        ("send and recv", (0, 1), (0, 10 * US)),
        ("send and recv", (1, 2), (60 * US, 20 * US)),
        ("send and recv", (0, 1), (100 * US, 110 * US)),
    ]


def test_messages_are_matched_by_their_order_whatever_their_numbers() -> None:
    """A number counts what a rank sends and receives, not what two ranks do: windows that begin apart are warned of."""
    ranks = {
        0: summary(0, *(part(100 * n, 100 * n + 60, kind="send", peer=1, sequence=n) for n in (3, 4, 5))),
        1: summary(1, *(part(100 * n + 5, 100 * n + 60, kind="recv", peer=0, sequence=n) for n in (4, 5, 6))),
    }
    assert not meet(ranks).counted
    shown = " ".join(to_terminal(fleet_document(Fleet(tuple(jobs_of([*ranks.values()])), ()))).split())
    assert "(windows that do not match would look the same)" in shown
    assert "without steps messages, and collectives that the files do not number, are paired by their order" in shown


def test_two_ranks_of_a_larger_group_need_not_talk_to_each_other() -> None:
    """Without peers nothing is matched; a collective beside them is."""
    ranks = {
        0: summary(0, part(0, 50, kind="send"), part(60, 100)),
        1: summary(1, part(10, 50, kind="recv"), part(70, 100)),
    }
    found = meet(ranks)
    assert [(m.kind, m.ranks) for m in found.met] == [("all-reduce", (0, 1))]
    assert found.unmatched == 2


def test_what_a_file_says(tmp_path: Path) -> None:
    """``Seq``, ``Src Rank`` and ``Dst Rank`` of a kernel."""
    said = {"Process Group Name": "1", "Process Group Ranks": "[0, 1]", "In msg nelems": 4, "dtype": "Float"}
    kernels = [
        {"Collective name": "allreduce", "Seq": 7, **said},
        {"Collective name": "send", "Seq": 1, "Dst Rank": 1, **said},
        {"Collective name": "recv", "Seq": 2, "Src Rank": 0, **said},
    ]
    events = [
        {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_SendRecv", "pid": 0, "tid": 7, "ts": 10 * i, "dur": 5}
        | {"args": {"stream": 7, "device": 0, "correlation": i, **args}}
        for i, args in enumerate(kernels, 1)
    ]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events, "distributedInfo": {"rank": 0, "world_size": 2}}))
    found = summarize(str(path)).parts
    assert [(one.kind, one.sequence, one.peer) for one in found] == [
        ("all-reduce", 7, None),
        ("send", 1, 1),
        ("recv", 2, 0),
    ]


def test_without_steps_no_sentence_speaks_of_one() -> None:
    """Of whole traces: rank 1 comes 50 µs late to each of two collectives."""
    whole = (StepTimes(None, 400 * US, 200 * US, 100 * US, 100 * US),)
    late = {0: 0, 1: 50}
    ranks = [
        replace(
            summary(r, *(part(at + us, at + 60, sequence=at, exposed_ns=(60 - us) * US) for at in (0, 100))),
            steps=whole,
        )
        for r, us in late.items()
    ]
    shown = to_terminal(fleet_document(Fleet(tuple(jobs_of(ranks)), ())), width=200)
    assert (
        "Rank 1 holds the others up by 100 µs in all (25.0 % of 400 µs): it came last to 2 of 2 collectives." in shown
    )
    alone = to_terminal(fleet_document(Fleet(tuple(jobs_of(ranks[:1])), ())), width=200)
    assert "One trace: the whole takes 400 µs, its GPU works for 200 µs." in alone
