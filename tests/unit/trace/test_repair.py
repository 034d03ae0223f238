"""Malformed files, each kind of fault alone: what is read all the same, and what the notes count."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from foretrace.errors import TraceError
from foretrace.trace import NONE, read_trace

if TYPE_CHECKING:
    from pathlib import Path

    from foretrace.trace import Trace

GOOD = b'{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":5,"dur":3,"args":{"External id":7}}'
HEAD = b'{"schemaVersion":1,"baseTimeNanoseconds":1000000,"traceEvents":[\n'


def event(name: bytes = b"x", ts: bytes = b"1", dur: bytes = b"2", args: bytes = b"{}") -> bytes:
    """One event with raw bytes for its values; ``name`` without its quotes."""
    return (
        b'{"ph":"X","cat":"python_function","name":"' + name + b'","pid":1,"tid":1,"ts":' + ts + b',"dur":' + dur
        + b',"args":' + args + b"}"
    )  # fmt: skip


def read(folder: Path, text: bytes) -> Trace:
    """The trace in ``text``."""
    path = folder / "trace.json"
    path.write_bytes(text)
    return read_trace(path)


def read_between(folder: Path, broken: bytes) -> Trace:
    """A broken event between two good ones."""
    return read(folder, HEAD + GOOD + b",\n" + broken + b",\n" + GOOD + b'\n],"traceName":"t.json"}')


def names(trace: Trace) -> list[str]:
    """The names of all rows."""
    return [trace.name(row) for row in range(len(trace.columns))]


def repairs(trace: Trace) -> dict[str, int]:
    """What made the file partial, with counts."""
    return {note.kind: note.count for note in trace.notes if note.partial}


@pytest.mark.parametrize(
    ("written", "shown", "kind"),
    [
        (rb"C:\new\torch\_u\x.py(3): f", r"C:\new\torch\_u\x.py(3): f", "backslashes"),
        (rb"\\server\share\a.py", r"\\server\share\a.py", "backslashes"),
        (rb'<lambda>("a", "b")', '<lambda>("a", "b")', "quotes"),
        (rb'{"name": 1, "x": "y"}(2): g', '{"name": 1, "x": "y"}(2): g', "quotes"),
        (b"two\nlines", r"two\nlines", "control-characters"),
        (b"bell\x07 and \x1b[31m", r"bell\x07 and \x1b[31m", "control-characters"),
        (b"half \xf0\x9f of it", "half \ufffd of it", "invalid-utf8"),
        (rb"lone \ud83d surrogate", "lone \ufffd surrogate", None),
    ],
)
def test_a_broken_name_is_read_as_it_stands(tmp_path: Path, written: bytes, shown: str, kind: str | None) -> None:
    """The name appears as the writer meant it, its neighbours are untouched, and the repair is counted once."""
    trace = read_between(tmp_path, event(name=written))
    assert names(trace) == ["aten::mm", shown, "aten::mm"]
    assert trace.columns.dur_ns.tolist() == [3_000, 2_000, 3_000]
    assert repairs(trace) == ({kind: 1} if kind else {})
    assert (trace.metadata["traceName"], trace.base_ns) == ("t.json", 1_001_000)


def test_sound_escapes_in_a_broken_file_are_decoded(tmp_path: Path) -> None:
    """A Windows path in one event leaves the escapes of the others alone."""
    other = event(name=rb"caf\u00e9 \"quoted\" \\ back \ud83d\ude00")
    trace = read_between(tmp_path, event(name=rb"C:\x.py") + b"," + other)
    assert names(trace)[1:3] == [r"C:\x.py", 'café "quoted" \\ back 😀']


def test_a_path_of_valid_escapes_is_not_turned_into_control_characters(tmp_path: Path) -> None:
    r"""``torch\nn\functional.py`` parses as JSON with a newline and a form feed; it is shown as it was written."""
    trace = read(tmp_path, HEAD + event(name=rb"torch\nn\functional.py(12): relu") + b"]}")
    assert names(trace) == [r"torch\nn\functional.py(12): relu"]
    assert repairs(trace) == {}


@pytest.mark.parametrize("word", [b"NaN", b"-nan", b"inf", b"-Infinity", b"N/A", b"nan(ind)", b"-nan(ind)"])
def test_a_number_that_is_none_is_unknown(tmp_path: Path, word: bytes) -> None:
    """As a duration and among arguments; the event stays, and each is counted."""
    trace = read_between(tmp_path, event(dur=word, args=b'{"occupancy %": ' + word + b"}"))
    assert trace.columns.dur_ns.tolist() == [3_000, NONE, 3_000]
    assert repairs(trace) == {"numbers": 2}


@pytest.mark.parametrize(
    ("broken", "kind"),
    [
        (GOOD.replace(b'"tid"', b' tid"'), "keys"),
        (GOOD.replace(b'"tid"', b"tid"), "keys"),
        (GOOD.replace(b"7}}", b"7,},}"), "commas"),
    ],
)
def test_keys_without_quotes_and_idle_commas_are_mended(tmp_path: Path, broken: bytes, kind: str) -> None:
    """The event is read in full."""
    trace = read_between(tmp_path, broken)
    assert names(trace) == ["aten::mm"] * 3
    assert trace.columns.external.tolist() == [7, 7, 7]
    assert set(repairs(trace)) == {kind}


@pytest.mark.parametrize(
    ("field", "value"),
    [(b'"tid":1', b'"tid":1.0'), (b'"ts":5', b'"ts":"5"'), (b'"dur":3', b'"dur":"3"'), (b":7", b':"7"')],
)
def test_numbers_of_another_type_are_read(tmp_path: Path, field: bytes, value: bytes) -> None:
    """Text for numbers and floats for ids, as other writers have them: sound JSON, nothing lost, so not partial."""
    trace = read_between(tmp_path, GOOD.replace(field, value))
    columns = trace.columns
    assert (columns.start_ns[1], columns.dur_ns[1], columns.external[1]) == (0, 3_000, 7)
    assert trace.tables.thread == (1,)
    assert repairs(trace) == {}


@pytest.mark.parametrize("args", [b'{"External id":[1]}', b'"none"', b'{"stream":{}}', b'{"correlation":1.5}'])
def test_values_of_the_wrong_type_are_unknown_and_counted(tmp_path: Path, args: bytes) -> None:
    """The event stays without them."""
    trace = read_between(tmp_path, event(args=args))
    assert len(trace.columns) == 3
    assert trace.columns.external[1] == NONE
    assert repairs(trace) == {"wrong-types": 1}


def test_an_event_beyond_repair_is_skipped_and_counted(tmp_path: Path) -> None:
    """What cannot be read hides nothing else."""
    trace = read_between(tmp_path, b'{"ph":"X","name":"lost","dur":: 3}')
    assert names(trace) == ["aten::mm", "aten::mm"]
    assert repairs(trace) == {"unreadable-events": 1}


def test_a_lost_brace_does_not_hide_the_next_event(tmp_path: Path) -> None:
    """An event whose end is missing is skipped; the one after it is read."""
    trace = read_between(tmp_path, b'{"ph":"X","name":"open","args":{"a":1,\n' + event(name=b"next"))
    assert names(trace) == ["aten::mm", "next", "aten::mm"]
    assert repairs(trace) == {"unreadable-events": 1}


def test_arguments_that_hold_objects_like_events_are_no_events(tmp_path: Path) -> None:
    """A list of objects with names inside an event's arguments, in a file that needs repair elsewhere."""
    nested = event(name=b"outer", args=b'{"list":[{"name":"a"},{"name":"b"},{"name":"c"}]}')
    trace = read_between(tmp_path, event(name=rb"C:\x") + b"," + nested)
    assert names(trace) == ["aten::mm", r"C:\x", "outer", "aten::mm"]


