"""``foretrace fleet`` on recorded ranks: against figures taken from the files, on processes and on a cluster."""

from __future__ import annotations

import gzip
import json
import shutil
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from foretrace.cli.app import main
from foretrace.fleet import read_fleet, summarize

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RANKS = Path(__file__).parents[1] / "data" / "two_ranks"


@pytest.fixture
def straggler(tmp_path: Path) -> Path:
    """DDP on two H200s; rank 1 slept 4 ms before each step."""
    for file in RANKS.glob("ddp_straggler_*"):
        shutil.copy(file, tmp_path)
    return tmp_path


def told(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, Any]:
    """The JSON of a fleet."""
    assert main(["fleet", *arguments, "--format", "json"]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


# steps' first all-reduces apart, and the others, ms, from the kernels' starts in the files; and the rank that came last
APART = {
    "ddp_rank#.json.gz": ((1.6, 2.1), (0.9, 1.8), 1),
    "ddp_straggler_rank#.json.gz": ((6.9, 7.3), (0.8, 1.8), 1),
    "tp_rank#.json.gz": ((2.3, 2.8), (9.9, 9.9), 0),
}


def test_recorded_ranks(capsys: pytest.CaptureFixture[str]) -> None:
    """Three runs in one folder are told apart by their names; every collective has its pair."""
    found = told(capsys, str(RANKS))
    assert found["schema"] == "foretrace.fleet/1"
    assert [job["name"] for job in found["jobs"]] == [f"{RANKS}/{name}" for name in APART]
    for job in found["jobs"]:
        first, others, late = APART[job["name"].rpartition("/")[2]]
        assert (job["world_size"], job["missing_ranks"], job["unmatched"]) == (2, [], 0)
        assert job["matched"] == (3 if "tp" in job["name"] else 12)
        assert job["late_rank"] == late
        assert {kind["latest"] for kind in job["collectives"]} == {late}
        for kind in job["collectives"]:
            low, high = first if kind["moved_bytes"] in {8_388_608, 16_777_216} else others
            assert low * 1e6 <= kind["apart_ns"] <= high * 1e6
        assert [rank["last"] for rank in job["ranks"]] == ([0, job["matched"]] if late else [job["matched"], 0])


def test_the_sleep_is_found(straggler: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rank 1's 4 ms before its step, and what Python is slower for after a sleep, are lost to rank 0."""
    plain, slept = (
        told(capsys, *map(str, sorted(folder.glob(names))))["jobs"][0]["ranks"][1]["holds_up_ns"] / 1e6
        for folder, names in ((RANKS, "ddp_rank*"), (straggler, "*"))
    )
    assert 4 <= slept - plain <= 6
    assert main(["fleet", str(straggler)]) == 0
    shown = capsys.readouterr().out
    assert "Rank 1 holds the others up by" in shown
    assert "Its own kernels take no longer" in shown
    assert "ddp_straggler_rank1.json.gz --ask idle" in shown


def test_a_rank_that_cannot_be_read(straggler: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The others are told, it is named with the reason, and the exit code says so."""
    broken = straggler / "ddp_straggler_rank0.json.gz"
    broken.write_bytes(b"\x1f\x8b no gzip")
    found = told(capsys, str(straggler / "ddp_straggler_rank1.json.gz"), str(broken), "/nowhere.json", code=1)
    assert [failed["path"] for failed in found["failed"]] == [str(broken), "/nowhere.json"]
    assert all(failed["why"] for failed in found["failed"])
    (job,) = found["jobs"]
    assert (job["missing_ranks"], [rank["rank"] for rank in job["ranks"]]) == ([0], [1])


def test_rank_by_rank_figures_are_those_of_read(straggler: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Busy time of each step is what ``read`` says of it."""
    for file in straggler.iterdir():
        assert main(["read", str(file), "--format", "json"]) == 0
        steps = json.loads(capsys.readouterr().out)["steps"]
        mine = summarize(str(file)).steps
        assert [step["gpu_busy_ns"] for step in steps] == [step.busy_ns for step in mine]
        assert [step["dur_ns"] for step in steps] == [step.wall_ns for step in mine]


@pytest.mark.parametrize("form", ["markdown", "html"])
def test_other_formats(straggler: Path, tmp_path: Path, form: str) -> None:
    """A page and a text hold the sentence too."""
    out = tmp_path / "out"
    assert main(["fleet", str(straggler), "--format", form, "-o", str(out)]) == 0
    assert "Rank 1 holds the others up by" in out.read_text(encoding="utf-8")


@pytest.mark.parametrize("depth", [1, 13, 40])
def test_single_runs_stand_in_one_table(tmp_path: Path, depth: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Traces of no common run: a row each, with the file's whole name however long its folder's is."""
    folder = tmp_path / ("x" * depth)
    folder.mkdir()
    names = ("ddp_rank0.json.gz", "tp_rank0.json.gz")
    files = [str(shutil.copy(RANKS / name, folder)) for name in names]
    assert main(["fleet", *files]) == 0
    shown = capsys.readouterr().out
    assert "2 traces of single runs" in shown
    assert all(name in shown for name in names)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "no trace was given"),
        (("nothing*.json", "/nowhere"), "no file `nothing*.json`"),
        ((f"{'x' * 300}.json",), "no file `xxx"),
        ((str(RANKS), "--executor", "slurm"), "no executor `slurm`"),
        ((str(RANKS), "--executor", "dask://here"), "`dask://here` is no address"),
        ((str(RANKS), "--executor", "dask://localhost:1"), "no Dask scheduler answers at `localhost:1`"),
        ((str(RANKS), "--workers", "0"), "0 workers"),
        ((str(RANKS), "--executor", "dask://localhost:1", "--workers", "2"), "a cluster has the workers that it has"),
        ((str(Path(__file__).parent / "capture"),), "no trace in"),
    ],
)
def test_what_cannot_be_done(arguments: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One line and a hint."""
    assert main(["fleet", *arguments]) == 2
    told = capsys.readouterr().err
    assert says in told
    assert "hint:" in told


class Dying(Executor):
    """Its workers die."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """A future that nobody fulfils."""
        del fn, args, kwargs
        future: Future[Any] = Future()
        future.set_exception(BrokenProcessPool("terminated abruptly"))
        return future


def test_a_worker_that_dies_is_said_with_what_to_do() -> None:
    """Memory is the usual reason."""
    (failed,) = read_fleet([str(RANKS / "ddp_rank0.json.gz")], Dying(), lambda *_: None).failed
    assert "memory" in failed.why
    assert failed.hint == "let fewer workers read at a time: `--workers 1` holds one trace"


def test_folders_keep_runs_apart_and_a_file_counts_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two runs under the same names, one of them given twice, with a file that cannot be unpacked beside it."""
    for run, name in (("one", "ddp_rank"), ("two", "ddp_straggler_rank")):
        (tmp_path / run).mkdir()
        for rank in (0, 1):
            shutil.copy(RANKS / f"{name}{rank}.json.gz", tmp_path / run / f"rank{rank}.json.gz")
    (tmp_path / "two" / "rank2.json.gz").write_bytes(b"\x1f\x8b no gzip")
    (tmp_path / "two" / "shard.json.gz").write_bytes(
        gzip.compress(b'{"rows": [1]}')
    )  # no trace, and no business of ours
    folders = [str(tmp_path / "one"), str(tmp_path / "two"), f"{tmp_path}/one/../one"]
    found = told(capsys, *folders, "--workers", "1", code=1)
    assert [job["name"] for job in found["jobs"]] == [f"{tmp_path}/{run}/rank#.json.gz" for run in ("one", "two")]
    assert [len(job["ranks"]) for job in found["jobs"]] == [2, 2]
    assert [failed["path"] for failed in found["failed"]] == [str(tmp_path / "two" / "rank2.json.gz")]


@pytest.fixture
def cluster() -> Iterator[str]:
    """The address of a Dask scheduler with one worker, which talk over TCP."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, processes=False, protocol="tcp://", host="127.0.0.1", dashboard_address=None
    ) as running:
        yield running.scheduler_address.removeprefix("tcp://")


@pytest.mark.filterwarnings("ignore")  # of a cluster that ends, not ours
def test_on_a_cluster(cluster: str, straggler: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same answers as from processes of this machine."""
    here = told(capsys, str(straggler), "--workers", "2")
    assert told(capsys, str(straggler), "--executor", f"dask://{cluster}") == here
