"""The command line as it was promised: commands and flags change only on purpose."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foretrace.cli.app import app

if TYPE_CHECKING:
    from collections.abc import Callable


def test_commands_and_flags_are_frozen(snapshot: Callable[[str, str], None]) -> None:
    """Every command with its arguments and flags, their types and defaults, as accepted."""
    tree = app()
    lines = []
    for name in tree:
        if name.startswith("-"):
            continue
        lines.append(name)
        for argument in tree[name].assemble_argument_collection():
            if argument.parse:
                kind = getattr(argument.hint, "__name__", None) or str(argument.hint)
                lines.append(f"  {' '.join(argument.names)}: {kind} = {argument.field_info.default!r}")
    snapshot("\n".join(lines) + "\n", "command_line.txt")
