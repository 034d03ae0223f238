"""From what was named to the bytes of one trace: paths, URLs, directories, gzip and zip, told apart by their magic."""

from __future__ import annotations

import contextlib
import io
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

from foretrace.errors import InputError, MissingDependencyError, TraceError
from foretrace.trace.columns import Note
from foretrace.trace.folder import only_trace_in
from foretrace.trace.text import visible
from foretrace.units import size

GZIP_MAGIC, ZIP_MAGIC, BOM = b"\x1f\x8b", b"PK\x03\x04", b"\xef\xbb\xbf"
UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")
DEFAULT_LIMIT_BYTES = 32 << 30
"""Decompressed size above which a file is refused: ten times the largest trace in public reports."""

EXPORT_HINT = 'export one with `prof.export_chrome_trace("trace.json.gz")`, or let `foretrace profile` do it'

_PIECE = 1 << 20
_MAX_LAYERS = 3
_RATIO_FROM_BYTES, _MAX_RATIO = 1 << 30, 250
"""Above a gigabyte, what unpacks to more than this many times its size is no trace: those shrink 8 to 60 times."""


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
        raise TraceError(f"`{named}` is empty", hint=EXPORT_HINT)
    data, notes = unpack(packed, named, limit_bytes)
    if data.startswith(UTF16_BOMS):  # what PowerShell's > makes of a text
        data = data.decode("utf-16", "replace").encode()
    return Source(named, data.removeprefix(BOM), notes)


def unpack(packed: bytes, named: str, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> tuple[bytes, tuple[Note, ...]]:
    """Undo gzip (several members, cut short) and zip, one inside the other too, whatever the file is called."""
    notes: tuple[Note, ...] = ()
    for _ in range(_MAX_LAYERS):
        if packed.startswith(GZIP_MAGIC):
            packed, more = _gunzip(packed, named, limit_bytes)
        elif packed.startswith(ZIP_MAGIC):
            packed, more = _unzip(packed, named, limit_bytes)
        else:
            break
        notes += more
    return packed, notes


def _read_local(path: Path) -> tuple[bytes, str]:
    try:
        if path.is_dir():
            path = only_trace_in(path)
        return path.read_bytes(), str(path)
    except FileNotFoundError as error:
        if path.is_dir():
            message = f"`{error.filename}` went away while the folder `{path}` was searched"
            raise InputError(message, hint="wait for what writes there, or name one trace") from None
        raise InputError(f"no file `{path}`", hint="check the path; `foretrace profile` writes to `traces/`") from None
    except (OSError, ValueError) as error:  # ValueError: a path that no file system can have
        raise InputError(f"cannot read `{path}`: {getattr(error, 'strerror', None) or error}") from error


def _fetch(url: str) -> tuple[bytes, str]:
    import fsspec  # noqa: PLC0415 - 90 ms to import, and only URLs need it

    try:
        with fsspec.open(url, "rb") as file:
            return bytes(file.read()), url
    except FileNotFoundError:
        raise InputError(f"nothing at `{url}`", hint="check the address") from None
    except ImportError as error:
        raise MissingDependencyError(f"cannot open `{url}`: {_line(error)}", hint="install what it names") from error
    except Exception as error:  # every file system of fsspec raises errors of its own
        raise InputError(
            f"cannot open `{url}`: {_line(error)}", hint="check the address and the access to it"
        ) from error


def _line(error: Exception) -> str:
    """The first line of what an error says, or its kind where it says nothing."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def _gunzip(packed: bytes, named: str, limit_bytes: int) -> tuple[bytes, tuple[Note, ...]]:
    out = io.BytesIO()
    start, why = 0, None
    while why is None and packed[start : start + 2] == GZIP_MAGIC:
        member = zlib.decompressobj(wbits=31)
        while why is None and not member.eof:
            feed = packed[start : start + _PIECE]
            start += len(feed)
            why = None if feed else "its last member has no end"
            while feed and not member.eof and why is None:
                before = member.copy()
                try:
                    out.write(member.decompress(feed, _PIECE))
                except zlib.error as error:
                    why = str(error)
                    _write_up_to_the_damage(before, feed, out)
                feed = member.unconsumed_tail
                _refuse_above(out.tell(), limit_bytes, named, len(packed))
        start -= len(member.unused_data)
    if why is None:
        return out.getvalue(), ()
    if not out.tell():
        raise TraceError(f"`{named}` starts like gzip and cannot be unpacked: {why}")
    return out.getvalue(), (_cut_short(why, out.tell()),)


def _write_up_to_the_damage(member: zlib._Decompress, feed: bytes, out: io.BytesIO) -> None:
    """What ``feed`` yields byte by byte: a call that fails gives nothing of what it could unpack."""
    with contextlib.suppress(zlib.error):
        out.writelines(member.decompress(feed[at : at + 1]) for at in range(len(feed)))


def _cut_short(why: str, kept: int) -> Note:
    return Note(
        "gzip-truncated",
        f"the gzip stream is cut short ({why}); {size(kept)} could be unpacked",
        partial=True,
    )


def _unzip(packed: bytes, named: str, limit_bytes: int) -> tuple[bytes, tuple[Note, ...]]:
    try:
        with zipfile.ZipFile(io.BytesIO(packed)) as archive:
            members = [member for member in archive.infolist() if not member.is_dir()]
            if any(member.filename.endswith("data.pkl") for member in members):
                raise TraceError(f"`{named}` is a PyTorch checkpoint, not a profiler trace", hint=EXPORT_HINT)
            if not members:
                raise TraceError(f"`{named}` is an empty zip archive", hint=EXPORT_HINT)
            member = next((m for m in members if ".json" in m.filename), members[0])
            _refuse_above(member.file_size, limit_bytes, named, len(packed))
            inner = archive.read(member)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, OSError, ValueError) as error:
        raise TraceError(f"`{named}` is a zip archive that cannot be read: {error}") from None
    if len(members) > 1:
        return inner, (Note("zip-members", f"read `{visible(member.filename)}`, one of {len(members)} files in it"),)
    return inner, ()


def _refuse_above(n_bytes: int, limit_bytes: int, named: str, packed_bytes: int) -> None:
    if n_bytes > limit_bytes:
        what = f"more than {size(limit_bytes)}"
    elif n_bytes > max(_RATIO_FROM_BYTES, _MAX_RATIO * packed_bytes):
        what = f"more than {_MAX_RATIO} times its size, as no trace does"
    else:
        return
    raise TraceError(f"`{named}` unpacks to {what}", hint="if this is a trace and no accident, record fewer steps")
