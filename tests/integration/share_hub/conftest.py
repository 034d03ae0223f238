"""A Hub on loopback: the endpoints of buckets, storage and jobs as the installed client calls them.

Uploads arrive as the storage's own blocks ("xorbs") and lists of what they make up ("shards"), and are put together
again, so that tests look at what really arrived.
"""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DATA = Path(__file__).parents[2] / "data"
TOKEN = "hf_" + "testtesttesttesttesttest"


@dataclass
class Answer:
    """What a request gets instead of the right answer, so many times; ``cut`` closes the connection unanswered."""

    when: Callable[[str, str], bool]
    status: int = 503
    times: int = 1_000_000
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False


class Hub(ThreadingHTTPServer):
    """Buckets with their files, the blocks in storage, jobs, and every request that came."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.buckets: dict[str, dict[str, Any]] = {}
        self.xorbs: dict[str, bytes] = {}
        self.shards: dict[str, list[tuple[str, int, int, int]]] = {}
        self.requests: list[str] = []
        self.answers: list[Answer] = []
        self.jobs: list[dict[str, Any]] = []
        self.on_job: Callable[[dict[str, Any]], object] = str
        self.stages = ["RUNNING", "COMPLETED"]

    @property
    def endpoint(self) -> str:
        """What goes into ``HF_ENDPOINT``."""
        return f"http://127.0.0.1:{self.server_port}"

    def refuse(self, part: str, status: int = 503, *, method: str = "", times: int = 1_000_000, **headers: str) -> None:
        """Answer requests whose path has ``part`` with ``status``."""
        when = lambda verb, path: part in path and method in verb  # noqa: E731 - a closure for one answer
        self.answers.append(Answer(when, status, times, {k.replace("_", "-"): v for k, v in headers.items()}))

    def cut(self, part: str, *, after: int = 0) -> None:
        """Close the connection on requests whose path has ``part``, from the ``after``-th on."""
        seen = iter(range(1_000_000))
        self.answers.append(Answer(lambda _, path: part in path and next(seen) >= after, cut=True))

    def sent(self) -> list[str]:
        """Blocks that were uploaded since the last look, and requests forgotten."""
        found = [line for line in self.requests if line.startswith("POST /v1/xorbs/")]
        self.requests.clear()
        return found

    def files(self, bucket: str) -> dict[str, bytes]:
        """Every file in a bucket, put together from the storage."""
        return {path: self.content(entry["hash"]) for path, entry in self.buckets[bucket]["files"].items()}

    def content(self, file: str) -> bytes:
        """A file's content."""
        return b"".join(
            b"".join(_chunks(self.xorbs[xorb])[first:last]) for xorb, _, first, last in self.shards.get(file, [])
        )

    def keep_shard(self, data: bytes) -> None:
        """Remember of which blocks each file consists (layout: xet-core's ``mdb_shard``)."""
        at = 48
        while data[at : at + 32] != b"\xff" * 32:
            flags, count = struct.unpack_from("<II", data, at + 32)
            entries = [at + 48 * (1 + i) for i in range(count)]
            self.shards[_hex(data[at : at + 32])] = [
                (_hex(data[e : e + 32]), *struct.unpack_from("<III", data, e + 36)) for e in entries
            ]
            at += 48 * (1 + count * (2 if flags >> 31 else 1) + (1 if flags >> 30 & 1 else 0))


def _hex(raw: bytes) -> str:
    """A hash as the storage spells it: four little-endian numbers."""
    return "".join(raw[i : i + 8][::-1].hex() for i in range(0, 32, 8))


def _chunks(xorb: bytes) -> list[bytes]:
    """The chunks of a block; those of incompressible content lie there as they are."""
    found, at = [], 0
    while at + 8 <= len(xorb) and xorb[at] == 0:
        length, scheme = int.from_bytes(xorb[at + 1 : at + 4], "little"), xorb[at + 4]
        chunk = xorb[at + 8 : at + 8 + length]
        found.append(chunk if scheme == 0 else _unpacked(chunk, scheme))
        at += 8 + length
    return found


def _unpacked(chunk: bytes, scheme: int) -> bytes:
    """LZ4 frames of text: literals and matches by hand, so that no package is needed (schemes 1 and 2)."""
    assert scheme == 1, f"compression {scheme} is not read here"
    at = 7 + 8 * (chunk[4] >> 3 & 1)
    checked = chunk[4] >> 4 & 1
    out = bytearray()
    while size := int.from_bytes(chunk[at : at + 4], "little"):
        at += 4
        length = size & 0x7FFFFFFF
        block = chunk[at : at + length]
        out += block if size >> 31 else b""
        if not size >> 31:
            _lz4_block(block, out)
        at += length + 4 * checked
    return bytes(out)


def _lz4_block(block: bytes, out: bytearray) -> None:
    at = 0

    def extended(length: int) -> int:
        nonlocal at
        while length >= 15 and (more := block[at]) is not None:
            at += 1
            length += more
            if more != 255:
                break
        return length

    while at < len(block):
        token = block[at]
        at += 1
        literals = extended(token >> 4)
        out += block[at : at + literals]
        at += literals
        if at >= len(block):
            return
        offset = int.from_bytes(block[at : at + 2], "little")
        at += 2
        for _ in range(extended(token & 15) + 4):
            out.append(out[-offset])


