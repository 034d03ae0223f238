"""From what was named to the bytes of one trace: paths, URLs, directories, gzip and zip, told apart by their magic."""

from __future__ import annotations

import io
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

from foretrace.errors import InputError, TraceError
from foretrace.trace.columns import Note
from foretrace.units import size

GZIP_MAGIC, ZIP_MAGIC, BOM = b"\x1f\x8b", b"PK\x03\x04", b"\xef\xbb\xbf"
DEFAULT_LIMIT_BYTES = 32 << 30
"""Decompressed size above which a file is refused: ten times the largest trace in public reports."""

_SUFFIXES = (".json", ".json.gz", ".json.zip")
_PIECE = 1 << 20
_EXPORT_HINT = 'export one with `prof.export_chrome_trace("trace.json.gz")`, or let `foretrace profile` do it'


@dataclass(frozen=True, slots=True)
class Source:
    """The decompressed bytes of one trace file and what was noticed on the way to them."""

    path: str
    data: bytes
    notes: tuple[Note, ...]


def load(path: str | Path, *, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> Source:
    """Read ``path`` (a file, a directory with one trace, or any URL that fsspec opens) and unpack it.

    Args:
        path: Where the trace is.
        limit_bytes: Refuse to unpack more than this.

    Raises:
        InputError: Nothing is there, or it cannot be opened.
        TraceError: Something is there and it is no trace, empty, or too large when unpacked.
    """
    named = str(path)
    packed, named = _fetch(named) if "://" in named else _read_local(Path(path))
    if not packed:
        raise TraceError(f"`{named}` is empty", hint=_EXPORT_HINT)
    data, notes = unpack(packed, named, limit_bytes)
    return Source(named, data.removeprefix(BOM), notes)


def unpack(packed: bytes, named: str, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> tuple[bytes, tuple[Note, ...]]:
    """Undo gzip (several members, cut short) and zip, whatever the file is called."""
    if packed.startswith(GZIP_MAGIC):
        return _gunzip(packed, named, limit_bytes)
    if packed.startswith(ZIP_MAGIC):
        return _unzip(packed, named, limit_bytes)
    return packed, ()


def _read_local(path: Path) -> tuple[bytes, str]:
    if path.is_dir():
        path = _only_trace_in(path)
    try:
        return path.read_bytes(), str(path)
    except FileNotFoundError:
        raise InputError(f"no file `{path}`", hint="check the path; `foretrace profile` writes to `traces/`") from None
    except OSError as error:
        raise InputError(f"cannot read `{path}`: {error.strerror}") from error


def _only_trace_in(folder: Path) -> Path:
    found = sorted(p for p in folder.rglob("*") if p.is_file() and p.name.endswith(_SUFFIXES) and ".env." not in p.name)
    if not found:
        raise InputError(f"no trace in `{folder}`", hint=f"traces are named {', '.join('*' + s for s in _SUFFIXES)}")
    if len(found) > 1:
        some = ", ".join(f"`{p.relative_to(folder)}`" for p in found[:3])
        raise InputError(
            f"{len(found)} traces in `{folder}`: {some}{', …' if len(found) > 3 else ''}",  # noqa: PLR2004
            hint="name one of them",
        )
    return found[0]


def _fetch(url: str) -> tuple[bytes, str]:
    import fsspec  # noqa: PLC0415 - 90 ms to import, and only URLs need it

    try:
        with fsspec.open(url, "rb") as file:
            return bytes(file.read()), url
    except FileNotFoundError:
        raise InputError(f"nothing at `{url}`", hint="check the address") from None
    except (OSError, ValueError, ImportError) as error:
        raise InputError(f"cannot open `{url}`: {error}", hint="fsspec names the package a scheme needs") from error


def _gunzip(packed: bytes, named: str, limit_bytes: int) -> tuple[bytes, tuple[Note, ...]]:
    out = io.BytesIO()
    view = memoryview(packed)
    start = 0
    try:
        while packed[start : start + 2] == GZIP_MAGIC:
            member = zlib.decompressobj(wbits=31)
            while start < len(view) and not member.eof:
                piece = view[start : start + _PIECE]
                out.write(member.decompress(piece))
                start += len(piece) - len(member.unused_data)
                _refuse_above(out.tell(), limit_bytes, named)
            if not member.eof:
                return out.getvalue(), (_cut_short("its last member has no end", out.tell()),)
    except zlib.error as error:
        if not out.tell():
            raise TraceError(f"`{named}` starts like gzip and cannot be unpacked: {error}") from None
        return out.getvalue(), (_cut_short(str(error), out.tell()),)
    return out.getvalue(), ()


def _cut_short(why: str, kept: int) -> Note:
    return Note(
        "gzip-truncated",
        f"the gzip stream is cut short ({why}); {size(kept)} could be unpacked",
        partial=True,
    )


def _unzip(packed: bytes, named: str, limit_bytes: int) -> tuple[bytes, tuple[Note, ...]]:
    try:
        with zipfile.ZipFile(io.BytesIO(packed)) as archive:
            members = [m for m in archive.infolist() if m.filename.endswith((".json", ".json.gz")) or not m.is_dir()]
            if not members:
                raise TraceError(f"`{named}` is an empty zip archive")
            member = next((m for m in members if ".json" in m.filename), members[0])
            _refuse_above(member.file_size, limit_bytes, named)
            inner = archive.read(member)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise TraceError(f"`{named}` is a zip archive that cannot be read: {error}") from None
    if len(members) > 1:
        note = Note("zip-members", f"read `{member.filename}`, one of {len(members)} files in the archive")
        data, notes = unpack(inner, named, limit_bytes)
        return data, (note, *notes)
    return unpack(inner, named, limit_bytes)


def _refuse_above(n_bytes: int, limit_bytes: int, named: str) -> None:
    if n_bytes > limit_bytes:
        raise TraceError(
            f"`{named}` unpacks to more than {size(limit_bytes)}",
            hint="if this is a trace and no accident, record fewer steps",
        )
