"""What of a folder is shared, under which names, and redacted copies of it."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from foretrace.errors import ForetraceError, InputError
from foretrace.share.redact import Redactor
from foretrace.share.redacted import Redaction, redact_json, redact_page, redact_trace
from foretrace.trace import traces_in
from foretrace.trace.folder import only_trace_in

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    Progress = Callable[[str, int, int], None]

Kind = Literal["trace", "environment", "report"]

_PAGES = (".html", ".htm")
_HANDLER_NAME = re.compile(r".+(_\d+\.\d+\.pt\.trace(?:\.env)?\.json(?:\.gz|\.zip)?)")
"""As `tensorboard_trace_handler` names files unless it is told otherwise: the host, then process and time."""


@dataclass(frozen=True, slots=True)
class Local:
    """A file to share and its name in the bucket."""

    source: Path
    remote: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class Copy:
    """What is sent for a file.

    Attributes:
        local: The file.
        path: What is sent, or ``None`` where it could not be made.
        redaction: What was removed from it.
        failed: Why there is nothing to send.
    """

    local: Local
    path: Path | None
    redaction: Redaction
    failed: str | None = None


def collect(folder: Path, *, redact: bool = True) -> tuple[Local, ...]:
    """The traces in ``folder`` and below it, what capture wrote beside them, and HTML reports.

    Args:
        folder: A folder, or one trace.
        redact: Whether private parts of names (hosts, users) are left out of the names in the bucket.

    Raises:
        InputError: There is nothing to share, or two files would get one name.
    """
    if not folder.exists():
        raise InputError(f"no folder `{folder}`", hint="`foretrace profile` writes its traces to `traces/`")
    root = folder if folder.is_dir() else folder.parent
    try:
        traces = [member.path for member in traces_in(folder)] if folder.is_dir() else [folder]
    except OSError as error:
        raise InputError(f"cannot read `{folder}`: {error}") from error
    if not traces:
        only_trace_in(folder)  # says that there is none, and how traces are named
    pages = (
        sorted(p for p in folder.rglob("*") if p.suffix.lower() in _PAGES and p.is_file()) if folder.is_dir() else []
    )
    redactor = Redactor()

    def local(path: Path, kind: Kind) -> Local:
        remote = path.relative_to(root).as_posix()
        return Local(path, _public_name(remote, redactor) if redact else remote, kind)

    found = [local(path, "trace") for path in traces]
    found += [local(beside, "environment") for beside in map(environment_of, traces) if beside.is_file()]
    found += [local(path, "report") for path in pages]
    _refuse_doubles(found)
    return tuple(found)


def environment_of(trace: Path) -> Path:
    """``NAME.env.json`` beside ``NAME.json.gz``."""
    return trace.with_name(f"{trace.name.removesuffix('.gz').removesuffix('.json')}.env.json")


def copies(files: Sequence[Local], into: Path, *, redact: bool, stacks: bool, progress: Progress) -> tuple[Copy, ...]:
    """What is sent for each of ``files``: redacted copies in the folder ``into``, or the files themselves.

    A file that cannot be redacted is not sent; the others are.
    """
    made = []
    for done, local in enumerate(files):
        progress("redacting" if redact else "looking at files", done, len(files))
        made.append(_copy(local, into, stacks=stacks) if redact else Copy(local, local.source, Redaction({})))
    return tuple(made)


def _copy(local: Local, into: Path, *, stacks: bool) -> Copy:
    path = into / local.remote
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        if local.kind == "trace":
            redaction = redact_trace(local.source, path, stacks=stacks)
        else:
            redaction = (redact_json if local.kind == "environment" else redact_page)(local.source, path)
    except ForetraceError as error:
        return Copy(local, None, Redaction({}), error.message)
    shutil.copystat(local.source, path)  # so that the bucket shows when the trace was taken
    return Copy(local, path, redaction)


def _public_name(remote: str, redactor: Redactor) -> str:
    folder, slash, name = remote.rpartition("/")
    handler = _HANDLER_NAME.fullmatch(name)
    name = f"worker{handler[1]}" if handler else name
    if name.endswith(".zip"):  # the copy of what is in it
        name = f"{name.removesuffix('.zip')}.gz"
    hidden = redactor.text(f"{folder}{slash}{name}")
    return hidden.replace("[", "").replace("]", "")


def _refuse_doubles(found: Sequence[Local]) -> None:
    seen: dict[str, Path] = {}
    for local in found:
        if local.remote in seen:
            raise InputError(
                f"`{seen[local.remote]}` and `{local.source}` would both be `{local.remote}` in the bucket",
                hint="rename one of them, or share their folders apart",
            )
        seen[local.remote] = local.source
