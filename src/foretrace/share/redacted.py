"""A redacted copy of a file, written whole or not at all."""

from __future__ import annotations

import gzip
import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, cast

import msgspec

from foretrace.errors import InputError
from foretrace.share.redact import Redactor
from foretrace.share.rewrite import rewrite, survey
from foretrace.trace.source import load

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from foretrace.trace.columns import Note

_LEVEL = 6


@dataclass(frozen=True, slots=True)
class Redaction:
    """What was removed from one file, by kind, and how it had to be repaired for that."""

    counts: Mapping[str, int]
    notes: tuple[Note, ...] = ()


def redact_trace(path: str | Path, destination: Path, *, stacks: bool = False) -> Redaction:
    """Write a copy of a trace that is safe to share; gzip when ``destination`` ends in ``.gz``.

    Times, ids and shapes stay as they are; a malformed file is written in its repaired form. The same file always gives
    the same bytes. Peak memory is the decompressed file's and a few megabytes more.

    Args:
        path: The trace; anything that `foretrace.trace.read_trace` reads.
        destination: Where the copy goes.
        stacks: Remove Python stacks too.

    Raises:
        InputError: The trace cannot be opened, or the copy not be written.
        TraceError: It is no trace.
    """
    surveyed = survey(load(path))
    redactor = Redactor(stacks=stacks)
    redactor.learn(surveyed.metadata, surveyed.source.data)
    metadata = redactor.tree(surveyed.metadata)
    with _written(destination) as file:
        rewrite(surveyed, file.write, metadata=metadata, change=redactor.piece)
    return Redaction(dict(+redactor.counts), surveyed.notes)


def redact_json(path: Path, destination: Path) -> Redaction:
    """The same for a JSON file beside a trace, such as ``NAME.env.json``."""
    try:
        tree = msgspec.json.decode(path.read_bytes())
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read `{path}`: {error}") from error
    redactor = Redactor()
    redactor.learn(tree)
    content = msgspec.json.format(msgspec.json.encode(redactor.tree(tree)), indent=2) + b"\n"
    with _written(destination) as file:
        file.write(content)
    return Redaction(dict(+redactor.counts))


def redact_page(path: Path, destination: Path) -> Redaction:
    """The same for an HTML report."""
    redactor = Redactor()
    try:
        content = redactor.markup(path.read_text(encoding="utf-8", errors="replace")).encode()
    except OSError as error:
        raise InputError(f"cannot read `{path}`: {error.strerror}") from error
    with _written(destination) as file:
        file.write(content)
    return Redaction(dict(+redactor.counts))


@contextmanager
def _written(path: Path) -> Iterator[BinaryIO]:
    """A file that appears at ``path`` when everything is in it; a device or a pipe is written to as it is."""
    in_place = path.exists() and not path.is_file()
    path = path if in_place else path.resolve()  # a link to a file stays one
    temporary = path if in_place else path.with_name(f".{os.getpid()}.{path.name}")
    try:
        with temporary.open("wb") as raw:
            if path.suffix == ".gz":  # no name and no time inside: the same content gives the same bytes
                with gzip.GzipFile("", "wb", _LEVEL, raw, mtime=0) as packed:
                    yield cast("BinaryIO", packed)
            else:
                yield raw
        if not in_place:
            temporary.replace(path)
    except OSError as error:
        raise InputError(f"cannot write `{path}`: {error.strerror or error}") from error
    finally:
        if not in_place:
            temporary.unlink(missing_ok=True)