@pytest.mark.parametrize("cut", [1, 3, 40, 90, len(GOOD) - 1])
def test_a_cut_anywhere_keeps_the_complete_events(tmp_path: Path, cut: int) -> None:
    """Two complete events and a part of a third."""
    trace = read(tmp_path, HEAD + GOOD + b",\n" + GOOD + b",\n" + GOOD[:cut])
    assert names(trace) == ["aten::mm"] * 2
    assert [note.text for note in trace.notes if note.partial] == ["truncated after 2 complete events"]


@pytest.mark.parametrize("end", [b"", b"]", b",", b'],"traceName":"x', b'],"traceName":"x",'])
def test_missing_brackets_are_noted(tmp_path: Path, end: bytes) -> None:
    """All events are there; the file's end is not."""
    trace = read(tmp_path, HEAD + GOOD + b",\n" + GOOD + end)
    assert names(trace) == ["aten::mm"] * 2
    assert {"missing-end", "truncated"} & set(repairs(trace))


def test_a_root_list_needs_no_brace(tmp_path: Path) -> None:
    """The legacy form with a trailing comma: closed, and only the comma noted."""
    trace = read(tmp_path, b"[" + GOOD + b",]")
    assert repairs(trace) == {"commas": 1}


def test_a_bracket_between_events_does_not_end_them(tmp_path: Path) -> None:
    """What follows it is read."""
    trace = read(tmp_path, HEAD + GOOD + b"]," + GOOD + b"]}")
    assert names(trace) == ["aten::mm"] * 2
    assert repairs(trace) == {"brackets": 1}


