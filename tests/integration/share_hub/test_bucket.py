"""``foretrace share`` against a Hub on loopback, through the real client: what arrives, and what is not sent again."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    Command = Callable[..., subprocess.CompletedProcess[str]]

MLP, LINEAR, MANIFEST = "mlp_1x1x768x3072_eager.json.gz", "linear_1024x32x64_eager.json.gz", "traces.manifest.json"
RECORDED = Path(__file__).parents[2] / "data" / "h200"
SENTENCE = (
    "Overhead-bound while profiled: the GPU works 13.9 µs of 205 µs a step and waits for the host in between"
    " (idle 93.2 %)."
)


def record(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The JSON of a command that went well."""
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def statuses(shared: dict[str, Any]) -> dict[str, str]:
    """Status of each file by its name."""
    return {file["path"]: file["status"] for file in shared["files"]}


def test_the_call_of_the_articles_creates_sends_and_links(hub: Any, foretrace: Command, traces: Path) -> None:
    """`share traces -b traces` with --yes: a public bucket of Ada's, both traces, a manifest, and links that open."""
    assert traces.name == "traces"
    done = foretrace("share", "traces", "-b", "traces", "--yes")
    assert done.returncode == 0, done.stderr
    files = hub.files("ada/traces")
    assert sorted(files) == [LINEAR, MLP, MANIFEST]
    assert hub.buckets["ada/traces"]["private"] is False
    assert gzip.decompress(files[MLP]).count(b'"kernel"') == gzip.decompress((traces / MLP).read_bytes()).count(
        b'"kernel"'
    )
    assert "The bucket was made. 2 files sent" in done.stdout
    links = [line.strip() for line in done.stdout.splitlines() if "ui.perfetto.dev" in line]
    assert len(links) == 2
    parameters = parse_qs(urlsplit(links[1]).fragment[3:])
    assert parameters["url"] == [f"{hub.endpoint}/buckets/ada/traces/resolve/{MLP}"]
    assert set(parameters) == {"url", "visStart", "visEnd", "ts", "dur"}


def test_the_manifest_reads_each_trace_in_one_sentence(hub: Any, foretrace: Command, traces: Path) -> None:
    """It names every file with its address, its link and its reading, and goes last."""
    del traces
    foretrace("share", "traces", "-b", "traces", "--yes")
    manifest = json.loads(hub.files("ada/traces")[MANIFEST])
    assert manifest["schema"] == "foretrace.manifest/1"
    assert manifest["redacted"] is True
    entry = next(file for file in manifest["files"] if file["path"] == MLP)
    assert entry["sentence"] == SENTENCE
    assert entry["opens_on"] == "ProfilerStep#2"
    assert list(hub.buckets["ada/traces"]["files"])[-1] == MANIFEST


def test_what_is_there_is_not_sent_again(hub: Any, foretrace: Command, traces: Path) -> None:
    """The second time no block and no commit is sent; one changed file is sent alone, with the manifest."""
    arguments = ("share", "traces", "-b", "traces", "--yes", "--format", "json")
    assert statuses(record(foretrace(*arguments))) == {LINEAR: "new", MLP: "new"}
    assert hub.sent()
    assert statuses(record(foretrace(*arguments))) == {LINEAR: "unchanged", MLP: "unchanged"}
    commits = [line for line in hub.requests if line.endswith("/batch")]
    assert (hub.sent(), commits) == ([], [])
    shutil.copy(traces / MLP, traces / LINEAR)
    before = dict(hub.buckets["ada/traces"]["files"])
    assert statuses(record(foretrace(*arguments))) == {LINEAR: "changed", MLP: "unchanged"}
    after = hub.buckets["ada/traces"]["files"]
    assert after[MLP] == before[MLP]
    assert after[LINEAR]["hash"] == after[MLP]["hash"]


def test_a_dry_run_sends_nothing(hub: Any, foretrace: Command, traces: Path) -> None:
    """It says what would be sent and makes no bucket, and needs no answer."""
    del traces
    done = foretrace("share", "traces", "-b", "traces", "--dry-run")
    assert done.returncode == 0
    assert "The bucket would be made. 2 files would be sent" in done.stdout
    assert "ui.perfetto.dev" not in done.stdout
    assert hub.buckets == {}
    assert not [line for line in hub.requests if line.startswith("POST")]


