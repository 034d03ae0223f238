"""The documentation says what the program says today.

A block of a page that starts with ```` ```console ```` and ``$ foretrace …`` quotes the first paragraphs of what that
command prints; a last line ``…`` says that the output goes on. Paths are relative to ``tests/data``.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from foretrace.cli.app import COMMANDS, app, main
from foretrace.readings import READINGS
from foretrace.report.profile import profile_record
from foretrace.share.shared import Share, SharedFile
from foretrace.verdict import Guess, GuessedKernel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from _pytest.capture import CaptureFixture

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
EVERY_PAGE = [*PAGES, *(ROOT / name for name in ("README.md", "hub/README.md", "CONTRIBUTING.md", "CHANGELOG.md"))]

_BLOCK = re.compile(r"^```console\n\$ (?P<command>[^\n]+)\n(?P<said>.*?)^```$", re.MULTILINE | re.DOTALL)
_FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)")
_MORE = "…"


@dataclass(frozen=True, slots=True)
class Quote:
    """One quoted output: the page, the command after ``$`` and the text below it."""

    page: Path
    command: str
    said: str

    def __str__(self) -> str:
        return f"{self.page.stem}: {self.command}"


def quotes_in(page: Path, text: str) -> Iterator[Quote]:
    """The quoted outputs of a page's text."""
    for block in _BLOCK.finditer(text):
        yield Quote(page, block["command"], block["said"])


def as_quoted(said: str, output: str) -> str:
    """``output`` cut to as many paragraphs as ``said`` has, marked as ``said`` must be where it goes on."""
    paragraphs = output.rstrip("\n").split("\n\n")
    wanted = said.rstrip("\n").split("\n\n")
    count = len(wanted) - (wanted[-1] == _MORE)
    cut = "\n\n".join(paragraphs[:count])
    return f"{cut}\n" if count >= len(paragraphs) else f"{cut}\n\n{_MORE}\n"


QUOTES = [quote for page in PAGES for quote in quotes_in(page, page.read_text(encoding="utf-8"))]


@pytest.fixture
def in_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run commands in the folder of recorded traces, a hundred columns wide and without styles."""
    monkeypatch.chdir(DATA)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.mark.usefixtures("in_data")
@pytest.mark.parametrize("quote", QUOTES, ids=str)
def test_a_quoted_output_is_what_the_command_prints(quote: Quote, capsys: CaptureFixture[str]) -> None:
    """Every quoted output is printed by its command today; FORETRACE_ACCEPT=1 writes it into the page instead."""
    program, *argv = shlex.split(quote.command)
    assert program == "foretrace"
    main(argv)
    expected = as_quoted(quote.said, capsys.readouterr().out)
    if os.environ.get("FORETRACE_ACCEPT"):
        before = f"$ {quote.command}\n{quote.said}```\n"
        text = quote.page.read_text(encoding="utf-8")
        quote.page.write_text(text.replace(before, f"$ {quote.command}\n{expected}```\n"), encoding="utf-8")
    else:
        assert quote.said == expected


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("Busy 55 %.\n\n…\n", "Busy 54.6 %.\n\n…\n"),
        ("Busy 54.6 %.\n", "Busy 54.6 %.\n\n…\n"),
        ("Busy 54.6 %.\n\nFirst\n  1  fuse\n", "Busy 54.6 %.\n\nFirst\n  1  fuse\n"),
        ("Busy 54.6 %.\n\nFirst\n  1  fuse\n\n…\n", "Busy 54.6 %.\n\nFirst\n  1  fuse\n"),
    ],
)
def test_a_quote_is_compared_by_paragraphs(said: str, expected: str) -> None:
    """A changed figure differs, and a quote says truly whether the output goes on."""
    assert as_quoted(said, "Busy 54.6 %.\n\nFirst\n  1  fuse\n") == expected


@pytest.mark.parametrize(
    "trace",
    [
        "attention_naive",
        "sdpa",
        "mlp_sync_and_pageable_copy",
        "mlp_two_streams",
        "mlp_recompiles",
        "llama4_decode1",
        "train_mlp_eager",
        "ddp_straggler_rank0",
        "ddp_straggler_rank1",
        "mlp_64x128x768x3072_eager",
        "mlp_64x128x768x3072_compiled",
    ],
)
def test_the_guide_quotes_every_trace_that_it_promises(trace: str) -> None:
    """The guide to reading traces quotes at least one command on each of its traces."""
    guide = [quote.command for quote in QUOTES if quote.page.name == "reading-traces.md"]
    assert any(f"/{trace}.json.gz" in command for command in guide)


def test_the_reference_of_the_command_line_is_current() -> None:
    """docs/reference/cli.md is what `python tools/reference.py` would write."""
    reference = runpy.run_path(str(ROOT / "tools" / "reference.py"))["reference"]
    written = (DOCS / "reference" / "cli.md").read_text(encoding="utf-8")
    assert written == reference(), "run `python tools/reference.py`"


def commands_in(page: Path) -> list[str]:
    """The `foretrace …` lines that a page's shell blocks, or blocks of no language, tell people to type."""
    blocks = (block for language, block in _FENCED.findall(page.read_text(encoding="utf-8")) if language in {"", "sh"})
    lines = (line.removeprefix("uvx ") for block in blocks for line in block.splitlines())
    return [line for line in lines if line.startswith("foretrace ")]


