"""When a page is styled."""

from __future__ import annotations

import sys

import pytest

from foretrace.cli.output import styled


@pytest.mark.parametrize(
    ("terminal", "environment", "expected"),
    [
        (True, {}, True),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"NO_COLOR": ""}, True),
        (True, {"TERM": "dumb"}, False),
        (False, {}, False),
    ],
)
def test_styles_only_where_they_are_wanted(
    terminal: bool,  # noqa: FBT001 - a table of cases
    environment: dict[str, str],
    expected: bool,  # noqa: FBT001 - as above
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A terminal gets bold headings unless NO_COLOR is set and not empty, or it is dumb."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    assert styled() is expected