@pytest.mark.parametrize("where", [("-b", "traces", "-n", "lovelace"), ("-b", "lovelace/traces")])
def test_a_dry_run_needs_no_login_where_the_namespace_is_given(
    where: tuple[str, ...], hub: Any, foretrace: Command, traces: Path
) -> None:
    """What would be sent is said; what is there already is unknown, and the Hub is not asked."""
    del traces
    done = foretrace("share", "traces", *where, "--dry-run", token=None)
    assert done.returncode == 0
    assert "2 files would be sent" in done.stdout
    assert "would be made" not in done.stdout
    assert "nobody is logged in: what is in the bucket already" in done.stdout
    shared = record(foretrace("share", "traces", *where, "--dry-run", "--format", "json", token=None))
    assert (shared["bucket"], shared["created"], set(statuses(shared).values())) == (
        "lovelace/traces",
        None,
        {"unknown"},
    )
    assert hub.requests == []


def test_a_dry_run_without_login_says_what_it_needs(hub: Any, foretrace: Command, traces: Path) -> None:
    """Whose bucket it would be is all that is missing: the hint names the flag, before the way to log in."""
    del traces
    done = foretrace("share", "traces", "-b", "traces", "--dry-run", token=None)
    assert done.returncode == 2
    assert done.stderr.startswith(
        "error: nobody is logged in to the Hugging Face Hub\n\n"
        "hint: a dry run needs no login with `-n NAMESPACE`; else `hf auth login`"
    )
    assert hub.requests == []


def test_a_folder_that_is_not_there_is_told_before_the_hub_is_asked(hub: Any, foretrace: Command) -> None:
    """Nobody has to log in to learn of a typo."""
    done = foretrace("share", "tarces", "-b", "traces", token=None)
    assert done.returncode == 2
    assert done.stderr.startswith("error: no folder `tarces`")
    assert hub.requests == []


def test_a_bucket_is_not_made_unasked(hub: Any, foretrace: Command, traces: Path) -> None:
    """Without a terminal and without --yes the command says how to go on."""
    del traces
    done = foretrace("share", "traces", "-b", "traces")
    assert done.returncode == 2
    assert done.stderr.endswith(
        "error: bucket `ada/traces` is not there and was not made\n\nhint: make it with `--yes`\n"
    )
    assert hub.buckets == {}


def test_at_a_terminal_it_asks(hub: Any, foretrace: Command, traces: Path) -> None:
    """The question names the bucket and who can read it; only a yes makes it, and the second time nothing is asked."""
    del traces
    done = foretrace("share", "traces", "-b", "traces", answer="no")
    assert "make the public bucket `ada/traces`? [y/N]" in done.stderr
    assert (done.returncode, hub.buckets) == (2, {})
    assert foretrace("share", "traces", "-b", "traces", answer="y").returncode == 0
    assert sorted(hub.buckets["ada/traces"]["files"]) == [LINEAR, MLP, MANIFEST]
    assert "[y/N]" not in foretrace("share", "traces", "-b", "traces", answer="").stderr


def test_private_buckets(hub: Any, foretrace: Command, traces: Path) -> None:
    """--private makes a private one in the namespace that was named and says that links do not open; no public one."""
    del traces
    done = foretrace("share", "traces", "-b", "traces", "-n", "lab", "--private", "--yes")
    assert done.returncode == 0, done.stderr
    assert hub.buckets["lab/traces"]["private"] is True
    assert "private: Perfetto's page cannot log in" in " ".join(done.stdout.split())
    hub.buckets["lab/open"] = {"private": False, "files": {}}
    done = foretrace("share", "traces", "-b", "lab/open", "--private")
    assert done.returncode == 2
    assert "error: bucket `lab/open` is public" in done.stderr
    assert hub.buckets["lab/open"]["files"] == {}


def test_a_private_trace_is_read_by_those_who_may(foretrace: Command, traces: Path) -> None:
    """The address that the note names reads like the file here."""
    foretrace("share", "traces", "-b", "traces", "--private", "--yes")
    there = foretrace("read", f"hf://buckets/ada/traces/{MLP}", "--ask", "bound")
    here = foretrace("read", str(traces / MLP), "--ask", "bound")
    assert there.returncode == 0, there.stderr
    assert there.stdout == here.stdout


