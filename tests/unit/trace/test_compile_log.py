"""Logs of torch.compile, in the wordings of its releases: one entry a place."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from foretrace.errors import InputError
from foretrace.report.compile_log import compile_items
from foretrace.trace.compile_log import GraphBreaks, GuardFailures, beside, read_compile_log, summarize
from foretrace.trace.compile_messages import Guard, guard_of, messages

if TYPE_CHECKING:
    from pathlib import Path

    from foretrace.trace.compile_log import CompileLog

NEW = "V0301 10:20:30.456000 77 torch/_dynamo/guards.py:2997] [{id}] [__recompiles] "
BREAKS = "V0301 10:20:31.456000 77 torch/_dynamo/symbolic_convert.py:460] [{id}] [__graph_breaks] "
OLD = "[2023-11-05 10:20:30,456] [0/{n}] torch._dynamo.{module}: [DEBUG] "


def _read(text: str) -> CompileLog:
    return summarize(messages(text.splitlines()))


def _lines(prefix: str, text: str) -> str:
    return "".join(f"{prefix}{line}\n" for line in text.splitlines())


def test_recompilations_of_one_function_are_one_entry() -> None:
    """Two recompilations for one guard: the newest code's reason counts, with the values of the last failure."""
    text = "".join(
        _lines(
            NEW.format(id=f"1/{n}"),
            f"Recompiling function step in /home/me/train.py:12\n"
            f"    triggered by the following guard failure(s):\n"
            f"    - 1/{n - 1}: tensor 'x' size mismatch at index 1. expected {n * 64}, actual {n * 64 + 64}\n"
            f"    - 1/0: tensor 'x' size mismatch at index 1. expected 0, actual 1",
        )
        for n in (1, 2)
    )
    (entry,) = _read(text).recompiles
    assert (entry.function, entry.file, entry.line, entry.count) == ("step", "/home/me/train.py", 12, 2)
    assert entry.guards == (GuardFailures("tensor 'x' size mismatch at index 1", "128", "192", 2),)
    assert (
        entry.guards[0].advice == "mark the dimension dynamic before the first call: torch._dynamo.mark_dynamic(x, 1)"
    )
    assert (entry.limit, entry.compile_ids) == (None, ("1/1", "1/2"))


def test_the_limit_says_that_the_rest_is_eager() -> None:
    """A warning alone: function, number, guard with both values; a remark behind the values is no value."""
    prefix = "W0110 12:00:00.000000 9 torch/_dynamo/convert_frame.py:1551] [2/8] "
    text = _lines(
        prefix,
        "torch._dynamo hit config.recompile_limit (8)\n"
        "   function: 'orthogonalize' (/opt/opt.py:621)\n"
        "   last reason: 2/7: tensor 'X[0]' size mismatch at index 1. expected 640, actual 8. Guard failed on a "
        "parameter, consider something else.",
    )
    (entry,) = _read(text).recompiles
    assert (entry.function, entry.line, entry.count, entry.limit) == ("orthogonalize", 621, 8, 8)
    assert entry.guards == (GuardFailures("tensor 'X[0]' size mismatch at index 1", "640", "8", 1),)
    (item,) = compile_items(_read(text))
    assert "up to the limit of 8: it runs in eager mode from then on" in item.text
    assert "mark_dynamic(X[0], 1)" in item.text


@pytest.mark.parametrize(
    ("text", "limit", "guard"),
    [
        (
            (
                "torchdynamo hit recompilation cache limit (64) for function 'toy' (toy.py:5), due to the following "
                "guard failures: [['len(seen) == 0'], ['len(seen) == 0']]"
            ),
            64,
            GuardFailures("len(seen)", "0", None, 1),
        ),
        (
            "torchdynamo hit config.cache_size_limit (64)\n   function: 'toy' (toy.py:5)\n   reasons:  ['valid']",
            64,
            GuardFailures("valid", None, None, 1),
        ),
        (
            (
                "torch._dynamo hit config.cache_size_limit (8)\n   function: 'toy' (toy.py:5)\n"
                "   last reason: 1/0: L['n'] == 31868\nTo log all recompilation reasons, use TORCH_LOGS=recompiles"
            ),
            8,
            GuardFailures("L['n']", "31868", None, 1),
        ),
    ],
)
def test_older_wordings_of_the_limit(text: str, limit: int, guard: GuardFailures) -> None:
    """Three generations of the same warning say the same."""
    (entry,) = _read(text).recompiles
    assert (entry.function, entry.file, entry.line, entry.limit) == ("toy", "toy.py", 5, limit)
    assert entry.guards == (guard,)