class _Handler(BaseHTTPRequestHandler):
    server: Hub
    protocol_version = "HTTP/1.1"

    def _handle(self) -> None:
        body, path = self._body(), urlsplit(self.path).path
        self.server.requests.append(f"{self.command} {path}")
        for answer in self.server.answers:
            if answer.times and answer.when(self.command, path):
                answer.times -= 1
                if answer.cut:
                    self.close_connection = True
                    self.connection.close()
                    return
                self._say(answer.status, {"error": "injected"}, answer.headers)
                return
        for part, method in (
            ("/api/whoami", self._whoami), ("/api/buckets/", self._bucket), ("/buckets/", self._resolve),
            ("/v1/xorbs/", self._xorb), ("/v2/shards", self._shard), ("/v1/reconstructions/", self._reconstruction),
            ("/v2/reconstructions/", self._reconstruction), ("/api/jobs/", self._job),
        ):  # fmt: skip
            if path.startswith(part):
                method(path, body)
                return
        self._say(404, {"error": "not here"})

    do_GET = do_POST = do_HEAD = do_PUT = _handle  # noqa: N815 - names that the base class calls

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        out = b""
        while length := int(self.rfile.readline(), 16):
            out += self.rfile.read(length)
            self.rfile.readline()
        self.rfile.readline()
        return out

    def _say(self, status: int, content: object = None, headers: dict[str, str] | None = None) -> None:
        raw = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(raw)

    def _whoami(self, _path: str, _body: bytes) -> None:
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self._say(401, {"error": "Invalid credentials"})
            return
        self._say(200, {"name": "ada", "type": "user", "orgs": []})

    def _bucket(self, path: str, body: bytes) -> None:
        namespace, name, *rest = path.removeprefix("/api/buckets/").split("/")
        bucket_id, what = f"{namespace}/{name}", rest[0] if rest else ""
        bucket = self.server.buckets.get(bucket_id)
        if self.command == "POST" and not what:
            private = json.loads(body or b"{}").get("visibility") == "private"
            if bucket is not None:
                self._say(409, {"error": "exists", "url": f"{self.server.endpoint}/buckets/{bucket_id}"})
                return
            self.server.buckets[bucket_id] = {"private": private, "files": {}}
            self._say(200, {"url": f"{self.server.endpoint}/buckets/{bucket_id}"})
        elif bucket is None:
            self._say(404, {"error": "no bucket"}, {"X-Error-Code": "RepoNotFound"})
        elif what in ("xet-write-token", "xet-read-token"):
            self._token()
        elif what == "batch":
            for line in body.splitlines():
                operation = json.loads(line)
                bucket["files"][operation["path"]] = {"hash": operation["xetHash"], "mtime": operation["mtime"]}
            self._say(200, {"success": True, "failed": []})
        elif what == "tree":
            prefix = unquote("/".join(rest[1:]))
            self._say(200, [self._entry(bucket, p) for p in sorted(bucket["files"]) if p.startswith(prefix)])
        elif what == "paths-info":
            wanted = json.loads(body)["paths"]
            self._say(200, [self._entry(bucket, p) for p in wanted if p in bucket["files"]])
        else:
            created = {"createdAt": "2026-01-01T00:00:00.000Z", "size": 0, "totalFiles": len(bucket["files"])}
            self._say(200, {"id": bucket_id, "private": bucket["private"], **created})

    def _entry(self, bucket: dict[str, Any], path: str) -> dict[str, Any]:
        entry = bucket["files"][path]
        size = sum(length for _, length, _, _ in self.server.shards.get(entry["hash"], []))
        return {"type": "file", "path": path, "size": size, "xetHash": entry["hash"]}

    def _token(self) -> None:
        until = int(time.time()) + 3600
        content = {"accessToken": "storage", "exp": until, "casUrl": self.server.endpoint}
        self._say(200, content)

    def _resolve(self, path: str, _body: bytes) -> None:
        namespace, name, _, *rest = path.removeprefix("/buckets/").split("/")
        entry = self.server.buckets[f"{namespace}/{name}"]["files"][unquote("/".join(rest))]
        refresh = f"{self.server.endpoint}/api/buckets/{namespace}/{name}/xet-read-token"
        content = self.server.content(entry["hash"])
        headers = {"X-Xet-Hash": entry["hash"], "X-Xet-Refresh-Route": refresh, "X-Linked-Size": str(len(content))}
        part = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        self._say(206 if part else 200, content[int(part[1]) : int(part[2]) + 1] if part else content, headers)

    def _xorb(self, path: str, body: bytes) -> None:
        name = path.rsplit("/", 1)[1]
        if self.command != "POST":
            self._say(206, self.server.xorbs[name])
            return
        self.server.xorbs[name] = body
        self._say(200, {"was_inserted": True})

    def _shard(self, _path: str, body: bytes) -> None:
        self.server.keep_shard(body)
        self._say(200, b'{"type": "result", "result": 1}\n')

    def _reconstruction(self, path: str, _body: bytes) -> None:
        parts = self.server.shards[path.rsplit("/", 1)[1]]
        terms = [
            {"hash": xorb, "unpacked_length": length, "range": {"start": first, "end": last}}
            for xorb, length, first, last in parts
        ]
        fetch = {
            xorb: [
                {
                    "range": {"start": 0, "end": len(_chunks(self.server.xorbs[xorb]))},
                    "url": f"{self.server.endpoint}/v1/xorbs/default/{xorb}",
                    "url_range": {"start": 0, "end": len(self.server.xorbs[xorb]) - 1},
                }
            ]
            for xorb, *_ in parts
        }
        if path.startswith("/v2/"):
            self._say(404, {"error": "version 1 only"})
            return
        self._say(200, {"offset_into_first_range": 0, "terms": terms, "fetch_info": fetch})

    def _job(self, path: str, body: bytes) -> None:
        if path == "/api/jobs/hardware":
            accelerator = {"type": "gpu", "model": "A100", "quantity": "1", "vram": "80 GB", "manufacturer": "Nvidia"}
            common = {"cpu": "12 vCPU", "ram": "142 GB", "unitLabel": "minute"}
            flavor = {"name": "a100-large", "prettyName": "Nvidia A100 - large", "accelerator": accelerator}
            cost = {"unitCostMicroUSD": 41667, "unitCostUSD": 0.041667}
            self._say(200, [{**flavor, **common, **cost}])
            return
        if self.command == "POST" and not path.endswith("/cancel"):
            job = json.loads(body)
            self.server.jobs.append(job)
            self.server.on_job(job)
            self._say(200, self._info("SCHEDULING"))
        elif path.endswith("/cancel"):
            self._say(200, {})
        elif path.endswith("/logs"):
            lines = "".join(f'data: {{"data": "line {i}", "timestamp": "2026-01-01T00:00:00Z"}}\n\n' for i in (1, 2))
            self._say(200, lines.encode())
        else:
            stages = self.server.stages
            self._say(200, self._info(stages.pop(0) if len(stages) > 1 else stages[0]))

    def _info(self, stage: str) -> dict[str, Any]:
        return {
            "id": "6a0f", "createdAt": "2026-01-01T00:00:00.000Z", "dockerImage": "python:3.12", "command": [],
            "arguments": [], "environment": {}, "secrets": {}, "flavor": "a100-large", "labels": {},
            "status": {"stage": stage, "message": None}, "owner": {"id": "1", "name": "ada", "type": "user"},
        }  # fmt: skip

    def log_message(self, *_: object) -> None:
        """Nothing: `Hub.requests` has it."""


