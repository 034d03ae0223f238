"""``foretrace open``: one file, one origin, one fetch."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from foretrace.cli.app import main
from foretrace.errors import InputError
from foretrace.share.local import TraceServer, origin_of, sound_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DATA = Path(__file__).parent.parent / "data"
EAGER = DATA / "h200" / "mlp_1x1x768x3072_eager.json.gz"
PAGE = "https://ui.perfetto.dev"


@contextmanager
def served(path: Path) -> Iterator[TraceServer]:
    """A server on a free port, with the thread that runs it as `thread`."""
    with TraceServer(path, port=0) as server:
        thread = threading.Thread(target=server.until_fetched, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(5)
            assert not thread.is_alive()


def wait_until(holds: Callable[[], bool]) -> None:
    """The last byte arrives a moment before the server knows that it did."""
    deadline = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def ask(server: TraceServer, path: str, method: str = "GET", **headers: str) -> tuple[http.client.HTTPResponse, bytes]:
    """One request, with the page's origin unless another is given."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    sent = {"Origin": PAGE, **{name.replace("_", "-"): value for name, value in headers.items()}}
    connection.request(method, path, headers={name: value for name, value in sent.items() if value})
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response, body


def test_the_page_gets_the_file_once(tmp_path: Path) -> None:
    """The bytes of the file, with that origin allowed and no other, and the server ends."""
    trace = tmp_path / "a trace ü.json.gz"
    trace.write_bytes(EAGER.read_bytes())
    with served(trace) as server:
        assert server.url.endswith("/a%20trace%20%C3%BC.json.gz")
        response, body = ask(server, "/a%20trace%20%C3%BC.json.gz")
        assert (response.status, body) == (200, EAGER.read_bytes())
        assert response.headers["Access-Control-Allow-Origin"] == PAGE
        assert response.headers["Vary"] == "Origin"
        assert response.headers["Content-Encoding"] is None
        assert response.headers["Cache-Control"] == "no-store"
        wait_until(lambda: server.fetched)


def test_a_preflight_is_answered_and_counts_as_no_fetch() -> None:
    """Browsers ask first whether a public page may reach this machine."""
    with served(EAGER) as server:
        response, _ = ask(server, f"/{EAGER.name}", "OPTIONS", Access_Control_Request_Private_Network="true")
        assert response.status == 204
        assert response.headers["Access-Control-Allow-Private-Network"] == "true"
        assert response.headers["Access-Control-Allow-Origin"] == PAGE
        response, body = ask(server, f"/{EAGER.name}", "HEAD")
        assert (response.status, body) == (200, b"")
        assert not server.fetched


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "https://ui.perfetto.dev.evil.example", "http://ui.perfetto.dev", "null", ""]
)
def test_another_origin_is_refused(origin: str) -> None:
    """Another page, one that looks alike, and a request that names none get nothing of the file."""
    with served(EAGER) as server:
        response, body = ask(server, f"/{EAGER.name}", Origin=origin)
        assert response.status == 403
        assert response.headers["Access-Control-Allow-Origin"] is None
        assert EAGER.read_bytes()[:64] not in body
        assert not server.fetched


def test_a_name_that_points_here_is_refused() -> None:
    """A foreign host name that resolves to this machine (DNS rebinding) is not this server's."""
    with served(EAGER) as server:
        assert ask(server, f"/{EAGER.name}", Host="evil.example:9001")[0].status == 403


@pytest.mark.parametrize(
    "path",
    [
        "/", "/../secret", "/%2e%2e/secret", "/..%2fsecret", "//etc/passwd", "/%2fetc%2fpasswd", "/secret",
        f"/x/../{EAGER.name}", f"/{EAGER.name}/..", f"/{EAGER.name}%00", "/%5c..%5csecret", "/" + "a" * 5000,
    ],
)  # fmt: skip
def test_any_other_path_is_refused(path: str, tmp_path: Path) -> None:
    """Neighbours of the file, parents and system files are not there, however they are spelled."""
    trace = tmp_path / EAGER.name
    trace.write_bytes(EAGER.read_bytes())
    (tmp_path / "secret").write_text("secret")
    with served(trace) as server:
        response, body = ask(server, path)
        assert response.status == 404
        assert b"root:" not in body
        assert not server.fetched


