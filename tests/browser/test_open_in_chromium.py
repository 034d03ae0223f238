"""``foretrace open`` as a browser sees it: a stand-in page on loopback fetches the trace; another page may not."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from foretrace.share.local import TraceServer
from foretrace.share.perfetto import link

if TYPE_CHECKING:
    from collections.abc import Iterator

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")

EAGER = Path(__file__).parents[1] / "data" / "h200" / "mlp_64x128x768x3072_eager.json.gz"
SCRIPT = """<!doctype html><title>stand-in</title><script>
(async () => {
  const url = new URLSearchParams(location.hash.slice(4)).get('url');
  let said;
  try {
    const response = await fetch(url);
    const stream = response.body.pipeThrough(new DecompressionStream('gzip'));
    const trace = await new Response(stream).json();
    said = {status: response.status, kernels: trace.traceEvents.filter(e => e.cat === 'kernel').length};
  } catch (error) {
    said = {failed: error.name};
  }
  await fetch('/said', {method: 'POST', body: JSON.stringify(said)});
})();
</script>"""


class _Page(BaseHTTPRequestHandler):
    said: ClassVar[Queue[dict[str, Any]]] = Queue()

    def do_GET(self) -> None:
        body = SCRIPT.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.said.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextmanager
def running(server: ThreadingHTTPServer) -> Iterator[None]:
    """``server`` in a thread."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join(5)


def visited(page: ThreadingHTTPServer, trace: TraceServer, profile: Path) -> dict[str, Any]:
    """What the stand-in page says after it tried to fetch the trace."""
    address = link(trace.url, perfetto=f"http://127.0.0.1:{page.server_port}")
    flags = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", f"--user-data-dir={profile}")
    program = [str(CHROMIUM), *flags, "--remote-debugging-port=0", address]
    with subprocess.Popen(program, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as browser:
        try:
            return _Page.said.get(timeout=60)
        finally:
            browser.kill()


@pytest.mark.parametrize("allowed", [True, False], ids=["the page", "another page"])
def test_only_the_page_can_fetch_the_trace(allowed: bool, tmp_path: Path) -> None:  # noqa: FBT001 - a parameter of pytest
    """From the configured origin all 15 kernels arrive; from another origin the browser gets an error and no byte."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Page) as page, running(page):
        origin = f"http://127.0.0.1:{page.server_port}" if allowed else "https://ui.perfetto.dev"
        with TraceServer(EAGER, origin=origin, port=0) as trace:
            with running(trace):
                said = visited(page, trace, tmp_path)
            assert said == ({"status": 200, "kernels": 15} if allowed else {"failed": "TypeError"})
            assert trace.fetched is allowed
