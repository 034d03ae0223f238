"""Errors, exit codes and streams of the command line."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from foretrace.cli import app
from foretrace.cli.app import COMMANDS, main
from foretrace.errors import ForetraceError, PartialInputError

if TYPE_CHECKING:
    from pathlib import Path

_NAME = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3> >"


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (
            ["read", "--stp", "3", "t.json"],
            "error: unknown option: --stp. Did you mean --step?\n\nhint: `foretrace read --help` shows what it takes\n",
        ),
        (
            ["kernel", "k", "--frmat", "json"],
            "error: unknown option: --frmat\n\nhint: `foretrace kernel --help` shows what it takes\n",
        ),
        (
            ["open", "t.json", "one", "two"],
            "error: too many arguments: `one` `two`\n\nhint: `foretrace open --help` shows what it takes\n",
        ),
        (
            ["my trace.json.gz"],
            "error: no command `my trace.json.gz`\n\nhint: did you mean `foretrace read 'my trace.json.gz'`?\n",
        ),
        (["kernle"], "error: no command `kernle`\n\nhint: did you mean `foretrace kernel`?\n"),
        (
            ["kernel"],
            "error: no kernel name was given\n\nhint: `foretrace kernel NAME`, or names on stdin with `-`\n",
        ),
        (["explain", "rooflin"], "error: no term `rooflin`\n\nhint: did you mean `roofline`?\n"),
        (
            ["read"],
            "error: no trace was given\n\nhint: `foretrace read TRACE`; `foretrace read --help` shows the options\n",
        ),
    ],
)
def test_a_wrong_command_line_is_one_error_and_a_hint(
    argv: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was wrong, a blank line, what to do; exit code 2 and nothing on stdout."""
    assert main(argv) == 2
    assert capsys.readouterr() == ("", text)


def test_an_invalid_choice_names_the_choices(capsys: pytest.CaptureFixture[str]) -> None:
    """A format that does not exist is refused on one line that lists those that do."""
    assert main(["kernel", "k", "--format", "xml"]) == 2
    error = capsys.readouterr().err.splitlines()
    assert all(choice in error[0] for choice in ("terminal", "markdown", "json"))
    assert error[1:] == ["", "hint: `foretrace kernel --help` shows what it takes"]


def test_a_command_that_nobody_meant_gets_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is near `zzz`, so the hint lists every command."""
    assert main(["zzz"]) == 2
    listed = ", ".join(name for name, _, _ in COMMANDS)
    assert capsys.readouterr().err == f"error: no command `zzz`\n\nhint: commands are {listed}\n"


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (ForetraceError("broken\x1b[31m"), 2, "error: broken\\u001b[31m\n"),
        (PartialInputError("cut", hint="mend it"), 3, "error: cut\n\nhint: mend it\n"),
    ],
)
def test_errors_for_people(
    error: ForetraceError, code: int, text: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error's own exit code; its text is made safe, and without a hint nothing follows it."""
    _fail_with(error, monkeypatch)
    assert main(["kernel", "k"]) == code
    assert capsys.readouterr() == ("", text)


def test_an_interrupt_is_130(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C ends with the shell's own code and no traceback."""
    _fail_with(KeyboardInterrupt(), monkeypatch)
    assert main(["kernel", "k"]) == 130


def _fail_with(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("foretrace.cli.kernel.decode", fail)


def test_a_closed_pipe_is_quiet() -> None:
    """`foretrace … | head` ends without a complaint when head has seen enough."""
    command = [sys.executable, "-m", "foretrace", "kernel", *[_NAME] * 3_000]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")  # noqa: PTH110
@pytest.mark.parametrize("argv", [["explain"], ["--help"]], ids=" ".join)
def test_a_full_disk_is_an_error_line(argv: list[str]) -> None:
    """`foretrace … > FILE` on a full disk says so and exits with 2, without a traceback."""
    with open("/dev/full", "wb") as full:  # noqa: PTH123
        done = subprocess.run(
            [sys.executable, "-m", "foretrace", *argv], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.stderr == (
        "error: cannot write to stdout: No space left on device\n\nhint: `-o FILE` writes elsewhere\n"
    )
    assert done.returncode == 2


def test_a_console_of_few_characters_gets_the_nearest_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """On an ASCII console × is x, → is -> and what has no likeness is ?; nothing fails."""
    console = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", console)
    app._never_fail_to_encode()
    console.write("256×128 → 55.7 µs · 核\n")
    console.flush()
    assert console.buffer.getvalue() == b"256x128 -> 55.7 us - ?\n"  # type: ignore[attr-defined]


def test_json_is_utf8_on_every_console(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs get the names as they are, also where the console could not show them."""
    console = io.TextIOWrapper(io.BytesIO(), encoding="cp1252")
    monkeypatch.setattr(sys, "stdout", console)
    assert main(["kernel", "核→", "--format", "json"]) == 0
    assert json.loads(console.buffer.getvalue())[0]["name"] == "核→"  # type: ignore[attr-defined]


def test_kernel_reads_names_from_stdin(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """`-` stands for the lines of stdin; empty ones are skipped."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("first\n\n  second \n"))
    assert main(["kernel", "-"]) == 0
    pages = capsys.readouterr().out
    assert [line for line in pages.splitlines() if line in {"first", "second"}] == ["first", "second"]


def test_output_goes_to_a_file_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`-o` writes the report, in the format of the file's ending, and prints nothing; it overwrites with `--force`."""
    path = tmp_path / "kernel.md"
    assert main(["kernel", "k", "-o", str(path)]) == 0
    written = path.read_text(encoding="utf-8")
    assert written.startswith("## k\n")
    assert capsys.readouterr() == ("", "")
    assert main(["kernel", "other", "-o", str(path)]) == 2
    assert capsys.readouterr().err == (
        f"error: `{path}` is already there\n\nhint: give another name, or `--force` to overwrite it\n"
    )
    assert path.read_text(encoding="utf-8") == written
    assert main(["kernel", "other", "-o", str(path), "--force"]) == 0
    assert path.read_text(encoding="utf-8").startswith("## other\n")
    assert main(["kernel", "other", "--format", "terminal", "-o", str(path), "--force"]) == 0
    assert path.read_text(encoding="utf-8").startswith("other\n")


def test_output_needs_its_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder that is not there is said before any work is done."""
    folder = tmp_path / "missing"
    assert main(["kernel", "k", "-o", str(folder / "k.txt")]) == 2
    assert capsys.readouterr().err.startswith(f"error: no folder `{folder}` to write to\n\nhint: ")


def test_a_name_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Escape sequences in a name are written out in every format."""
    for form in ("terminal", "markdown", "json"):
        assert main(["kernel", "evil\x1b]0;title\x07", "--format", form]) == 0
        assert not {"\x1b", "\x07"} & set(capsys.readouterr().out)


def test_no_styles_without_a_terminal_or_with_no_color() -> None:
    """A pipe gets plain text even where FORCE_COLOR or a fancy TERM is set."""
    environment = {**os.environ, "FORCE_COLOR": "1", "TERM": "xterm-256color"}
    done = subprocess.run(
        [sys.executable, "-m", "foretrace", "explain", "tile"], capture_output=True, env=environment, check=True
    )
    assert b"\x1b" not in done.stdout
