"""Share a folder: redact, compare, send, and say what everybody can open now.

The manifest goes last, in a commit of its own: it names what is there, or it is not there.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import msgspec

from foretrace import readings
from foretrace.errors import ForetraceError, InputError
from foretrace.run import read
from foretrace.share import perfetto
from foretrace.share.folder import collect, copies
from foretrace.share.redact import Redactor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from foretrace.run import Run
    from foretrace.share.bucket import Bucket, Upload
    from foretrace.share.folder import Copy

    Progress = Callable[[str, int, int], None]

SCHEMA, MANIFEST_SCHEMA = "foretrace.share/1", "foretrace.manifest/1"

_FIRST_SENTENCE = re.compile(r".+?[.!?](?=\s|\Z)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class SharedFile:
    """One file of the folder.

    Attributes:
        path: Its name in the bucket.
        kind: ``trace``, ``environment`` or ``report``.
        status: ``new``, ``changed``, ``unchanged``, ``failed``, or ``unknown`` where the Hub was not asked.
        size_bytes: Of what is sent.
        url: Where it is in the bucket.
        perfetto: Opens a trace in Perfetto, on its slowest step or the kernel that was asked for.
        opens_on: What that is.
        sentence: A trace's reading in one sentence.
        removed: What redaction removed, by kind.
        notes: What was repaired, or why it is not there.
    """

    path: str
    kind: str
    status: str
    size_bytes: int | None = None
    url: str | None = None
    perfetto: str | None = None
    opens_on: str | None = None
    sentence: str | None = None
    removed: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Share:
    """A folder and what became of it.

    Attributes:
        bucket, page: The bucket's id and its page on the Hub.
        private: Whether only its owners can read it.
        created: Whether it was made, or would be, for this; ``None`` where the Hub was not asked.
        dry_run: Whether nothing was sent.
        redacted: Whether redacted copies are shared.
        manifest: Name of the manifest in the bucket; ``None`` in a dry run.
        files: Every file.
    """

    bucket: str
    page: str
    private: bool
    created: bool | None
    dry_run: bool
    redacted: bool
    manifest: str | None
    files: tuple[SharedFile, ...]

    @property
    def removed(self) -> Counter[str]:
        """What redaction removed from all of them, by kind."""
        return sum((Counter(dict(file.removed)) for file in self.files), Counter[str]())

    def to_json(self) -> Mapping[str, Any]:
        """The record as JSON."""
        return {"schema": SCHEMA, **msgspec.to_builtins(self)}


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked for.

    Attributes:
        folder: The folder, or one trace.
        private: Make the bucket private.
        redact: Share redacted copies.
        stacks: Remove Python stacks too.
        kernel: Open each trace that has it on this kernel.
        dry_run: Send nothing.
    """

    folder: Path
    private: bool = False
    redact: bool = True
    stacks: bool = False
    kernel: str | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Prepared:
    """What `prepare` found: the record as it will be, and what there is to send."""

    result: Share
    uploads: tuple[Upload, ...]


def prepare(request: Request, bucket: Bucket, into: Path, progress: Progress) -> Prepared:
    """Make the copies, read them, and compare them with what is in the bucket; nothing is sent.

    Args:
        request: What is asked for.
        bucket: Where to.
        into: An empty folder for the copies.
        progress: Called with what is being done, how much is done, how much there is.

    Raises:
        InputError: There is nothing to share, or the bucket is public when it should be private.
        HubError: The Hub could not be asked.
    """
    if request.private and bucket.private is False:
        raise InputError(f"bucket `{bucket.id}` is public", hint=f"name another, or make it private at {bucket.page}")
    found = collect(request.folder, redact=request.redact)
    made = copies(found, into, redact=request.redact, stacks=request.stacks, progress=progress)
    if not any(copy.path for copy in made):
        raise InputError(f"nothing in `{request.folder}` can be shared: {made[0].failed}")
    uploads = bucket.plan([(copy.path, copy.local.remote) for copy in made if copy.path is not None])
    planned = {upload.remote: upload for upload in uploads}
    files = []
    for done, copy in enumerate(made):
        progress("reading", done, len(made))
        files.append(_described(copy, planned.get(copy.local.remote), bucket, request.kernel))
    result = Share(
        bucket=bucket.id,
        page=bucket.page,
        private=bool(bucket.private) or (request.private and not bucket.exists),
        created=not bucket.exists if bucket.asked else None,
        dry_run=request.dry_run,
        redacted=request.redact,
        manifest=None if request.dry_run else _manifest_name(request),
        files=tuple(files),
    )
    return Prepared(result, uploads)


