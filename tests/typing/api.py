"""The public API as a type checker sees it; mypy runs over this file, nothing executes it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, assert_type

import foretrace

if TYPE_CHECKING:
    from foretrace.capture import Session


def read(path: Path) -> None:
    """What reading gives."""
    run = foretrace.read(path)
    assert_type(run, foretrace.Run)
    assert_type(foretrace.in_words(run), str)
    assert_type(foretrace.ask(run, ["bound"]), tuple[foretrace.Answer, ...])
    assert_type(run.busy_ns(), int)
    assert_type(run.activity(0).op, str | None)


def decode(name: str) -> None:
    """What a kernel's name gives."""
    identity = foretrace.decode(name)
    assert_type(identity, foretrace.Identity)
    assert_type(identity.op_class, str)


def profile(session: Session) -> None:
    """What a capture gives."""
    with foretrace.profile("name") as mine:
        for step in mine.steps():
            assert_type(step, int)
    assert_type(session.files.trace, Path)
