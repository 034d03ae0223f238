"""From a path or URL to bytes: containers by their magic, limits in words, paths of every kind."""

from __future__ import annotations

import gzip
import io
import zipfile
from pathlib import Path

import fsspec
import pytest

from foretrace.errors import InputError, MissingDependencyError, TraceError
from foretrace.trace import read_trace, source
from foretrace.trace.source import load, unpack

TRACE = b'{"traceEvents":[{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":5,"dur":3}]}'


def zipped(**members: bytes) -> bytes:
    """A zip archive of ``members``, with double underscores as dots."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name.replace("__", "."), data)
    return out.getvalue()


@pytest.mark.parametrize(
    "packed",
    [
        TRACE,
        b"\xef\xbb\xbf" + TRACE,
        TRACE.decode().encode("utf-16"),
        gzip.compress(TRACE),
        gzip.compress(TRACE[:30]) + gzip.compress(TRACE[30:]),
        gzip.compress(b" " * 3_000_000) + gzip.compress(TRACE) + b"\x00" * 512,
        gzip.compress(gzip.compress(TRACE)),
        zipped(trace__json=TRACE),
        zipped(trace__json__gz=gzip.compress(TRACE)),
        zipped(readme__txt=b"hello", trace__pt__trace__json=TRACE),
        TRACE.replace(b",", b",\r\n"),
        b"\r\n\t " + TRACE + b"\r\n",
    ],
    ids=(
        *("plain", "bom", "utf-16", "gzip", "two-members", "padded-members", "gzip-twice"),
        *("zip", "gzip-in-zip", "zip-of-two", "crlf", "surrounded"),
    ),
)
def test_a_container_is_told_by_its_first_bytes(tmp_path: Path, packed: bytes) -> None:
    """Plain, BOM, UTF-16, gzip (members, padding, twice), zip, Windows newlines: one op of 3 µs, under any name."""
    for name in ("trace.json", "trace.json.gz", "trace.bin"):
        path = tmp_path / name
        path.write_bytes(packed)
        trace = read_trace(path)
        assert [trace.name(0), trace.columns.dur_ns.tolist()] == ["aten::mm", [3_000]]
        assert not any(note.partial for note in trace.notes)


@pytest.mark.parametrize(
    "name",
    ["with spaces.json", "naïve—追跡.json", "back\\slash.json", "per%20cent#and?.json", "[brackets]*.json", "C:x.json"],
)
def test_a_path_is_taken_as_it_is(tmp_path: Path, name: str) -> None:
    """Spaces, other alphabets, backslashes, wildcards and URL characters in names."""
    folder = tmp_path / "a folder · 夹"
    folder.mkdir()
    path = folder / name
    path.write_bytes(TRACE)
    assert read_trace(str(path)).path == str(path)
    assert len(read_trace(folder).columns) == 1


def test_an_fsspec_url_is_opened() -> None:
    """Any scheme that fsspec knows; here its memory file system."""
    with fsspec.open("memory://bucket/trace.json.gz", "wb") as file:
        file.write(gzip.compress(TRACE))
    assert read_trace("memory://bucket/trace.json.gz").name(0) == "aten::mm"


@pytest.mark.parametrize("url", ["memory://nothing/here.json", "nosuchscheme://x/y.json"])
def test_a_url_that_cannot_be_opened_is_an_error_in_words(url: str) -> None:
    """Nothing there, or a scheme that nobody knows."""
    with pytest.raises(InputError) as raised:
        read_trace(url)
    assert url in raised.value.message


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (RuntimeError("403\nforbidden"), InputError),
        (KeyError(), InputError),
        (ImportError("s3fs"), MissingDependencyError),
    ],
)
def test_whatever_a_file_system_raises_becomes_one_line(
    monkeypatch: pytest.MonkeyPatch, raised: Exception, expected: type[InputError]
) -> None:
    """Clients have errors of their own; a missing package is named."""

    def refuse(*_: object) -> None:
        raise raised

    monkeypatch.setattr(fsspec, "open", refuse)
    with pytest.raises(expected) as error:
        read_trace("s3://bucket/trace.json")
    assert error.value.message.startswith("cannot open `s3://bucket/trace.json`: ")
    assert "\n" not in error.value.message


def test_a_gzip_stream_cut_short_keeps_what_unpacks(tmp_path: Path) -> None:
    """The note says gzip, and the complete events are there."""
    events = b",".join(b'{"ph":"X","name":"%d","ts":%d,"dur":1}' % (i, i * 977) for i in range(5_000))
    packed = gzip.compress(b'{"traceEvents":[' + events + b"]}")
    path = tmp_path / "cut.json.gz"
    path.write_bytes(packed[: len(packed) // 2])
    trace = read_trace(path)
    assert 1_000 < len(trace.columns) < 5_000
    assert [note.kind for note in trace.notes if note.partial] == ["gzip-truncated", "truncated"]


def test_a_damaged_gzip_checksum_is_noted(tmp_path: Path) -> None:
    """Everything unpacks and the last eight bytes disagree."""
    path = tmp_path / "damaged.json.gz"
    path.write_bytes(gzip.compress(TRACE)[:-8] + b"\x00" * 8)
    assert "gzip-truncated" in [note.kind for note in read_trace(path).notes]


@pytest.mark.parametrize("packed", [gzip.compress(b"0" * 50_000), zipped(a__json=b"0" * 50_000)], ids=("gzip", "zip"))
def test_a_file_above_the_limit_is_refused(packed: bytes) -> None:
    """Gzip is stopped while it unpacks, zip by what it declares."""
    with pytest.raises(TraceError, match=r"unpacks to more than 20\.0 kB") as raised:
        unpack(packed, "bomb.json.gz", 20_000)
    assert raised.value.hint is not None


@pytest.mark.parametrize(
    "packed", [gzip.compress(b"0" * 9_000_000), zipped(a__json=b"0" * 9_000_000)], ids=("gzip", "zip")
)
def test_a_bomb_is_refused_by_its_ratio(packed: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that shrinks 1,000 times is a trace: refused long before the limit (here from 1 MB on)."""
    monkeypatch.setattr(source, "_RATIO_FROM_BYTES", 1_000_000)
    with pytest.raises(TraceError, match="more than 250 times its size"):
        unpack(packed, "bomb.json.gz")