def send(prepared: Prepared, bucket: Bucket, into: Path, progress: Progress) -> None:
    """Make the bucket if it is not there, send what is new or changed, and the manifest last.

    Args:
        prepared: What `prepare` found.
        bucket: Where to.
        into: A folder for the manifest.
        progress: As `prepare` takes it.

    Raises:
        HubError: The Hub could not be reached, or refused; what arrived stays, and the manifest is as it was.
    """
    result = prepared.result
    if not bucket.exists:
        bucket = bucket.create(private=result.private)
    bucket.send(prepared.uploads, progress)
    if result.manifest is not None:
        path = into / ".manifest.json"
        path.write_bytes(manifest(result))
        bucket.send(bucket.plan([(path, result.manifest)]), progress)


def manifest(result: Share) -> bytes:
    """What the folder holds, for programs and for people who find the bucket: the same content, the same bytes."""
    kept = ("path", "kind", "size_bytes", "url", "perfetto", "opens_on", "sentence")
    files = [
        {key: getattr(file, key) for key in kept if getattr(file, key) is not None}
        for file in sorted(result.files, key=lambda file: file.path)
        if file.status != "failed"
    ]
    record = {"schema": MANIFEST_SCHEMA, "redacted": result.redacted, "files": files}
    return msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n"


def _manifest_name(request: Request) -> str:
    """``traces.manifest.json`` for a folder ``traces``; several folders can share one bucket."""
    name = request.folder.resolve().name.removesuffix(".gz").removesuffix(".json") or "traces"
    if request.redact:
        name = re.sub(r"[\[\]]", "", Redactor().text(name))
    return f"{name}.manifest.json"


def _described(copy: Copy, upload: Upload | None, bucket: Bucket, kernel: str | None) -> SharedFile:
    local, notes = copy.local, tuple(note.text for note in copy.redaction.notes)
    if upload is None or copy.path is None:
        return SharedFile(local.remote, local.kind, "failed", notes=(copy.failed or "nothing to send",))
    url = bucket.url(local.remote)
    file = SharedFile(
        path=local.remote,
        kind=local.kind,
        status=upload.status,
        size_bytes=upload.size_bytes,
        url=url,
        removed=copy.redaction.counts,
        notes=notes,
    )
    if local.kind != "trace":
        return file
    try:
        run = read(copy.path)
    except ForetraceError as error:  # only where it was not redacted: a redacted copy is sound
        return replace(file, notes=(*notes, error.message))
    focus = _focus(run, kernel)
    return replace(
        file,
        sentence=sentence(run),
        perfetto=perfetto.link(url, focus),
        opens_on=focus.what if focus else None,
    )


def _focus(run: Run, kernel: str | None) -> perfetto.Focus | None:
    if kernel is not None:
        try:
            return perfetto.kernel(run, kernel)
        except InputError:  # not every trace of a folder has it
            pass
    return perfetto.slowest_step(run)


def sentence(run: Run) -> str | None:
    """The run's reading in one sentence: what bounds it, or what the trace holds where that cannot be said."""
    for question in ("bound", "window"):
        for answer in readings.ask(run, [question]):
            first = _FIRST_SENTENCE.match(answer.sentence)
            return first.group() if first else answer.sentence
    return None