def test_an_older_prefix_is_read_as_well() -> None:
    """2023's lines began with a date and the logger's name."""
    text = _lines(
        OLD.format(n=3, module="guards.__recompiles"),
        "Recompiling function fn in a.py:7\n    triggered by the following guard failure(s):\n    - G['_n'] == 0",
    )
    (entry,) = _read(text).recompiles
    assert entry.guards == (GuardFailures("G['_n']", "0", None, 1),)
    assert entry.compile_ids == ("0/3",)


def test_graph_breaks_of_one_line_are_one_entry() -> None:
    """The duplicate, whose stack is suppressed, is counted; the cause is named behind a general reason."""
    body = (
        "Graph Break Reason: Encountered graph break when attempting to trace CALL: a function call, e.g. f(x):\n\n"
        "Failed to trace builtin operator\n  Explanation: `print` is not known.\n  Hint: Do not print.\n\n"
        "  Developer debug context: builtin print\n"
    )
    text = _lines(BREAKS.format(id="1/0"), f"Graph break in user code at /home/me/net.py:31\n{body}")
    duplicate = "Graph break (user stack suppressed due to duplicate graph break) in user code at /home/me/net.py:31\n"
    text += _lines(BREAKS.format(id="2/0"), duplicate + body)
    assert _read(text).breaks == (
        GraphBreaks(
            "/home/me/net.py",
            31,
            "Failed to trace builtin operator",
            "`print` is not known.",
            ("Do not print.",),
            2,
        ),
    )


def test_old_graph_breaks_name_the_innermost_frame() -> None:
    """The reason stood before ``from user code at:``, the place in the last frame behind it."""
    text = _lines(
        OLD.format(n=0, module="symbolic_convert.__graph_breaks"),
        "Graph break: 'skip function print in file builtins' from user code at:\n"
        '  File "/home/me/run.py", line 3, in <module>\n    main()\n  File "/home/me/net.py", line 31, in forward\n'
        "    print(x)\n",
    )
    (entry,) = _read(text).breaks
    assert (entry.file, entry.line, entry.reason) == ("/home/me/net.py", 31, "skip function print in file builtins")


def test_a_graph_break_without_a_reason_says_so() -> None:
    """Details may be suppressed, or never logged: the place is there, the reason is unknown, not invented."""
    (entry,) = _read('Graph break: from user code at:\n  File "net.py", line 8, in forward\n    y = odd(x)').breaks
    assert (entry.file, entry.line, entry.reason) == ("net.py", 8, None)
    (suppressed,) = _read("Graph break (details suppressed) in user code at net.py:8\nReason: Unsupported: odd").breaks
    assert (suppressed.line, suppressed.reason) == (8, "Unsupported: odd")


def test_guards_lose_comments_and_hints() -> None:
    """What the log explains about its code is no part of the guard."""
    text = (
        "0/0: self.k == 3                      # return x * self.k  # net.py:13 in forward (HINT: integers are static.)"
    )
    assert guard_of(text) == Guard("self.k", "3")
    assert guard_of("tensor 'x' dtype mismatch. expected Float, actual Double") == Guard(
        "tensor 'x' dtype mismatch", "Float", "Double"
    )
    assert guard_of("___check_type_id(L['x'], 9)") == Guard("___check_type_id(L['x'], 9)")


def _structured(record: dict[str, object], payload: str = "") -> str:
    head = f"V0301 10:20:30.456000 77 torch/_dynamo/guards.py:5400] {json.dumps(record)}\n"
    return head + "".join(f"\t{line}\n" for line in payload.splitlines())


