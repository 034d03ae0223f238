"""Folders of traces as TensorBoard's handler writes them, one file a rank: ``<worker>.<time>.pt.trace.json[.gz]``.

The time in the name has collided between ranks before, so the rank is what the file itself says in ``distributedInfo``.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, cast

from foretrace.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

_SUFFIXES = (".json", ".json.gz", ".json.zip")
_HEAD_BYTES = 1 << 18
_PIECE = 1 << 20
_IS_TRACE = re.compile(rb'"traceEvents"|"schemaVersion"|^\s*+\[\s*+\{')
_RANK = re.compile(rb'"distributedInfo"\s*+:\s*+\{[^{}]{0,400}?"rank"\s*+:\s*+(\d{1,9})')
_WORLD = re.compile(rb'"distributedInfo"\s*+:\s*+\{[^{}]{0,400}?"world_size"\s*+:\s*+(\d{1,9})')


@dataclass(frozen=True, slots=True)
class Member:
    """One trace of a folder and what its header says; unknown is ``None``."""

    path: Path
    rank: int | None
    world_size: int | None


def traces_in(folder: Path) -> list[Member]:
    """The traces in ``folder`` and below it, in order of their path, told from other JSON by their first bytes.

    Raises:
        OSError: A file cannot be read.
    """
    named = (path for path in folder.rglob("*") if path.name.endswith(_SUFFIXES) and ".env." not in path.name)
    members = (_peek(path) for path in sorted(named) if path.is_file())
    return [member for member in members if member is not None]


def only_trace_in(folder: Path) -> Path:
    """The one trace in ``folder``.

    Raises:
        InputError: There is none, or several: the message says which ranks they are of.
    """
    members = traces_in(folder)
    if not members:
        raise InputError(f"no trace in `{folder}`", hint=f"traces are named {', '.join('*' + s for s in _SUFFIXES)}")
    if len(members) > 1:
        raise InputError(
            f"{len(members)} traces in `{folder}`: {_contents(folder, members)}",
            hint="`foretrace fleet` reads them together, `foretrace read` one of them, `foretrace diff` compares two",
        )
    return members[0].path


def _contents(folder: Path, members: Sequence[Member]) -> str:
    by_rank: defaultdict[int, list[Path]] = defaultdict(list)
    for member in members:
        if member.rank is not None:
            by_rank[member.rank].append(member.path)
    if not by_rank:
        return _listed([member.path for member in members], folder)
    parts = [f"found ranks {ranges(by_rank)}"]
    world = max((member.world_size or 0 for member in members), default=0)
    missing = set(range(world)) - set(by_rank)
    if world:
        parts = [f"world_size {world}", *parts, f"missing {ranges(missing)}" if missing else "none missing"]
    parts += [f"rank {rank} twice or more ({_listed(found, folder)})" for rank, found in _repeated(by_rank).items()]
    without = len(members) - sum(map(len, by_rank.values()))
    if without:
        parts.append(f"{without} without a rank")
    return "; ".join(parts)


def _repeated(by_rank: Mapping[int, list[Path]]) -> dict[int, list[Path]]:
    return {rank: paths for rank, paths in sorted(by_rank.items()) if len(paths) > 1}


def _listed(paths: Sequence[Path], folder: Path) -> str:
    some = ", ".join(f"`{path.relative_to(folder)}`" for path in paths[:3])
    return some + (", …" if len(paths) > 3 else "")  # noqa: PLR2004 - three say enough


def ranges(numbers: Iterable[int]) -> str:
    """``0–2, 5`` for 0, 1, 2, 5."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(low) if low == high else f"{low}–{high}" for low, high in runs)


def _peek(path: Path) -> Member | None:
    """What the beginning of a file says, or its end when the rank comes after the events; ``None`` for no trace.

    A packed file of which nothing can be unpacked counts, by its name.
    """
    with path.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        file = cast("BinaryIO", gzip.GzipFile(fileobj=raw)) if packed else raw
        head = _read(file, _HEAD_BYTES)
        if packed and not head:  # reading it says why; passing it over would not
            return Member(path, None, None)
        if not (_IS_TRACE.search(head) or head.startswith(b"PK\x03\x04")):
            return None
        if not packed:
            raw.seek(max(len(head), path.stat().st_size - _HEAD_BYTES))
        text = head if _RANK.search(head) else _end(file, head)
    rank, world = _RANK.search(text), _WORLD.search(text)
    return Member(path, int(rank[1]) if rank else None, int(world[1]) if world else None)


def _end(file: BinaryIO, text: bytes) -> bytes:
    """The last bytes of ``file``, of which ``text`` was read already."""
    while piece := _read(file, _PIECE):
        text = (text + piece)[-_HEAD_BYTES:]
    return text


def _read(file: BinaryIO, count: int) -> bytes:
    try:
        return file.read(count)
    except (EOFError, zlib.error, gzip.BadGzipFile):  # cut short: what came before has been read
        return b""
