"""``foretrace share`` when the Hub refuses, is slow, or goes away: one clear error, no manifest, nothing lost."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Command = Callable[..., subprocess.CompletedProcess[str]]

SHARE = ("share", "traces", "-b", "traces", "--yes")
MLP, LINEAR, MANIFEST = "mlp_1x1x768x3072_eager.json.gz", "linear_1024x32x64_eager.json.gz", "traces.manifest.json"
AGAIN = "run the same command again: what arrived is not sent twice"


def error(done: subprocess.CompletedProcess[str]) -> tuple[str, str]:
    """The one error of a command that failed, and its hint."""
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    [message] = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    return message.removeprefix("error: "), done.stderr.partition("\n\nhint: ")[2].rstrip("\n")


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (None, "nobody is logged in to the Hugging Face Hub"),
        ("hf_" + "wrong" * 5, "the Hub does not accept this token (401): who you are"),
    ],
)
def test_without_a_token_it_says_how_to_log_in(
    token: str | None, message: str, foretrace: Command, traces: Path
) -> None:
    """No token and a wrong one: the way to get one, and the token itself is not repeated."""
    del traces
    done = foretrace(*SHARE, token=token)
    said, hint = error(done)
    assert said == message
    assert hint.startswith("`hf auth login`, or put a token with write access in HF_TOKEN")
    assert token is None or token not in done.stderr


@pytest.mark.parametrize(
    ("status", "headers", "message", "hint"),
    [
        (401, {}, "the Hub does not accept this token (401): bucket `ada/traces`", "`hf auth login`"),
        (403, {}, "this token may not do that (403): bucket `ada/traces`", "use a token with write access there"),
        (404, {}, "not found on the Hub (404): bucket `ada/traces`", "check the names"),
        (429, {"Retry_After": "17"}, "the Hub asks for patience (429): bucket `ada/traces`", "wait 17 s, then run the"),
        (503, {}, "the Hub has a problem of its own (503): bucket `ada/traces`", AGAIN),
    ],
)
def test_a_refused_bucket(
    status: int, headers: dict[str, str], message: str, hint: str, hub: Any, foretrace: Command, traces: Path
) -> None:
    """Each status on making the bucket is one error that says what to do, and nothing was sent."""
    del traces
    hub.refuse("/api/buckets/ada/traces", status, method="POST", **headers)
    said, advice = error(foretrace(*SHARE))
    assert said == message
    assert advice.startswith(hint)
    assert hub.buckets == {}


def test_a_short_refusal_is_waited_out(hub: Any, foretrace: Command, traces: Path) -> None:
    """One 429 with Retry-After and one 503 on the commit are retried by the client, and the share goes well."""
    del traces
    hub.refuse("/batch", 429, times=1, Retry_After="1")
    hub.refuse("/batch", 503, times=1)
    done = foretrace(*SHARE)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(hub.files("ada/traces")) == [LINEAR, MLP, MANIFEST]


def test_a_cut_half_way_loses_nothing(hub: Any, foretrace: Command, tmp_path: Path) -> None:
    """Cut at the second of two commits: the first one's 32 files are there, no manifest; then only the rest is sent."""
    folder = tmp_path / "traces"
    folder.mkdir()
    for number in range(40):
        event = {"ph": "X", "cat": "cpu_op", "name": f"op{number}", "pid": 1, "tid": 1, "ts": 1, "dur": 1}
        (folder / f"{number:02}.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": [event]}))
    hub.cut("/v2/shards", after=1)
    said, hint = error(foretrace(*SHARE))
    assert said.startswith("the connection to the Hub failed: bucket `ada/traces` (32 of 40 files are there): ")
    assert hint == AGAIN
    assert list(hub.buckets["ada/traces"]["files"]) == [f"{number:02}.json" for number in range(32)]
    hub.answers.clear()
    done = foretrace(*SHARE)
    assert done.returncode == 0, done.stderr
    assert "8 files sent" in done.stdout
    assert "32 unchanged" in done.stdout
    assert list(hub.buckets["ada/traces"]["files"]) == [*(f"{number:02}.json" for number in range(40)), MANIFEST]


def test_a_cut_before_the_manifest_leaves_none(hub: Any, foretrace: Command, traces: Path) -> None:
    """The files are there and the manifest is not; the next run sends it alone."""
    del traces
    commits = iter(range(100))
    hub.refuse("/batch", 403)
    hub.answers[0].when = lambda _, path: path.endswith("/batch") and next(commits) >= 1
    said, _ = error(foretrace(*SHARE))
    assert said == "this token may not do that (403): bucket `ada/traces`"
    assert sorted(hub.buckets["ada/traces"]["files"]) == [LINEAR, MLP]
    hub.answers.clear()
    done = foretrace(*SHARE)
    assert "Nothing sent, 2 unchanged." in done.stdout
    assert sorted(hub.buckets["ada/traces"]["files"]) == [LINEAR, MLP, MANIFEST]


def test_no_hub_at_all(foretrace: Command, traces: Path) -> None:
    """Nobody listens: one error, and the hint to try again."""
    del traces
    said, hint = error(foretrace(*SHARE, HF_ENDPOINT="http://127.0.0.1:9"))
    assert said.startswith("the connection to the Hub failed: who you are")
    assert hint == AGAIN


@pytest.mark.parametrize("name", ["a/b/c", "", "/"])
def test_names_that_are_none(name: str, foretrace: Command, traces: Path) -> None:
    """A bucket has one name and one namespace."""
    del traces
    said, _ = error(foretrace("share", "traces", "-b", name, "--yes"))
    assert said.endswith("is no name of a bucket")


def test_an_empty_folder(foretrace: Command, tmp_path: Path) -> None:
    """Nothing to share, and how traces are named; a folder that is not there is said to be so."""
    (tmp_path / "traces").mkdir()
    said, hint = error(foretrace(*SHARE))
    assert said == "no trace in `traces`"
    assert hint.startswith("traces are named *.json")
    assert error(foretrace("share", "nowhere", "-b", "traces"))[0] == "no folder `nowhere`"


def test_two_files_never_become_one(foretrace: Command, traces: Path) -> None:
    """Two hosts' files whose names differ by the host only are not mixed up."""
    for host in ("one", "two"):
        (traces / f"{host}_7.17.pt.trace.json.gz").write_bytes((traces / MLP).read_bytes())
    said, hint = error(foretrace(*SHARE))
    assert "would both be `worker_7.17.pt.trace.json.gz` in the bucket" in said
    assert hint.startswith("rename one")


def test_without_the_client_it_names_the_extra(traces: Path) -> None:
    """The Hub's client is an extra: without it, what to install."""
    code = (
        "import sys; sys.modules['huggingface_hub'] = None\n"
        "from foretrace.cli.app import main\n"
        f"sys.exit(main(['share', {str(traces)!r}, '-b', 'traces']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "error: the Hub's client is not installed\n\nhint: `pip install 'foretrace[hub]'`\n"
