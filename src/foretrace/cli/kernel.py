"""``foretrace kernel``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from foretrace.cli.output import STDOUT, Output
from foretrace.errors import InputError
from foretrace.names import decode
from foretrace.report.kernel import kernel_document

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def kernel(*names: Annotated[str, Parameter(allow_leading_hyphen=True)], out: Output = STDOUT) -> None:
    """Say what the name of a GPU kernel says.

    What the name does not say is left out (null in JSON); a name that no grammar knows is called unknown.

    Args:
        names: Kernel names as a trace spells them, each one argument; `-` reads them from stdin, one a line.
        out: How and where to show it.
    """
    out.check()
    identities = [decode(name) for name in _lines(names)]
    if not identities:
        raise InputError("no kernel name was given", hint="`foretrace kernel NAME`, or names on stdin with `-`")
    out.emit(lambda: kernel_document(identities), lambda: identities)


def _lines(names: Iterable[str]) -> Iterator[str]:
    for name in names:
        if name == "-":
            yield from filter(None, (line.strip() for line in sys.stdin))
        elif name.startswith("-"):  # `-` had to be let through, and with it everything like it
            raise InputError(f"unknown option: {name}", hint="`foretrace kernel --help` shows what it takes")
        else:
            yield name