def test_a_torch_trace_folder_is_read(tmp_path: Path) -> None:
    """Structured records: reasons belong to a compile id, whose metrics name the function; others are skipped."""
    reasons = json.dumps(["0/0: self.k == 0  # code\nUser stack trace:\n  File ...", "older"], indent=0)
    artifact = {"artifact": {"name": "recompile_reasons", "encoding": "json"}, "frame_id": 0, "has_payload": "1"}
    text = _structured({"chromium_event": {}, "frame_id": 0}, '{\n"name": "dynamo"\n}')
    text += _structured({**artifact, "frame_compile_id": 1}, reasons)
    metrics = {"compile_id": "0/1", "co_name": "forward", "co_filename": "net.py", "co_firstlineno": 13}
    text += _structured({"compilation_metrics": metrics, "frame_id": 0, "frame_compile_id": 1})
    text += _structured({**artifact, "frame_compile_id": 2}, reasons)  # given up: no metrics of its own
    text += _structured(
        {"artifact": {"name": "dynamo_graph_break_reason", "encoding": "string"}, "frame_id": 1},
        "Graph break in user code at net.py:20\nGraph Break Reason: Data-dependent branching\n",
    )
    (tmp_path / "dedicated_log_torch_trace_x.log").write_text(text + "V0301 broken {")
    found = read_compile_log(tmp_path)
    (entry,) = found.recompiles
    assert (entry.function, entry.line, entry.count, entry.compile_ids) == ("forward", 13, 2, ("0/1", "0/2"))
    assert entry.guards == (GuardFailures("self.k", "0", None, 2),)
    assert [(b.file, b.line, b.reason, b.count) for b in found.breaks] == [
        ("net.py", 20, "Data-dependent branching", 1)
    ]


def test_what_is_no_log_holds_nothing(tmp_path: Path) -> None:
    """Other text gives an empty log; a place without files is an error with a way out."""
    (tmp_path / "other.txt").write_text("epoch 1 loss 0.3\n")
    assert not read_compile_log(tmp_path / "other.txt")
    with pytest.raises(InputError, match=r"holds no \.log file"):
        read_compile_log(tmp_path)
    with pytest.raises(InputError, match="cannot read"):
        read_compile_log(tmp_path / "nothing.log")


def test_a_log_beside_a_trace_is_found(tmp_path: Path) -> None:
    """``NAME.compile.log`` belongs to ``NAME.json.gz``."""
    assert beside(str(tmp_path / "mlp.json.gz")) is None
    (tmp_path / "mlp.compile.log").write_text("Graph break in user code at net.py:8\nGraph Break Reason: odd\n")
    found = beside(str(tmp_path / "mlp.json.gz"))
    assert found is not None
    assert [(b.line, b.reason) for b in found.breaks] == [(8, "odd")]


def test_the_rest_of_a_broken_function_is_named_so() -> None:
    """Dynamo's name for a resume function says nothing to people."""
    name = "torch_dynamo_resume_in_forward_at_15"
    (item,) = compile_items(_read(f"Recompiling function {name} in /a/net.py:15\n    triggered by:\n    - self.k == 1"))
    assert item.text.startswith("The rest of forward behind the graph break at net.py:15 was compiled again 1 time.")


def test_items_say_which_compiled_code_the_trace_ran() -> None:
    """Regions of the same function count, those of others do not; without any, eager ran instead."""
    log = _read(
        _lines(NEW.format(id="1/2"), "Recompiling function step in a.py:12\n    triggered by:\n    - 1/1: n == 4")
    )
    (ran,) = compile_items(log, {"1/0": 1, "1/2": 3, "0/2": 9})
    assert ran.text.endswith(
        "Guards that failed: n, 1 time (last: expected 4). In this trace ran 1/0 1 time, 1/2 3 times."
    )
    (eager,) = compile_items(log, {"0/2": 9})
    assert eager.text.endswith("None of its compiled code ran in this trace.")