def test_other_methods_are_refused() -> None:
    """Nothing can be written."""
    with served(EAGER) as server:
        assert ask(server, f"/{EAGER.name}", "PUT")[0].status == 501


def test_a_sound_file_is_served_as_it_is() -> None:
    """No copy of a plain or compressed trace is made."""
    with sound_file(str(EAGER)) as (path, notes):
        assert (path, notes) == (EAGER, ())


@pytest.mark.parametrize("name", ["c07_truncated.json", "c07d_truncated.json.gz", "c04_ctrl.json", "c10c_bom.json"])
def test_a_malformed_file_is_served_as_sound_json(name: str) -> None:
    """A truncated trace, one with raw control characters and one with a byte order mark become what a parser reads."""
    with sound_file(str(DATA / "cases" / name)) as (path, _):
        document = json.loads(path.read_bytes())
        assert document["traceEvents"]
        copy = path
    assert not copy.exists()


def test_a_zip_is_served_unpacked() -> None:
    """A zip archive becomes the trace in it."""
    with sound_file(str(DATA / "cases" / "c10d.pt.trace.json.zip")) as (path, _):
        assert json.loads(path.read_bytes())["traceEvents"]


def test_a_port_in_use_is_an_error_with_the_way_out(capsys: pytest.CaptureFixture[str]) -> None:
    """The second server on a port says so instead of a traceback."""
    with served(EAGER) as server:
        assert main(["open", str(EAGER), "--no-browser", "--port", str(server.server_port)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"error: port {server.server_port} of this machine is in use\n\nhint: ")


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["--kernel", "k", "--step", "2"], "error: `--kernel` and `--step` were both given"),
        (["--perfetto", "ftp://x"], "error: `ftp://x` is no address of a page"),
        (["--step", "99"], "error: no step 99 in this trace"),
    ],
)
def test_what_cannot_be_opened(argv: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Wrong options end before anything is served."""
    assert main(["open", str(EAGER), "--no-browser", "--port", "0", *argv]) == 2
    assert capsys.readouterr().err.startswith(text)


def test_origins() -> None:
    """The origin of a page is its scheme and host, whatever its path."""
    assert origin_of("http://localhost:10000/x/#!/y") == "http://localhost:10000"
    with pytest.raises(InputError):
        origin_of("ui.perfetto.dev")


def interruptible() -> None:
    """Take interrupts, though the tests may run where they are ignored (in the background of a script)."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def command(*argv: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`foretrace open` as a person runs it, and the address that it printed."""
    program = [sys.executable, "-m", "foretrace", "open", *argv, "--no-browser", "--port", "0"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    before = interruptible if os.name != "nt" else None
    with subprocess.Popen(program, **pipes, preexec_fn=before) as process:  # noqa: PLW1509 - takes no lock
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def test_the_command_serves_until_fetched() -> None:
    """One line on stdout is the address, deep link included; after the fetch the command ends with 0."""
    with command(str(EAGER), "--kernel", "splitKreduce") as (process, address):
        assert address.startswith("https://ui.perfetto.dev/#!/?url=http%3A%2F%2F127.0.0.1%3A")
        assert "&visStart=" in address
        port = int(address.partition("127.0.0.1%3A")[2].partition("%2F")[0])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("GET", f"/{EAGER.name}", headers={"Origin": PAGE})
        assert connection.getresponse().read() == EAGER.read_bytes()
        out, err = process.communicate(timeout=30)
        assert process.returncode == 0
        assert out == ""
        assert "fetched: the trace is in the browser now" in err


@pytest.mark.skipif(os.name == "nt", reason="signals are sent as POSIX does")
def test_control_c_ends_it() -> None:
    """An interrupt ends the command without a traceback."""
    with command(str(EAGER)) as (process, _):
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
        assert process.returncode == 130
        assert "Traceback" not in err
