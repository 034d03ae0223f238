"""The command line as it was promised: commands and flags change only on purpose."""

from __future__ import annotations

from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from foretrace.cli.app import DEFAULTS, app
from foretrace.cli.read import read
from foretrace.readings import READINGS

if TYPE_CHECKING:
    from collections.abc import Callable


def test_commands_and_flags_are_frozen(snapshot: Callable[[str, str], None]) -> None:
    """Every command with its arguments and flags, their types and defaults, as accepted.

    A new command or flag is accepted with ``FORETRACE_ACCEPT=1`` and said in the changelog.
    """
    tree = app()
    lines = []
    for name in tree:
        if name.startswith("-"):
            continue
        lines.append(name)
        for argument in tree[name].assemble_argument_collection(default_parameter=DEFAULTS):
            field = argument.field_info
            if argument.parse and not is_dataclass(field.default):  # the flags in it follow one by one
                lines += [f"  {' '.join(argument.names)}: {_kind(argument.hint)}{_default(field)}"]
    snapshot("\n".join(lines) + "\n", "command_line.txt")


def test_help_lists_the_questions() -> None:
    """All that ``--ask`` takes, in their order."""
    listed = (read.__doc__ or "").partition("`--ask all`): ")[2].partition(".")[0]
    assert [word.strip() for word in listed.split(",")] == [reading.question for reading in READINGS]


def _kind(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return "|".join(map(str, get_args(hint)))
    return hint.__name__ if isinstance(hint, type) and not get_args(hint) else str(hint).replace("pathlib.", "")


def _default(field: Any) -> str:
    if field.default is field.empty:
        return ""
    return f" = {field.default.as_posix() if hasattr(field.default, 'as_posix') else repr(field.default)}"
