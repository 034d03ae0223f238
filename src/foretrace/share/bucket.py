"""Files in a bucket of the Hugging Face Hub: created when missing, sent when changed, never deleted.

Whether a file changed is told by its content: the storage names content by a hash, and the client can compute that hash
without sending anything. Files are sent in small commits, so that after a cut only what is missing is sent again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

from foretrace.errors import InputError
from foretrace.share.hub import LOGIN_HINT, logged_in, speaking, whoami

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from huggingface_hub import HfApi

    Progress = Callable[[str, int, int], None]

Status = Literal["new", "changed", "unchanged", "unknown"]

_COMMIT_BYTES, _COMMIT_FILES = 32_000_000, 32
"""The most that one commit holds: what a cut connection can cost."""
_PREFIXES = ("hf://buckets/", "https://huggingface.co/buckets/", "buckets/")


@dataclass(frozen=True, slots=True)
class Upload:
    """A file on this machine and its name in the bucket; ``hash`` names its content as the bucket does."""

    path: Path
    remote: str
    size_bytes: int
    hash: str
    status: Status


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket, which may not be there yet.

    Attributes:
        api: The Hub's client.
        id: ``namespace/name``.
        private: Whether only its owners can read it; ``None`` while it is not there.
        asked: Whether the Hub was asked; without, nothing is known of the bucket and it is taken for one not there.
    """

    api: HfApi
    id: str
    private: bool | None
    asked: bool = True

    @property
    def exists(self) -> bool:
        """Whether it is there."""
        return self.private is not None

    @property
    def page(self) -> str:
        """Its page on the Hub."""
        return f"{self.api.endpoint}/buckets/{self.id}"

    def url(self, remote: str) -> str:
        """Where the content of a file is."""
        return f"{self.page}/resolve/{quote(remote)}"

    def create(self, *, private: bool) -> Bucket:
        """The bucket, made.

        Raises:
            HubError: The Hub refused.
        """
        with speaking(f"bucket `{self.id}`"):
            self.api.create_bucket(self.id, private=private, exist_ok=True)
        return Bucket(self.api, self.id, private)

    def plan(self, files: Sequence[tuple[Path, str]]) -> tuple[Upload, ...]:
        """Which of the files (path, name in the bucket) are new there, changed or unchanged; unknown if nobody asked.

        Raises:
            HubError: The Hub could not be asked.
        """
        import hf_xet  # type: ignore[import-untyped]  # noqa: PLC0415 - comes with the Hub's client

        there: dict[str, str] = {}
        if self.exists:
            with speaking(f"bucket `{self.id}`"):
                tree = self.api.list_bucket_tree(self.id, recursive=True)
                there = {item.path: item.xet_hash for item in tree if item.type == "file"}
        with speaking("the hashes of the files"):
            hashes = [info.hash for info in hf_xet.hash_files([str(path) for path, _ in files])] if files else []
        return tuple(
            Upload(path, remote, path.stat().st_size, content, self._status(there.get(remote), content))
            for (path, remote), content in zip(files, hashes, strict=True)
        )

    def _status(self, there: str | None, content: str) -> Status:
        if not self.asked:
            return "unknown"
        return "new" if there is None else "unchanged" if there == content else "changed"

    def send(self, uploads: Sequence[Upload], progress: Progress) -> None:
        """Send what is new or changed; what has been sent when it fails stays and is unchanged the next time.

        Raises:
            HubError: The Hub could not be reached, or refused.
        """
        wanted = [upload for upload in uploads if upload.status != "unchanged"]
        total = sum(upload.size_bytes for upload in wanted)
        sent = done = 0
        for commit in _commits(wanted):
            progress("sending kB", sent // 1000, total // 1000)
            so_far = f" ({done} of {len(wanted)} files are there)" if len(wanted) > 1 else ""
            with speaking(f"bucket `{self.id}`{so_far}"):
                self.api.batch_bucket_files(self.id, add=[(upload.path, upload.remote) for upload in commit])
            sent += sum(upload.size_bytes for upload in commit)
            done += len(commit)


def find(api: HfApi, name: str, namespace: str | None = None, *, may_guess: bool = False) -> Bucket:
    """The bucket called ``name``: in ``namespace``, or the one that ``name`` itself says, or the user's own.

    Args:
        api: The Hub's client.
        name: Its name, with or without the namespace.
        namespace: User or organization.
        may_guess: Whether it will do to know its name, where the namespace is given and nobody is logged in.

    Raises:
        InputError: The name is none, or nobody is logged in.
        HubError: The Hub could not be asked.
    """
    from huggingface_hub.errors import BucketNotFoundError  # noqa: PLC0415 - an extra

    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    own, slash, short = name.strip("/").rpartition("/")
    if not short or "/" in own or (slash and namespace not in (None, own)):
        raise InputError(f"`{name}` is no name of a bucket", hint="`-b NAME`, with `-n NAMESPACE` if it is not yours")
    if may_guess and not logged_in(api):
        if not (own or namespace):
            hint = f"a dry run needs no login with `-n NAMESPACE`; else {LOGIN_HINT}"
            raise InputError("nobody is logged in to the Hugging Face Hub", hint=hint)
        return Bucket(api, f"{own or namespace}/{short}", None, asked=False)
    bucket_id = f"{own or namespace or whoami(api)}/{short}"
    with speaking(f"bucket `{bucket_id}`"):
        try:
            return Bucket(api, bucket_id, bool(api.bucket_info(bucket_id).private))
        except BucketNotFoundError:
            return Bucket(api, bucket_id, None)


def _commits(uploads: Sequence[Upload]) -> Iterator[list[Upload]]:
    """``uploads`` in their order, in groups that one commit may hold."""
    commit: list[Upload] = []
    for upload in uploads:
        full = len(commit) == _COMMIT_FILES or sum(u.size_bytes for u in commit) + upload.size_bytes > _COMMIT_BYTES
        if commit and full:
            yield commit
            commit = []
        commit.append(upload)
    if commit:
        yield commit