def _title(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", [page for page in EVERY_PAGE if commands_in(page)], ids=_title)
def test_commands_that_a_page_tells_people_to_type_exist(page: Path) -> None:
    """Every `foretrace …` line of a page's shell blocks names a command, flags and questions that exist."""
    tree, known = app(), {name for name, _, _ in COMMANDS}
    for line in commands_in(page):
        argv = shlex.split(line, comments=True)[1:]
        assert argv[0] in known, line
        tree.parse_args(argv, exit_on_error=False, print_error=False)
        asked = argv[argv.index("--ask") + 1 :] if "--ask" in argv else []
        assert set(asked) <= {reading.question for reading in READINGS}, line


@pytest.mark.parametrize("page", EVERY_PAGE, ids=_title)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    """A relative link of a page names a file that is there."""
    missing = [link for link in _LINK.findall(page.read_text(encoding="utf-8")) if not (page.parent / link).exists()]
    assert missing == []


_CONTENDERS = ("eager", "compile", "liger", "quack", "ours")
_FEW = [("eager", "gpu_us"), ("compile", "gpu_us"), ("liger", "gpu_us"), ("ours", "gpu_us")]
_FEW += [("compile", "graph_us"), ("reduce-overhead", "graph_us"), ("ours", "graph_us")]
_FEW += [("eager", "call_us"), ("compile", "call_us"), ("ours", "call_us")]


def _medians() -> Iterator[str]:
    """The rows of the tables of fused times, as a page writes them, without the bold of the fastest."""

    def cell(value: float | None) -> str:
        return "–" if value is None else f"{value:.1f}" if value < 100 else f"{value:,.0f}"

    records = [ROOT / "bench" / "results" / f"{name}.json" for name in ("fused_h200", "fused_few_rows_h200")]
    for row in (row for record in records for row in json.loads(record.read_text(encoding="utf-8"))["rows"]):
        shape = f"{row['rows']} × {row['dim']} × {row['hidden']}"
        mode = {"forward": "forward", "training": "forward + backward"}[row["mode"]]
        times = row["times"]
        cells = [cell(times[name]["gpu_us"]["median"] if name in times else None) for name in _CONTENDERS]
        yield f"| {shape} | {mode} | {' | '.join(cells)} |"
        if (row["dim"], row["rows"]) in {(2048, 1), (2048, 16), (2048, 64)}:
            yield f"| {row['rows']} | {' | '.join(cell(times[name][what]['median']) for name, what in _FEW)} |"


@pytest.mark.parametrize(("page", "count"), [("README.md", 9), ("hub/README.md", 11), ("docs/guides/fusing.md", 3)])
def test_tables_of_fused_times_are_those_of_the_records(page: str, count: int) -> None:
    """Every row of measured times is the medians of the records that the page links."""
    rows = re.findall(
        r"^\| (?:[\d]+ × .*|(?:1|16|64) \| .*)\|$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE
    )
    assert len(rows) == count
    assert {row.replace("*", "") for row in rows} <= set(_medians())


@pytest.mark.slow
def test_the_python_of_the_readme_runs_as_it_is_written(tmp_path: Path) -> None:
    """Its file, its script, its test and its swap, each in a process of its own beside the file."""
    pytest.importorskip("torch")
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = [block for language, block in _FENCED.findall(text) if language == "python"]
    names = ("mlp.py", "read.py", "test_mlp.py", "swap.py")
    for name, block in zip(names, blocks, strict=True):
        (tmp_path / name).write_text(block, encoding="utf-8")
    for arguments in (["read.py"], ["-m", "pytest", "test_mlp.py"], ["swap.py"]):
        command = [sys.executable, *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, encoding="utf-8", check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_index_lists_every_page() -> None:
    """docs/README.md links every page of the guides, the concepts and the reference."""
    index = (DOCS / "README.md").read_text(encoding="utf-8")
    pages = [page.relative_to(DOCS).as_posix() for page in PAGES if page.parent.name != "docs"]
    assert [page for page in pages if f"]({page})" not in index and not page.startswith("decisions/")] == []


def _rows_of(page: str, heading: str) -> set[str]:
    """The first cells of the table under a heading, without backquotes; a cell may name several keys."""
    text = (DOCS / "reference" / page).read_text(encoding="utf-8")
    section = text.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    cells = re.findall(r"^\| (`[^|]+`) \|", section, re.MULTILINE)
    return {key for cell in cells for key in re.findall(r"`([^`]+)`", cell)}


def _keys(value: Any, prefix: str = "") -> Iterator[str]:
    """Every key of a JSON value as a path: ``steps[].activities[].op``."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield prefix + key
            yield from _keys(inner, f"{prefix}{key}.")
    elif isinstance(value, list):
        for inner in value:
            yield from _keys(inner, f"{prefix.removesuffix('.')}[].")


JSON = [
    ("read", ("read", "two_ranks/ddp_straggler_rank0.json.gz")),
    ("kernel", ("kernel", "triton_poi_fused_gelu_mul_0")),
    ("diff", ("diff", "h200/mlp_64x128x768x3072_eager.json.gz", "h200/mlp_64x128x768x3072_compiled.json.gz")),
    ("ladder", ("ladder", "linear", "--recorded")),
    ("check", ("check", "h200/mlp_64x128x768x3072_eager.json.gz", "--expect", "3 gemm, 2 pointwise")),
]


@pytest.mark.usefixtures("in_data")
@pytest.mark.parametrize(("heading", "argv"), JSON, ids=lambda value: value if isinstance(value, str) else "")
def test_the_promised_keys_are_written(heading: str, argv: tuple[str, ...], capsys: CaptureFixture[str]) -> None:
    """Every key that docs/reference/json.md promises of a command is in its JSON."""
    promised = _rows_of("json.md", heading)
    main([*argv, "--format", "json"])
    assert promised
    assert promised - set(_keys(json.loads(capsys.readouterr().out))) == set()


def test_the_promised_keys_of_a_guess() -> None:
    """Every key that docs/reference/json.md promises of `guess` is in the record of a guess with one kernel."""
    record = Guess(kernels=(GuessedKernel(op_class="gemm"),)).to_json()
    assert _rows_of("json.md", "guess") == set(_keys(record)) - {"kernels"}


def test_the_promised_keys_of_profiled_variants() -> None:
    """Every key that docs/reference/json.md promises of `profile` is in the record of two variants."""
    traces = [("eager", "mlp_64x128x768x3072_eager"), ("compile", "mlp_64x128x768x3072_compiled")]
    record = profile_record([(name, str(DATA / "h200" / f"{trace}.json.gz"), None) for name, trace in traces])
    promised = _rows_of("json.md", "profile")
    assert promised
    assert promised - set(_keys(json.loads(json.dumps(record.to_json())))) == set()


def test_the_promised_keys_of_what_is_shared() -> None:
    """docs/reference/json.md names every key of the record of `share`."""
    file = SharedFile(path="a.json.gz", kind="trace", status="new")
    shared = Share(
        "me/traces", "page", private=False, created=True, dry_run=True, redacted=True, manifest=None, files=(file,)
    )
    assert _rows_of("json.md", "share") == set(_keys(json.loads(json.dumps(shared.to_json())))) - {"files"}


def test_the_environment_file_has_the_documented_keys() -> None:
    """docs/reference/env.md names every key of a recorded NAME.env.json."""
    recorded = json.loads((DATA / "h200_live" / "geglu_eager.env.json").read_text(encoding="utf-8"))
    assert set(recorded) - _rows_of("env.md", "Keys") == set()
