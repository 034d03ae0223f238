"""Write docs/reference/cli.md from the command line's own help: `python tools/reference.py`.

`--check` writes nothing and exits with 1 when the file is not what would be written.
"""

from __future__ import annotations

import argparse
import inspect
import sys
from pathlib import Path

from foretrace.cli.app import COMMANDS, app

REFERENCE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "cli.md"
_HEADING = "\n## foretrace "
_HEAD = """\
# The command line

*Written by `python tools/reference.py` from the program's own help: change the command's docstring, not this page.*

`foretrace COMMAND --help` shows one command, `foretrace --version` the version; `python -m foretrace` is the same
program. Reports go to stdout and talk to stderr. `NO_COLOR` turns styles off; nothing is said by colour alone.

| exit code | meaning |
|---|---|
| 0 | done; whatever was asked to hold, held |
| 1 | done, and something that was asked to hold was broken: a gate, a guess |
| 2 | the command line or the input is wrong, or a gate could not run; one `error:` line, then `hint:` |
| 3 | `--strict` was given and the input could be read only in part |
"""


def reference() -> str:
    """The whole page: every command in the order of `foretrace --help`."""
    tree = app()
    shown = {section.split("\n", 1)[0]: section for section in tree.generate_docs().split(_HEADING)[1:]}
    listed = (f"- [`{name}`](#foretrace-{name}): {line}" for name, _, line in COMMANDS)
    commands = (_command(shown[name], inspect.getdoc(tree[name].default_command)) for name, _, _ in COMMANDS)
    return "\n".join([_HEAD, *listed, "", *commands])


def _command(shown: str, docstring: str | None) -> str:
    """One command: its usage, then what its docstring says before the arguments, then arguments and flags."""
    head, _, flags = shown.partition("\n\n**")
    name, _, usage = head.partition("\n\n```console\n")
    usage, _, line = usage.partition("\n```\n\n")
    said = (docstring or line).partition("\nArgs:")[0].strip()
    return f"## foretrace {name}\n\n```text\n{usage}\n```\n\n{said}\n\n**{flags.strip()}\n"


def main() -> None:
    """Write the page, or check it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 when the page is out of date")
    check = parser.parse_args().check
    text = reference()
    if not check:
        REFERENCE.write_text(text, encoding="utf-8", newline="\n")
    elif REFERENCE.read_text(encoding="utf-8") != text:
        sys.exit(f"error: `{REFERENCE.name}` is out of date\n\nhint: `python tools/reference.py` writes it")


if __name__ == "__main__":
    main()