@pytest.mark.parametrize("more", [b"[" + GOOD + b"]", b"x", b"]]"])
def test_what_follows_the_trace_is_said_to_be_left_out(tmp_path: Path, more: bytes) -> None:
    """Never dropped without a word."""
    trace = read(tmp_path, b"[" + GOOD + b"]" + more)
    assert names(trace) == ["aten::mm"]
    assert repairs(trace) == {"trailing": 1}


def test_a_windows_path_in_the_metadata_spoils_neither_end(tmp_path: Path) -> None:
    """Header before and after the events with unescaped paths: events strict, metadata mended, base kept."""
    text = rb'{"baseTimeNanoseconds":5000,"where":"C:\users\x","traceEvents":[' + GOOD + rb'],"traceName":"D:\t.json"}'
    trace = read(tmp_path, text)
    assert (trace.metadata["where"], trace.metadata["traceName"]) == (r"C:\users\x", r"D:\t.json")
    assert trace.base_ns == 10_000
    assert repairs(trace) == {"backslashes": 1}  # the second is sound JSON by accident


def test_metadata_after_repaired_events_is_read(tmp_path: Path) -> None:
    """Rank and base time that follow the events, in a file whose events need repair."""
    tail = b'],"distributedInfo":{"rank":3,"world_size":8},"baseTimeNanoseconds":7000}'
    trace = read(tmp_path, b'{"traceEvents":[' + event(name=rb"C:\x") + tail)
    assert trace.metadata["distributedInfo"] == {"rank": 3, "world_size": 8}
    assert trace.base_ns == 8_000


@pytest.mark.parametrize("second", [b'{"schemaVersion":1,"traceEvents":[', b'{ "schemaVersion" : 1,'])
def test_a_second_trace_inside_is_refused(tmp_path: Path, second: bytes) -> None:
    """Interleaved writers, wherever the second begins."""
    with pytest.raises(TraceError, match="interleaved output of several writers"):
        read(tmp_path, HEAD + GOOD + b"," + GOOD[:30] + second + GOOD[30:] + b"]}")


def test_one_broken_event_among_many_leaves_the_rest_to_the_strict_path(tmp_path: Path) -> None:
    """Several megabytes with two faults far apart: every event is there, in the file's order."""
    many = [event(name=b"n%d" % i, ts=b"%d" % i) for i in range(30_000)]
    many[10_000] = event(name=rb"C:\10000", ts=b"10000")
    many[20_000] = event(name=b"n20000", ts=b"20000", dur=b"nan")
    trace = read(tmp_path, HEAD + b",\n".join(many) + b"]}")
    assert trace.columns.start_ns.tolist() == [1000 * i for i in range(30_000)]
    assert trace.columns.index.tolist() == list(range(30_000))
    assert repairs(trace) == {"backslashes": 1, "numbers": 1}


@pytest.mark.parametrize(
    "filler",
    [
        *(b'\\"', b'"', b'",', b'{"ph":', b'{"ph":"X",', b"}", b"} ", b" ", b",", b"[", b'{"a":', b"\\", b"}]", b"]}"),
        *(b'"traceEvents"', b'},{"ph"', b"9", b"\\ud83d", b"-", b"nan,", b'{"ph":"X","args":[{"a":1}],'),
    ],
)
def test_no_filler_takes_more_than_linear_time(tmp_path: Path, filler: bytes) -> None:
    """300 kB of what makes careless scanners quadratic: seconds would be minutes if any part were."""
    begin = time.process_time()
    read(tmp_path, HEAD + GOOD + b',{"ph":"X","name":"' + filler * (300_000 // len(filler)))
    read(tmp_path, HEAD + GOOD + b"," + filler * (300_000 // len(filler)) + b'"}]}')
    assert time.process_time() - begin < 20


@pytest.mark.parametrize(
    ("end", "metadata"), [(b"]} trailing", {}), (b'], "traceName": "t.json"} trailing', {"traceName": "t.json"})]
)
def test_what_follows_the_trace_does_not_open_it(tmp_path: Path, end: bytes, metadata: dict[str, str]) -> None:
    """A file with its closing brackets and something behind them ends where it says; the rest is counted."""
    trace = read(tmp_path, HEAD + GOOD + end)
    assert repairs(trace) == {"trailing": 1}
    assert names(trace) == ["aten::mm"]
    assert metadata.items() <= trace.metadata.items()


def test_values_of_other_types_are_counted_by_their_events(tmp_path: Path) -> None:
    """One event with three numbers as text and one with a wrong value are an event each, and said to be events."""
    texts = event(ts=b'"1"', dur=b'"2"', args=b'{"External id":"3"}')
    trace = read(tmp_path, HEAD + texts + b"," + event(args=b'{"External id":[3]}') + b"]}")
    assert [note.text for note in trace.notes] == [
        "1 event with a value of another type than expected, unknown",
        "1 event with numbers written as text, read as numbers",
    ]
