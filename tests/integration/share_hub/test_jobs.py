"""``foretrace profile --where hf-jobs`` against a Hub on loopback: what is asked, sent, followed and brought home."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from foretrace.errors import InputError
from foretrace.share.jobs import Flavor, command, most_usd, stage

if TYPE_CHECKING:
    from collections.abc import Callable

    Command = Callable[..., subprocess.CompletedProcess[str]]

EAGER = Path(__file__).parents[2] / "data" / "h200" / "mlp_64x128x768x3072_eager.json.gz"
PROFILE = ("profile", "model/mlp.py:geglu", "--where", "hf-jobs", "--flavor", "a100-large")


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """A model with a helper beside it, and a file that is none of its business."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "mlp.py").write_text("from helper import geglu\n")
    (folder / "helper.py").write_text("def geglu(): ...\n")
    (folder / "weights.bin").write_bytes(b"secret")
    return folder


@pytest.fixture
def leaves_a_trace(hub: Any, foretrace: Command, tmp_path: Path) -> None:
    """Jobs on this Hub write the recorded eager MLP and what capture writes beside it."""
    results = tmp_path / "results"
    results.mkdir()
    (results / "geglu_eager.json.gz").write_bytes(EAGER.read_bytes())
    unprofiled = {"host_ns": 249000, "device_ns": 231000, "calls": 50, "spread": 0.01}
    (results / "geglu_eager.env.json").write_text(json.dumps({"variant": "eager", "unprofiled": unprofiled}))
    assert foretrace("share", "results", "-b", "results", "--yes", "--no-redact").returncode == 0

    def write(job: dict[str, Any]) -> None:
        volume = job["volumes"][0]
        for path, entry in hub.buckets["ada/results"]["files"].items():
            if "manifest" not in path:
                hub.buckets[volume["source"]]["files"][f"{volume['path']}/traces/{path}"] = entry

    hub.on_job = write


@pytest.mark.usefixtures("target", "leaves_a_trace")
def test_a_job_is_submitted_followed_and_read(hub: Any, foretrace: Command, tmp_path: Path) -> None:
    """The code goes to a private bucket, the log comes by, the traces come home, and the report reads them."""
    done = foretrace(*PROFILE, "--yes", "--variants", "eager", "--format", "json", "--", "--dim", "768")
    assert done.returncode == 0, done.stderr
    assert "a100-large: Nvidia A100 - large: 12 vCPU, 142 GB, 1× A100 80 GB; $2.50 an hour" in done.stderr
    assert "sends 2 Python files (helper.py, mlp.py) and foretrace to a private bucket of ada" in done.stderr
    assert "line 1\nline 2\n" in done.stderr
    [variant] = json.loads(done.stdout)["variants"]
    assert (variant["variant"], variant["kernels"], variant["host_ns"]) == ("eager", 5.0, 249000)
    assert (tmp_path / "traces" / "geglu_eager.json.gz").read_bytes() == EAGER.read_bytes()
    assert sorted(path.name for path in (tmp_path / "traces").iterdir()) == [
        "geglu_eager.env.json",
        "geglu_eager.json.gz",
    ]
    [job] = hub.jobs
    assert job["flavor"] == "a100-large"
    assert job["timeoutSeconds"] == 1800
    assert "secrets" not in job
    assert hub.buckets["ada/jobs-artifacts"]["private"] is True
    sent = [path.partition("/")[2] for path in hub.buckets["ada/jobs-artifacts"]["files"]]
    assert {"input/mlp.py", "input/helper.py", "lib/foretrace/__init__.py"} <= set(sent)
    assert not [path for path in sent if path.startswith("input/weights") or "__pycache__" in path]
    asked = job["command"][job["command"].index("python") :]
    assert asked == [
        "python", "-m", "foretrace", "profile", "/data/input/mlp.py:geglu", "--variants", "eager", "--wait", "1",
        "--warmup", "1", "--active", "3", "--out", "/data/traces", "--", "--dim", "768",
    ]  # fmt: skip


@pytest.mark.usefixtures("target")
def test_nothing_is_submitted_unasked(hub: Any, foretrace: Command) -> None:
    """Without --yes and without a terminal it says what it would cost, and submits and sends nothing."""
    done = foretrace(*PROFILE, "--timeout", "90m")
    assert done.returncode == 2
    assert "run for at most 90m, $3.75, on the account of ada?" in done.stderr
    assert done.stderr.endswith("error: nothing was submitted\n\nhint: agree with `--yes`\n")
    assert (hub.jobs, hub.buckets) == ([], {})
    done = foretrace(*PROFILE, answer="n")
    assert "run for at most 30m, $1.25, on the account of ada? [y/N]" in done.stderr
    assert (done.returncode, hub.jobs) == (2, [])


@pytest.mark.usefixtures("target")
def test_flavors_that_are_not_there(hub: Any, foretrace: Command) -> None:
    """A wrong flavor and none: those with a GPU, with their prices."""
    for flavor in (("--flavor", "h900"), ()):
        done = foretrace(*PROFILE[:4], *flavor, "--yes")
        assert done.returncode == 2
        assert done.stderr.endswith("hint: --flavor is one of a100-large ($2.50/h)\n")
    assert hub.jobs == []