def test_nested_archives_end(tmp_path: Path) -> None:
    """Archives inside archives are opened three layers deep, not forever."""
    packed = TRACE
    for _ in range(5):
        packed = zipped(trace__json=packed)
    path = tmp_path / "matryoshka.zip"
    path.write_bytes(packed)
    with pytest.raises(TraceError, match="no profiler trace"):
        read_trace(path)


@pytest.mark.parametrize(
    ("packed", "message"),
    [
        (b"", "is empty"),
        (b"\x1f\x8b nonsense", "starts like gzip and cannot be unpacked"),
        (b"PK\x03\x04 nonsense", "is a zip archive that cannot be read"),
        (zipped(archive__data__pkl=b"x", archive__version=b"3"), "is a PyTorch checkpoint"),
    ],
)
def test_what_cannot_be_unpacked_is_an_error_in_words(tmp_path: Path, packed: bytes, message: str) -> None:
    """One line that names the file and what is wrong with it."""
    path = tmp_path / "x.json"
    path.write_bytes(packed)
    with pytest.raises(TraceError, match=message):
        read_trace(path)


@pytest.mark.parametrize("path", ["nowhere/trace.json", "null\x00byte.json", "x" * 5_000])
def test_a_path_that_cannot_be_read_is_an_error_in_words(path: str) -> None:
    """Missing, impossible and overlong paths."""
    with pytest.raises(InputError):
        load(path)


def test_a_whole_path_is_not_taken_for_a_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path works from the working directory."""
    (tmp_path / "trace.json").write_bytes(TRACE)
    monkeypatch.chdir(tmp_path)
    assert read_trace(Path("trace.json")).path == "trace.json"


def test_a_file_that_goes_away_is_not_taken_for_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a folder is searched another process may delete what is in it: the error names the file."""

    def gone(_folder: Path) -> Path:
        raise FileNotFoundError(2, "No such file or directory", "rank0.json")

    monkeypatch.setattr("foretrace.trace.source.only_trace_in", gone)
    with pytest.raises(InputError, match=r"`rank0\.json` went away while the folder"):
        load(tmp_path)
