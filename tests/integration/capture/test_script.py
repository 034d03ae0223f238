"""A script that is profiled as it is."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from foretrace.capture import Script, capture_script
from foretrace.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

    Spans = Callable[[Path], list[dict[str, Any]]]


def test_a_script_runs_as_main_with_its_arguments(
    targets: Path, tmp_path: Path, spans: Spans, capsys: pytest.CaptureFixture[str]
) -> None:
    """Leaving with status 0 is leaving in good order; argv and path are the caller's again afterwards."""
    argv, path = list(sys.argv), list(sys.path)
    captured = capture_script(Script(targets / "script.py", ("0", "--x")), out=tmp_path, table_rows=5)

    assert capsys.readouterr().out == "64.0 ['0', '--x']\n"
    assert [event["name"] for event in spans(tmp_path / "script.json.gz")].count("aten::mm") == 1
    assert captured.environment is not None
    assert captured.environment.schedule is None
    assert captured.environment.unprofiled is None
    assert captured.environment.target == str(targets / "script.py")
    assert "aten::mm" in str(captured.table)
    assert (sys.argv, sys.path) == (argv, path)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import sys\nsys.exit(3)", "ended with exit status 3"),
        ("raise KeyError('weights')", "raised KeyError: 'weights'"),
        ("answer = 42", "ran no PyTorch operator in this process"),
    ],
)
def test_a_script_that_gives_no_trace_is_an_error_in_words(tmp_path: Path, code: str, message: str) -> None:
    """An exit status, an exception, or no work at all: the message says which, and nothing is written."""
    script = tmp_path / "one.py"
    script.write_text(code, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        capture_script(Script(script), out=tmp_path / "out")

    assert caught.value.message == f"`{script}` {message}; nothing was written"
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize(
    ("functions", "hint"),
    [
        (("geglu",), "did you mean `{0}:geglu`?"),
        (("geglu", "_helper", "train"), "name one of its functions: `{0}:geglu`, `{0}:train`"),
        ((), "work in child processes, or under a profiler of the script's own, cannot be seen from here"),
    ],
)
def test_a_file_of_factories_is_told_from_a_script(tmp_path: Path, functions: tuple[str, ...], hint: str) -> None:
    """Who forgets `:factory` is asked which of the file's functions was meant."""
    script = tmp_path / "mlp.py"
    script.write_text("".join(f"def {name}():\n    return None\n" for name in functions), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        capture_script(Script(script), out=tmp_path / "out")
    assert caught.value.hint == hint.format(script)
