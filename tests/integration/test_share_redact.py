"""``foretrace redact`` on recorded and malformed traces: the copy reads like the trace."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from foretrace.cli.app import main
from foretrace.report.facts import totals
from foretrace.run import read
from foretrace.share.redacted import redact_page, redact_trace
from foretrace.share.rewrite import rewrite, survey
from foretrace.trace.source import load

DATA = Path(__file__).parent.parent / "data"
RECORDED = sorted([*(DATA / "h200").glob("*.json.gz"), *(DATA / "two_ranks").glob("*.json.gz")])
CASES = sorted(path for path in (DATA / "cases").iterdir() if "interleaved" not in path.name)
NUMBERS = ("index", "start_ns", "dur_ns", "external", "correlation", "stream", "device", "moved_bytes", "sequence")


@pytest.mark.parametrize("path", [*RECORDED, *CASES], ids=lambda path: path.name)
def test_the_copy_reads_like_the_trace(path: Path, tmp_path: Path) -> None:
    """Same totals, steps, times, ids and shapes; what was malformed is sound in the copy."""
    copy = tmp_path / "copy.json"
    redact_trace(path, copy)
    json.loads(copy.read_text(encoding="utf-8"))
    before, after = read(path), read(copy)
    assert totals(after) == totals(before)
    assert [(s.index, s.start_ns, s.dur_ns) for s in after.steps] == [
        (s.index, s.start_ns, s.dur_ns) for s in before.steps
    ]
    assert after.trace.base_ns == before.trace.base_ns
    assert after.rank == before.rank
    assert not after.repaired
    for column in NUMBERS:
        if before.repaired and column == "index":
            continue  # events that cannot be read are not in the copy
        assert np.array_equal(getattr(after.trace.columns, column), getattr(before.trace.columns, column)), column
    shapes = [[run.trace.tables.decoded(int(code)) for code in run.trace.columns.dims] for run in (before, after)]
    assert shapes[0] == shapes[1]


def test_a_sound_trace_is_copied_byte_for_byte(tmp_path: Path) -> None:
    """Where nothing is private, the text of every event is the file's own, digits of times included."""
    path = DATA / "h200" / "mlp_64x128x768x3072_eager.json.gz"
    copy = tmp_path / "copy.json"
    redact_trace(path, copy)
    text = copy.read_text()
    assert '"ts": 5110376737921.133, "dur": 55.744' in text
    assert text.count('"ph"') == load(path).data.count(b'"ph"')


def test_a_malformed_trace_keeps_every_argument(tmp_path: Path) -> None:
    """Mending touches the broken text only: an argument that foretrace has no use for is still there."""
    event = {"ph": "X", "cat": "kernel", "name": "k\x01", "pid": 0, "tid": 7, "ts": 1.5, "args": {"warps per SM": 12.0}}
    raw = json.dumps(event).replace("\\u0001", "\x01")
    (tmp_path / "t.json").write_text(f'{{"schemaVersion": 1, "traceEvents": [{raw}]}}')
    pieces: list[bytes] = []
    rewrite(survey(load(tmp_path / "t.json")), pieces.append)
    assert json.loads(b"".join(pieces))["traceEvents"] == [event]


def test_every_piece_of_a_large_trace_is_redacted(tmp_path: Path) -> None:
    """Two megabytes in many pieces with a private path in each: every one is shortened, none is lost."""
    event = '{{"ph":"X","cat":"cpu_op","name":"/home/ada/x.py({i}): f","pid":1,"tid":1,"ts":{i}.125,"id":"{pad}"}}'
    events = ",".join(event.format(i=i, pad="x" * 100) for i in range(10_000))
    (tmp_path / "t.json").write_text(f'{{"schemaVersion":1,"traceEvents":[{events}],"traceName":"/home/ada/t.json"}}')
    redaction = redact_trace(tmp_path / "t.json", tmp_path / "copy.json")
    written = json.loads((tmp_path / "copy.json").read_text())
    assert [e["name"] for e in written["traceEvents"]] == [f"~/x.py({i}): f" for i in range(10_000)]
    assert [e["ts"] for e in written["traceEvents"]] == [i + 0.125 for i in range(10_000)]
    assert written["traceName"] == "~/t.json"
    assert redaction.counts == {"path": 10_001}


def test_the_command_says_what_it_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One sentence with counts, notes of repairs, and no second copy without --force."""
    source, copy = tmp_path / "t.json", tmp_path / "copy.json.gz"
    token = "hf_" + "a1B2" * 9
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::t", "pid": 1, "tid": 1, "ts": 1, "dur": 1}
    source.write_text(json.dumps({"schemaVersion": 1, "note": token, "traceEvents": [event]}).removesuffix("]}"))
    assert main(["redact", str(source), "-o", str(copy)]) == 0
    out = capsys.readouterr().out
    assert out == (
        f"`{copy}` written: removed 1 token or secret.\n"
        "note: the file ends without its closing brackets, after 1 complete event\n"
    )
    assert main(["redact", str(source), "-o", str(copy)]) == 2
    assert "is already there" in capsys.readouterr().err
    assert main(["redact", str(source), "-o", str(source), "--force"]) == 2
    assert "is the trace itself" in capsys.readouterr().err
    assert token in source.read_text()


def test_a_link_to_a_copy_stays_a_link(tmp_path: Path) -> None:
    """`--force` writes where the link leads."""
    (tmp_path / "old.json").write_text("old")
    link = tmp_path / "link.json"
    link.symlink_to(tmp_path / "old.json")
    assert main(["redact", str(DATA / "h200" / "sdpa.json.gz"), "-o", str(link), "--force"]) == 0
    assert link.is_symlink()
    assert json.loads((tmp_path / "old.json").read_text())["traceEvents"]


def test_a_report_of_a_private_trace_is_cleaned_too(tmp_path: Path) -> None:
    """A token in a kernel's name is in the HTML report and not in its shared copy; a clean report is untouched."""
    token = "glpat-" + "a1B2c3D4e5F6g7H8i9J0"
    events = [
        {
            "ph": "X",
            "cat": "kernel",
            "name": f"k_{i} {token}",
            "pid": 0,
            "tid": 7,
            "ts": i,
            "dur": 1,
            "args": {"stream": 7},
        }
        for i in range(3)
    ]
    (tmp_path / "t.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    for trace, found in ((tmp_path / "t.json", True), (RECORDED[0], False)):
        page, copy = tmp_path / f"{trace.name}.html", tmp_path / f"{trace.name}.copy.html"
        assert main(["read", str(trace), "--format", "html", "-o", str(page)]) == 0
        redact_page(page, copy)
        assert (token in page.read_text(encoding="utf-8")) is found
        assert token not in copy.read_text(encoding="utf-8")
        if not found and str(Path.home()) not in page.read_text(encoding="utf-8"):
            assert copy.read_bytes() == page.read_bytes()
