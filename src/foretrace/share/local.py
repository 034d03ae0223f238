"""One trace, served on this machine to Perfetto's page and to nobody else.

Perfetto's content policy lets its page fetch from ``http://127.0.0.1:9001`` and no other local port. The server answers
requests for that one file which come from that one origin to that one address, and ends when the file was fetched.
"""

from __future__ import annotations

import errno
import shutil
import sys
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

from foretrace.errors import InputError
from foretrace.share.perfetto import PERFETTO
from foretrace.share.rewrite import rewrite, survey
from foretrace.trace.source import BOM, ZIP_MAGIC, load

if TYPE_CHECKING:
    from collections.abc import Iterator

    from foretrace.trace.columns import Note

HOST, PORT = "127.0.0.1", 9001
_IDLE_S = 30


class TraceServer(ThreadingHTTPServer):
    """Serves one file until it was fetched once.

    Args:
        path: The file; its name is the last part of the address.
        origin: The one web origin that may fetch it.
        port: Where to listen; 0 takes any that is free.

    Raises:
        InputError: The port is taken.
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, path: Path, *, origin: str = PERFETTO, port: int = PORT) -> None:
        self.path, self.origin = path, origin
        self.fetched = False
        try:
            super().__init__((HOST, port), _Handler)
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
            raise InputError(
                f"port {port} of this machine is in use",
                hint="Perfetto reads from that port only: stop what uses it, maybe another `foretrace open`",
            ) from None

    @property
    def url(self) -> str:
        """Where the file is."""
        return f"http://{HOST}:{self.server_port}/{quote(self.path.name, safe='')}"

    def handle_error(self, request: object, client_address: object) -> None:
        """A browser that goes away is no error of ours; others are raised as usual."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]

    def until_fetched(self) -> None:
        """Serve until the file was sent in full, or until `KeyboardInterrupt`."""
        self.serve_forever(poll_interval=0.1)


class _Handler(BaseHTTPRequestHandler):
    server: TraceServer
    timeout = _IDLE_S
    server_version, sys_version = "foretrace", ""

    def do_GET(self) -> None:
        """Send the file."""
        if not self._allowed():
            return
        with self.server.path.open("rb") as file:
            self._head(HTTPStatus.OK, self.server.path.stat().st_size)
            shutil.copyfileobj(file, self.wfile)
        self.wfile.flush()
        self.server.fetched = True
        self.server.shutdown()

    def do_HEAD(self) -> None:
        """Say how large it is."""
        if self._allowed():
            self._head(HTTPStatus.OK, self.server.path.stat().st_size)

    def do_OPTIONS(self) -> None:
        """Answer the browser's question whether its page may fetch from this machine."""
        if self._allowed():
            self._head(HTTPStatus.NO_CONTENT, None)

    def _allowed(self) -> bool:
        """Whether the request is for the file, from the page, to this address; otherwise it has been refused."""
        here = {f"{host}:{self.server.server_port}" for host in (HOST, "localhost")}
        if self.headers.get("Host") not in here or self.headers.get("Origin") != self.server.origin:
            self.send_error(HTTPStatus.FORBIDDEN, explain="this trace is served to one page only")
            return False
        if unquote(urlsplit(self.path).path) != f"/{self.server.path.name}":
            self.send_error(HTTPStatus.NOT_FOUND)
            return False
        return True

    def _head(self, status: HTTPStatus, length: int | None) -> None:
        self.send_response(status)
        self.send_header("Access-Control-Allow-Origin", self.server.origin)
        self.send_header("Vary", "Origin")
        if length is None:
            self.send_header("Access-Control-Allow-Methods", "GET, HEAD")
            self.send_header("Access-Control-Allow-Private-Network", "true")
        else:
            self.send_header("Content-Type", "application/octet-stream")
            self.send_header("Content-Length", str(length))
            self.send_header("X-Content-Type-Options", "nosniff")
            self.send_header("Cache-Control", "no-store")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it
        """Say nothing: what is to be told, the command tells."""


def origin_of(url: str) -> str:
    """The web origin of a page: ``https://ui.perfetto.dev``.

    Raises:
        InputError: ``url`` is no address of a page.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise InputError(f"`{url}` is no address of a page", hint=f"give it as `{PERFETTO}`")
    return f"{parts.scheme}://{parts.netloc}"


@contextmanager
def sound_file(trace: str) -> Iterator[tuple[Path, tuple[Note, ...]]]:
    """A file that Perfetto can read, and what had to be repaired: the trace itself, or a repaired copy for a while.

    Raises:
        InputError: The trace cannot be opened.
        TraceError: It is no trace.
    """
    surveyed = survey(load(trace))
    path = Path(surveyed.source.path)
    notes = surveyed.notes
    partial = surveyed.sound_until is not None or any(note.partial for note in notes)
    if not partial and path.is_file() and not _head(path).startswith((BOM, ZIP_MAGIC)):
        del surveyed  # the whole file, while it waits to be fetched
        yield path, notes
        return
    with TemporaryDirectory(prefix="foretrace-") as folder:
        copy = Path(folder) / f"{path.name.split('.', maxsplit=1)[0] or 'trace'}.json"
        with copy.open("wb") as file:
            rewrite(surveyed, file.write)
        del surveyed
        yield copy, notes


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(4)