def test_nothing_private_leaves_the_machine(hub: Any, foretrace: Command, tmp_path: Path) -> None:
    """Tokens, homes and hosts are in no file, no name and no manifest; --no-redact sends the bytes as they are."""
    folder = tmp_path / "runs"
    folder.mkdir()
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    kernel = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 5, "dur": 2, "args": {"stream": 7}}
    private = {**kernel, "name": f"/home/ada.l/x.py(1): f {token}", "cat": "cpu_op", "pid": 1}
    trace = {"schemaVersion": 1, "env": {"GH": token}, "hostname": "gpu-node-7", "traceEvents": [kernel, private]}
    name = "gpu-node-7_4711.1790857026000000000.pt.trace.json"
    (folder / name).write_text(json.dumps(trace))
    (folder / "report.html").write_text(f"<p>{token} on /home/ada.l/runs</p>")
    (folder / "gpu-node-7_4711.1790857026000000000.pt.trace.env.json").write_text(json.dumps({"command": f"x {token}"}))
    shared = record(foretrace("share", "runs", "-b", "runs", "--yes", "--format", "json"))
    files = hub.files("ada/runs")
    public = "worker_4711.1790857026000000000.pt.trace.json"
    beside = "worker_4711.1790857026000000000.pt.trace.env.json"
    assert sorted(files) == ["report.html", "runs.manifest.json", beside, public]
    everything = b"".join(files.values()).decode() + "".join(files)
    for secret in (token, "ada.l", "gpu-node-7"):
        assert secret not in everything
    assert json.loads(files[public])["traceEvents"][0] == kernel
    assert sum(file["removed"].get("token", 0) for file in shared["files"]) == 3
    assert token in (folder / name).read_text()
    record(foretrace("share", "runs", "-b", "raw", "--yes", "--no-redact", "--format", "json"))
    assert hub.files("ada/raw")[name] == (folder / name).read_bytes()


def test_names_are_percent_encoded_once(hub: Any, foretrace: Command, traces: Path) -> None:
    """Spaces, plus, hash, percent and letters beyond ASCII in a name lead to the file."""
    odd = "sub dir/ü 100%+#1.json.gz"
    (traces / "sub dir").mkdir()
    (traces / MLP).rename(traces / odd)
    (traces / LINEAR).unlink()
    shared = record(foretrace("share", "traces", "-b", "traces", "--yes", "--format", "json"))
    file = shared["files"][0]
    assert file["path"] == odd
    assert file["url"] == f"{hub.endpoint}/buckets/ada/traces/resolve/sub%20dir/%C3%BC%20100%25%2B%231.json.gz"
    assert parse_qs(urlsplit(file["perfetto"]).fragment[3:])["url"] == [file["url"]]
    assert odd in hub.files("ada/traces")


def test_links_open_on_a_named_kernel(foretrace: Command, traces: Path) -> None:
    """--kernel opens traces that have it there, and the others on their slowest step; -f names the folder too."""
    del traces
    done = foretrace("share", "-f", "traces", "-b", "traces", "--yes", "--kernel", "splitKreduce", "--format", "json")
    opens = {file["path"]: file["opens_on"] for file in record(done)["files"]}
    assert "splitKreduce" in opens[MLP]
    assert opens[LINEAR].startswith("ProfilerStep#")


def test_one_broken_trace_does_not_stop_the_others(hub: Any, foretrace: Command, traces: Path) -> None:
    """A file that cannot be redacted is not sent and is named; the rest is shared, and the exit code says so."""
    second = '{"schemaVersion": 1, "traceEvents": ['
    (traces / "broken.json").write_text(second + '{"ph": "X", "name": "a",' + second * 2)
    done = foretrace("share", "traces", "-b", "traces", "--yes", "--format", "json")
    assert done.returncode == 1
    assert statuses(json.loads(done.stdout)) == {LINEAR: "new", MLP: "new", "broken.json": "failed"}
    assert "broken.json" not in hub.files("ada/traces")
    assert "broken.json" not in hub.files("ada/traces")[MANIFEST].decode()


def test_tensorboard_folders_are_found(hub: Any, foretrace: Command, tmp_path: Path) -> None:
    """What the profiler's TensorBoard handler writes, below a run's folder, is shared under names without the host."""
    folder = tmp_path / "log" / "run1"
    folder.mkdir(parents=True)
    name = "box.local_77.1790857026000000000.pt.trace.json.gz"
    shutil.copy(RECORDED / MLP, folder / name)
    record(foretrace("share", "log", "-b", "tb", "--yes", "--format", "json"))
    assert "run1/worker_77.1790857026000000000.pt.trace.json.gz" in hub.files("ada/tb")
