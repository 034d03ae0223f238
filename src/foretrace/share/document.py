"""What ``foretrace share`` tells a person."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING

from foretrace.readings import Column
from foretrace.report.document import Block, Document, Headline, Item, Listing, Note, Sentence, Table
from foretrace.share.redact import removed
from foretrace.units import plural, size

if TYPE_CHECKING:
    from foretrace.share.shared import Share

_COLUMNS = (
    Column("path", "file"),
    Column("status", "status"),
    Column("size_bytes", "size", "bytes"),
    Column("sentence", "in one sentence"),
)


def document(result: Share) -> Document:
    """The bucket, what was sent, what was removed, and the links."""
    traces = plural(sum(file.kind == "trace" for file in result.files), "trace")
    seen_by = "private" if result.private else None if result.created is None else "public"
    blocks: list[Block] = [
        Headline(" · ".join(part for part in (result.bucket, seen_by, traces) if part)),
        Sentence(_sentence(result)),
    ]
    blocks += [Note(f"{file.path}: {note}") for file in result.files for note in file.notes]
    blocks.append(Table(_COLUMNS, [asdict(file) for file in result.files], folds=True))
    if result.created is None:
        blocks.append(Note("nobody is logged in: what is in the bucket already, which is not sent again, is unknown"))
    links = [file for file in result.files if file.perfetto]
    if links and not result.dry_run:
        blocks.append(Listing("Open in Perfetto", tuple(Item(file.path, file.perfetto) for file in links)))
    if result.private:
        blocks.append(
            Note(
                "private: Perfetto's page cannot log in, so these links open for nobody;"
                f" `foretrace open hf://buckets/{result.bucket}/FILE` opens one for those who may read it"
            )
        )
    return Document(tuple(blocks))


def _sentence(result: Share) -> str:
    sent = [file for file in result.files if file.status in ("new", "changed", "unknown")]
    n_bytes = size(sum(file.size_bytes or 0 for file in sent))
    verb = "would be sent" if result.dry_run else "sent"
    made = ""
    if result.created:
        made = "The bucket would be made. " if result.dry_run else "The bucket was made. "
    what = f"{plural(len(sent), 'file')} {verb} ({n_bytes})" if sent else f"Nothing {verb}"
    counts = Counter(file.status for file in result.files)
    rest = [f"{counts[status]} {status}" for status in ("unchanged", "failed") if counts[status]]
    hidden = f"Removed before: {removed(result.removed)}." if result.redacted else "Nothing was removed from them."
    return f"{made}{', '.join([what, *rest])}. {hidden}"