@pytest.fixture
def hub() -> Iterator[Hub]:
    """A Hub without buckets."""
    pytest.importorskip("huggingface_hub", reason="the Hub's client is not installed")
    server = Hub()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def hub_environment(hub: Hub, tmp_path: Path) -> dict[str, str]:
    """Variables under which the client speaks to the Hub on loopback, with Ada's token and no other."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGGING"))}
    return environment | {
        "HF_ENDPOINT": hub.endpoint,
        "HF_TOKEN": TOKEN,
        "HF_HOME": str(tmp_path / "hf"),
        "HF_XET_CLIENT_RETRY_MAX_ATTEMPTS": "1",
        "HF_XET_CLIENT_RETRY_BASE_DELAY": "10ms",
    }


@pytest.fixture
def foretrace(hub_environment: dict[str, str], tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """The command line as a person runs it, with the Hub on loopback and Ada logged in."""

    def run(
        *argv: str, token: str | None = TOKEN, answer: str | None = None, **more: str
    ) -> subprocess.CompletedProcess[str]:
        environment = {**hub_environment, **more}
        if token is None:
            del environment["HF_TOKEN"]
        else:
            environment["HF_TOKEN"] = token
        program = [sys.executable, "-m", "foretrace", *argv]
        with _typed(answer) as stdin:
            return subprocess.run(
                program, stdin=stdin, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120,
                check=False,
            )  # fmt: skip

    return run


@contextmanager
def _typed(answer: str | None) -> Iterator[int]:
    """A terminal on which a person has typed ``answer``; nothing to read from where that is ``None``."""
    if answer is None:
        yield subprocess.DEVNULL
        return
    pty = pytest.importorskip("pty", reason="this system has no pseudo-terminals")
    ours, theirs = pty.openpty()
    os.write(ours, f"{answer}\n".encode())
    try:
        yield theirs
    finally:
        os.close(ours)
        os.close(theirs)


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """A folder `traces` with two recorded traces."""
    folder = tmp_path / "traces"
    folder.mkdir()
    for name in ("mlp_1x1x768x3072_eager.json.gz", "linear_1024x32x64_eager.json.gz"):
        (folder / name).write_bytes((DATA / "h200" / name).read_bytes())
    return folder
