"""Where a command's output goes: stdout or a file that is not there yet, in the format that was asked for."""

from __future__ import annotations

import io
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path  # noqa: TC003 - cyclopts reads the annotation when it runs
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from cyclopts import Parameter

from foretrace.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from foretrace.report.document import Document
    from foretrace.report.page import Page

_WIDEST, _NARROWEST = 100, 40


Format: TypeAlias = Literal["terminal", "markdown", "json", "html"]
_ENDINGS: dict[str, Format] = {".md": "markdown", ".json": "json", ".html": "html", ".htm": "html"}


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Output:
    """The flags that every command with a report takes.

    Attributes:
        format: How to show it; unless given, as the name of the output file ends (.md, .json, .html).
        output: Write to this file instead of stdout.
        force: Overwrite that file if it is there.
    """

    format: Format | None = None
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None
    force: bool = False

    def check(self) -> None:
        """Refuse an output file before any work is done.

        Raises:
            InputError: The file is there and ``--force`` was not given, it is a folder, or its folder is not there.
        """
        if self.output is None:
            return
        if self.output.is_dir():
            raise InputError(f"`{self.output}` is a folder", hint="name a file in it")
        if self.output.is_file() and not self.force:  # what is written to a device or a pipe overwrites nothing
            raise InputError(
                f"`{self.output}` is already there", hint="give another name, or `--force` to overwrite it"
            )
        if not self.output.parent.is_dir():
            raise InputError(f"no folder `{self.output.parent}` to write to", hint="make it first, or give another -o")

    def emit(
        self,
        document: Callable[[], Document],
        record: Callable[[], object],
        page: Callable[[], Page] | None = None,
    ) -> None:
        """Write one report: whichever of its forms the format needs is made; ``page`` is what HTML shows besides."""
        text = self._text(document, record, page)
        if self.output is None:
            if self._format() in {"json", "html"} and isinstance(sys.stdout, io.TextIOWrapper):
                # RFC 8259, section 8.1, and the page's own declaration, whatever the console's own encoding
                sys.stdout.reconfigure(encoding="utf-8")
            sys.stdout.write(text)
            return
        try:
            self.output.write_text(text, encoding="utf-8")
        except OSError as error:
            raise InputError(f"cannot write `{self.output}`: {error.strerror}") from error

    def _format(self) -> Format:
        if self.format is not None:
            return self.format
        return _ENDINGS.get(self.output.suffix.lower(), "terminal") if self.output else "terminal"

    def _text(
        self,
        document: Callable[[], Document],
        record: Callable[[], object],
        page: Callable[[], Page] | None,
    ) -> str:
        wanted = self._format()
        if wanted == "json":
            from foretrace.render.to_json import to_json  # noqa: PLC0415 - each format loads its own renderer

            return to_json(record())
        if wanted == "markdown":
            from foretrace.render.to_markdown import to_markdown  # noqa: PLC0415 - as above

            return to_markdown(document())
        if wanted == "html":
            from foretrace.render.to_html import to_html  # noqa: PLC0415 - as above

            return to_html(document(), page() if page else None)
        from foretrace.render.to_terminal import to_terminal  # noqa: PLC0415 - as above

        on_screen = self.output is None
        return to_terminal(document(), width=_width() if on_screen else _WIDEST, styled=on_screen and styled())


STDOUT = Output()
"""What a command uses when no flag is given."""


def styled() -> bool:
    """Whether stdout is a terminal that wants styles (https://no-color.org: ``NO_COLOR`` set and not empty)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _width() -> int:
    return max(_NARROWEST, min(_WIDEST, shutil.get_terminal_size((_WIDEST, 24)).columns))
