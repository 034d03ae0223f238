"""What notebooks show, in a real IPython, and data frames."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import foretrace
from foretrace import notebook
from foretrace.errors import InputError, MissingDependencyError
from foretrace.verdict import Guess, GuessedKernel

DATA = Path(__file__).parents[2] / "data" / "h200"
EAGER = DATA / "mlp_64x128x768x3072_eager.json.gz"
COMPILED = DATA / "mlp_64x128x768x3072_compiled.json.gz"

_SHOWN = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
%s
run = foretrace.read(sys.argv[1])
things = [run, foretrace.diff(run, foretrace.read(sys.argv[2]))]
from foretrace.verdict import Guess, GuessedKernel
things.append(Guess(kernels=(GuessedKernel(op_class="gemm", op="aten::mm", source="<b>gate</b>"),), target="mlp"))
print(json.dumps([shell.display_formatter.format(thing)[0] for thing in things]))
"""


def _in_ipython(start: str) -> list[dict[str, str]]:
    pytest.importorskip("IPython", reason="needs IPython")
    done = subprocess.run(
        [sys.executable, "-c", _SHOWN % start, str(EAGER), str(COMPILED)], capture_output=True, text=True, check=True
    )
    return list(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    "start",
    ["import foretrace", "shell.run_line_magic('load_ext', 'foretrace.notebook'); import foretrace"],
    ids=["import", "load_ext"],
)
def test_results_show_themselves(start: str) -> None:
    """A run, a comparison and a guess come as HTML and as words, with no array and no open tag of a name."""
    run, diff, guess = _in_ipython(start)
    assert "<h1>NVIDIA H200 · 3 steps of mlp_fwd · 5 kernels a step" in run["text/html"]
    assert "<table>" in run["text/html"]
    assert run["text/plain"].startswith("NVIDIA H200 · 3 steps of mlp_fwd")
    assert "Faster on the GPU: 233 → 206 µs a step" in diff["text/html"]
    assert "Expect 1 kernel: 1 gemm" in guess["text/plain"]
    assert "&lt;b&gt;gate&lt;/b&gt;" in guess["text/html"]
    for shown in (run, diff, guess):
        assert "<script" not in shown["text/html"]
        assert "array(" not in shown["text/plain"]


def test_nothing_happens_without_ipython() -> None:
    """Outside IPython importing foretrace loads no notebook part, and registering does nothing."""
    code = "import sys, foretrace; print('foretrace.notebook' in sys.modules, 'IPython' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
    assert notebook.register() is None


def test_the_page_in_a_frame() -> None:
    """The whole page stands in the attribute of a frame, escaped once more."""
    pytest.importorskip("IPython", reason="needs IPython")
    html = notebook.page(foretrace.read(DATA / "sdpa.json.gz")).data
    assert html.startswith('<div><iframe srcdoc="&lt;!DOCTYPE html&gt;')
    assert html.count("<") == 4


@pytest.mark.parametrize("library", ["polars", "pandas"])
def test_frames_of_a_run(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row an activity, with unknown as null, whichever library is there."""
    pytest.importorskip(library, reason=f"needs {library}")
    _only(library, monkeypatch)
    frame = foretrace.to_frame(foretrace.read(EAGER))
    assert type(frame).__module__.split(".")[0] == library
    assert frame.shape == (21, 18)
    rows = frame.to_dicts() if library == "polars" else frame.to_dict("records")
    assert rows[1] | {"start_ns": 0} == {
        "step": "ProfilerStep#2",
        "kind": "kernel",
        "name": "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT",
        "kernel": "nvjet 256×128×64, 4 stages, bf16→bf16",
        "op_class": "gemm",
        "device": 0,
        "stream": 7,
        "start_ns": 0,
        "dur_ns": 55_744,
        "op": "aten::mm",
        "module": rows[0]["module"],
        "region": "mlp_fwd",
        "launch": "cuLaunchKernelEx",
        "graph": False,
        "flops": 38_654_705_664,
        "bytes": 67_633_152,
        "bound": "compute",
        "event": 97,
    }
    assert rows[0]["kind"] == "set"
    assert rows[0]["bound"] is None or rows[0]["bound"] != rows[0]["bound"]  # pandas' NA is not equal to itself
    assert frame["dur_ns"].sum() == 695_867 + 4_607


@pytest.mark.parametrize("library", ["polars", "pandas"])
def test_frames_of_a_comparison_and_of_a_guess(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row a change, a row a guessed kernel."""
    pytest.importorskip(library, reason=f"needs {library}")
    _only(library, monkeypatch)
    changes = foretrace.to_frame(foretrace.diff(foretrace.read(EAGER), foretrace.read(COMPILED)))
    assert list(changes["status"]) == ["same", "same", "fused", "same"]
    kernels = GuessedKernel(op_class="gemm", shapes=((8, 4), (4, 2))), GuessedKernel(op_class="pointwise", flops=16)
    guessed = foretrace.to_frame(Guess(kernels=kernels))
    assert list(guessed["op_class"]) == ["gemm", "pointwise"]
    assert guessed["shapes"][0] == "[(8, 4), (4, 2)]"
    assert guessed["flops"].sum() == 16


def test_frames_of_nothing() -> None:
    """An empty guess has an empty frame; what is no result is refused by name."""
    pytest.importorskip("polars", reason="needs polars")
    assert foretrace.to_frame(Guess(kernels=())).shape[0] == 0
    with pytest.raises(InputError, match="no data frame of a `list`"):
        foretrace.to_frame([])  # type: ignore[arg-type]


def test_without_a_library_for_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names what to install."""
    _only("neither", monkeypatch)
    with pytest.raises(MissingDependencyError, match="data frames need polars or pandas"):
        foretrace.to_frame(Guess(kernels=()))


def _only(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for other in {"polars", "pandas"} - {library}:
        blocked: Any = None  # what importing then refuses
        monkeypatch.setitem(sys.modules, other, blocked)


def test_results_in_words() -> None:
    """`in_words` says of a run, a comparison and a guess what their commands show, and of others that it cannot."""
    eager, compiled = foretrace.read(EAGER), foretrace.read(COMPILED)
    assert foretrace.in_words(eager).startswith("NVIDIA H200 · 3 steps of mlp_fwd")
    assert foretrace.in_words(foretrace.diff(eager, compiled)).startswith("Faster on the GPU: 233 → 206 µs a step")
    assert "Expect 1 kernel: 1 gemm" in foretrace.in_words(Guess(kernels=(GuessedKernel(op_class="gemm"),)))
    with pytest.raises(foretrace.ForetraceError, match="nothing to say of a `str`") as caught:
        foretrace.in_words("trace.json.gz")  # type: ignore[arg-type]
    assert caught.value.__notes__ == ["hint: give a run, a comparison or a guess"]