@pytest.mark.usefixtures("target")
def test_without_a_token_it_says_what_to_do(foretrace: Command) -> None:
    """The way to log in, before anything else."""
    done = foretrace(*PROFILE, "--yes", token=None)
    assert done.returncode == 2
    assert done.stderr.startswith("error: nobody is logged in to the Hugging Face Hub\n\nhint: `hf auth login`")


@pytest.mark.usefixtures("target")
def test_a_public_bucket_gets_no_code(hub: Any, foretrace: Command) -> None:
    """The bucket for jobs must be private."""
    hub.buckets["ada/jobs-artifacts"] = {"private": False, "files": {}}
    done = foretrace(*PROFILE, "--yes")
    assert done.returncode == 2
    assert "error: bucket `ada/jobs-artifacts` is public" in done.stderr
    assert hub.buckets["ada/jobs-artifacts"]["files"] == {}


@pytest.mark.usefixtures("target")
def test_a_job_that_fails_is_an_error_with_its_page(hub: Any, foretrace: Command) -> None:
    """No trace and a failed job: one error that leads to the log."""
    hub.stages[:] = ["ERROR"]
    done = foretrace(*PROFILE, "--yes")
    assert done.returncode == 2
    assert "error: the job ended with ERROR\n\nhint: its log is above and at " in done.stderr


@pytest.mark.usefixtures("target", "leaves_a_trace")
def test_what_a_failed_job_has_written_is_kept(hub: Any, foretrace: Command, tmp_path: Path) -> None:
    """One variant failed: the others' traces come home, and the report says what failed."""
    hub.stages[:] = ["ERROR"]
    done = foretrace(*PROFILE, "--yes", "--format", "json")
    assert done.returncode == 1, done.stderr
    variants = json.loads(done.stdout)["variants"]
    assert [(row["variant"], row["failed"]) for row in variants] == [
        ("eager", None),
        ("job", "the job ended with ERROR"),
    ]
    assert (tmp_path / "traces" / "geglu_eager.json.gz").exists()


@pytest.mark.skipif(os.name == "nt", reason="signals are sent as POSIX does")
@pytest.mark.usefixtures("target")
def test_an_interrupt_cancels_the_job(hub: Any, hub_environment: dict[str, str], tmp_path: Path) -> None:
    """Control-C while the log runs: the job is cancelled, because it costs money, and that is said."""
    hub.stages[:] = ["RUNNING"]
    program = [sys.executable, "-m", "foretrace", *PROFILE, "--yes"]
    with subprocess.Popen(
        program,
        env=hub_environment,
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        # the tests may run where interrupts are ignored, in the background of a script
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - takes no lock
    ) as process:
        assert process.stderr is not None
        assert any("line 2" in line for line in process.stderr)
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
        process.wait(60)
    assert process.returncode == 130
    assert said.endswith("job 6a0f was cancelled\n")
    assert "POST /api/jobs/ada/6a0f/cancel" in hub.requests


@pytest.mark.usefixtures("target", "leaves_a_trace")
def test_no_trace_is_overwritten(foretrace: Command, tmp_path: Path) -> None:
    """A trace of that name at home stays, and the hint says where the new one is."""
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "geglu_eager.json.gz").write_text("mine")
    done = foretrace(*PROFILE, "--yes")
    assert done.returncode == 2
    assert "is already there\n\nhint: they are at hf://buckets/ada/jobs-artifacts/foretrace-" in done.stderr
    assert (tmp_path / "traces" / "geglu_eager.json.gz").read_text() == "mine"
    assert [path.name for path in (tmp_path / "traces").iterdir()] == ["geglu_eager.json.gz"]


@pytest.mark.parametrize(("timeout", "usd"), [("30m", 1.25), ("2h", 5.0), ("90s", 0.0625), ("3600", 2.5), ("1d", 60.0)])
def test_the_most_that_a_job_costs(timeout: str, usd: float) -> None:
    """The price of an hour times the longest run."""
    assert most_usd(Flavor("x", "", 2.5, has_gpu=True), timeout) == pytest.approx(usd)
    with pytest.raises(InputError, match="`soon` is no duration"):
        most_usd(Flavor("x", "", 2.5, has_gpu=True), "soon")


def test_the_container_gets_what_foretrace_needs() -> None:
    """PyTorch and the package's own requirements, extras left out."""
    made = command(["t.py"])
    packages = [made[i + 1] for i, part in enumerate(made) if part == "--with"]
    assert packages[0].startswith("torch")
    assert any(package.startswith("msgspec") for package in packages)
    assert not any("huggingface" in package or "liger" in package for package in packages)


def test_a_package_is_staged_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a module target the whole package goes, so that its own imports work; a wrong target is an error."""
    package = tmp_path / "home" / "acme"
    (package / "layers").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "layers" / "mlp.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path / "home"))
    called, files = stage("acme.layers:build", tmp_path / "staged")
    assert called == "acme.layers:build"
    assert sorted(path.name for path in files) == ["__init__.py", "mlp.py"]
    assert (tmp_path / "staged" / "input" / "acme" / "layers" / "mlp.py").is_file()
    for wrong in ("nowhere.py:f", "no_such_module_here:f"):
        with pytest.raises(InputError, match="does not exist"):
            stage(wrong, tmp_path / "other")
