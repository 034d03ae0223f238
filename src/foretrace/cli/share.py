"""``foretrace share``."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from foretrace.cli.output import STDOUT, Output
from foretrace.cli.progress import working
from foretrace.errors import InputError
from foretrace.share import bucket as buckets
from foretrace.share import hub
from foretrace.share.document import document
from foretrace.share.folder import collect
from foretrace.share.shared import Request, prepare, send

if TYPE_CHECKING:
    from foretrace.share.bucket import Bucket


def share(
    folder: Annotated[Path | None, Parameter(name=["FOLDER", "--folder-path", "-f"])] = None,
    /,
    *,
    bucket: Annotated[str, Parameter(name=["--bucket", "-b", "--bucket-name"])],
    namespace: Annotated[str | None, Parameter(name=["--namespace", "-n"])] = None,
    private: bool = False,
    no_redact: bool = False,
    stacks: bool = False,
    kernel: str | None = None,
    dry_run: bool = False,
    yes: Annotated[bool, Parameter(name=["--yes", "-y"])] = False,
    out: Output = STDOUT,
) -> int:
    """Share a folder of traces through a Hugging Face bucket, and print links that open them in Perfetto.

    Tokens, environment variables, host and user names and absolute paths are removed from what is sent; the files on
    this machine stay as they are. Files that are in the bucket already are not sent again, and none is deleted.

    Args:
        folder: Folder with traces (and HTML reports), or one trace.
        bucket: Name of the bucket; it is made when it is not there, after asking.
        namespace: User or organization that it belongs to; you, unless given.
        private: Make the bucket private. Perfetto's page cannot read from it then, so links do not open.
        no_redact: Send the files as they are.
        stacks: Remove Python stacks too.
        kernel: Links open on this kernel instead of the slowest step.
        dry_run: Say what would be removed and sent, and send nothing.
        yes: Make the bucket without asking.
        out: How and where to show it.
    """
    if folder is None:
        raise InputError("no folder was given", hint="`foretrace share traces -b traces`")
    out.check()
    request = Request(folder, private=private, redact=not no_redact, stacks=stacks, kernel=kernel, dry_run=dry_run)
    collect(folder, redact=request.redact)  # a folder that is not there is told before anybody has to log in
    where = buckets.find(hub.connect(), bucket, namespace, may_guess=dry_run)
    with TemporaryDirectory(prefix="foretrace-") as into:
        with working() as progress:
            prepared = prepare(request, where, Path(into), progress)
        result = prepared.result
        if not dry_run:
            _agree(where, private=private, yes=yes)
            with working() as progress:
                send(prepared, where, Path(into), progress)
    out.emit(lambda: document(result), result.to_json)
    return int(any(file.status == "failed" for file in result.files))


def _agree(where: Bucket, *, private: bool, yes: bool) -> None:
    """Ask before a bucket is made."""
    if where.exists or yes:
        return
    if sys.stdin.isatty():
        sys.stderr.write(f"make the {'private' if private else 'public'} bucket `{where.id}`? [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() in ("y", "yes"):
            return
    raise InputError(f"bucket `{where.id}` is not there and was not made", hint="make it with `--yes`")
