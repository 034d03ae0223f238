"""The view of ``foretrace fleet``: who waits for whom, then every rank, every kind of collective, and what to do."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from foretrace.fleet.lateness import lateness
from foretrace.fleet.merge import TIED_NS
from foretrace.fleet.sentence import culprit, has_steps, sentence, works_longer
from foretrace.fleet.standing import kinds, standings
from foretrace.readings import Column
from foretrace.report.document import Document, Headline, Item, Listing, Note, Sentence, Table, Title
from foretrace.trace.folder import ranges
from foretrace.units import duration, plural

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from foretrace.fleet import Failed, Fleet, Job
    from foretrace.fleet.standing import Kind, Standing
    from foretrace.report.document import Block

_RANKS = (
    Column("rank", "rank", "count"),
    Column("steps", "steps", "count", spare=True),
    Column("wall_ns", "wall", "ns"),
    Column("busy_ns", "GPU busy", "ns"),
    Column("own_ns", "own kernels", "ns"),
    Column("exposed_ns", "in collectives alone", "ns", spare=True),
    Column("lost_ns", "waits", "ns"),
    Column("holds_up_ns", "holds up", "ns"),
    Column("last", "last to", "count"),
    Column("met", "of", "count"),
)
_KINDS = (
    Column("collective", "collective"),
    Column("group", "group"),
    Column("ranks", "ranks", "count", spare=True),
    Column("a_step", "a step", "ratio"),
    Column("moved_bytes", "each", "bytes"),
    Column("moving_ns", "moves", "ns"),
    Column("apart_ns", "first to last", "ns"),
    Column("lost_ns", "lost", "ns"),
    Column("latest", "latest rank", "count"),
    Column("latest_count", "so often", "count"),
)
_RUNS = (
    Column("trace", "trace"),
    Column("rank", "rank", "count", spare=True),
    Column("steps", "steps", "count"),
    Column("wall_ns", "wall", "ns"),
    Column("busy_ns", "GPU busy", "ns"),
    Column("exposed_ns", "in collectives alone", "ns", spare=True),
)
_LATENESS = (Column("rank", "rank", "count"), Column("marks", "collective by collective, steps apart"))
_MOST = 16
"""Rows of a table; of more, those that wait or hold up most."""
_MARKS = "▁▂▃▄▅▆▇█"
_MOST_MARKS = 72
_NO_PART = "·"


def fleet_record(fleet: Fleet) -> dict[str, Any]:
    """What a program is given; times in nanoseconds, medians over the steps."""
    return {
        "schema": "foretrace.fleet/1",
        "jobs": [_job_record(job) for job in fleet.jobs],
        "failed": [asdict(failed) for failed in fleet.failed],
    }


def _job_record(job: Job) -> dict[str, Any]:
    standing = standings(job)
    late = culprit(standing)
    return {
        "name": job.name,
        "world_size": job.world_size,
        "missing_ranks": list(job.missing),
        "sentence": _said(job, standing),
        "late_rank": None if late is None else late.rank,
        "ranks": [_rank_record(job, one) for one in standing],
        "collectives": [asdict(kind) for kind in kinds(job)],
        "matched": len(job.meetings.met),
        "unmatched": job.meetings.unmatched,
        "odd_ranks": list(job.meetings.odd_ranks),
    }


def _rank_record(job: Job, one: Standing) -> dict[str, Any]:
    summary = job.ranks[one.rank]
    return {
        **asdict(one),
        "rank": summary.rank,
        "path": summary.path,
        "device": summary.device,
        "clock_ahead_ns": job.meetings.ahead_ns.get(one.rank, 0),
        "notes": list(summary.notes),
    }


def fleet_document(fleet: Fleet) -> Document:
    """What a person is shown."""
    several = [job for job in fleet.jobs if len(job.ranks) > 1]
    single = [job for job in fleet.jobs if len(job.ranks) == 1]
    blocks: list[Block] = [Headline(_headline(fleet, several, single))]
    names = Counter(job.name for job in several)
    for i, job in enumerate(several, 1):
        title = job.name if names[job.name] == 1 else f"{job.name} (run {i})"
        blocks += [Title(title)] if len(fleet.jobs) > 1 else []
        blocks += _job_blocks(job)
    if single:
        blocks += _single_blocks(single, more=bool(several))
    if fleet.failed:
        title = f"{plural(len(fleet.failed), 'trace')} could not be read"
        blocks.append(Listing(title, tuple(Item(_why(one), one.hint) for one in fleet.failed)))
    return Document(tuple(blocks))


def _why(failed: Failed) -> str:
    return failed.why if failed.path in failed.why else f"{failed.path}: {failed.why}"


def _headline(fleet: Fleet, several: Sequence[Job], single: Sequence[Job]) -> str:
    read = sum(len(job.ranks) for job in fleet.jobs)
    devices = Counter(one.device for job in fleet.jobs for one in job.ranks.values() if one.device)
    parts = [plural(read, "trace")]
    if several:
        of = [f"{plural(len(job.ranks), 'rank')}{_of_all(job)}" for job in several]
        parts.append(of[0] if len(several) == 1 and not single else f"{plural(len(several), 'run')} of several ranks")
    parts += [name for name, _ in devices.most_common(2)]
    return " · ".join(parts)


def _of_all(job: Job) -> str:
    return f" of {job.world_size:,}" if job.missing else ""


def _job_blocks(job: Job) -> Iterator[Block]:
    standing, found = standings(job), kinds(job)
    yield Sentence(_said(job, standing))
    shown = sorted(standing, key=lambda one: (-(one.holds_up_ns or 0.0), -(one.lost_ns or 0.0)))[:_MOST]
    rows = [asdict(one) for one in standing if one in shown]
    rest = len(standing) - len(rows)
    yield Table(_RANKS, rows, title=_title(standing), more=f"and {plural(rest, 'other rank')}" if rest else None)
    yield from _lateness_table(job, {one["rank"] for one in rows})
    if found:
        rest = len(found) - _MOST
        others = f"and {plural(rest, 'other kind')}, for which less is lost" if rest > 0 else None
        yield Table(
            _KINDS, [_kind_row(kind) for kind in found[:_MOST]], title="Collectives (medians; times in µs)", more=others
        )
    yield from (Note(text) for text in _notes(job, standing))
    late = culprit(standing)
    if late is not None:
        yield Listing("Next", tuple(_next(job, late, standing)))


def _said(job: Job, standing: Sequence[Standing]) -> str:
    if len(standing) > 1:
        return sentence(standing, job.meetings)
    (one,) = standing
    if one.wall_ns is None or one.busy_ns is None:
        return "One trace, without a step or anything that ran on a GPU."
    what = "a step takes" if one.steps else "the whole takes"
    return f"One trace: {what} {duration(one.wall_ns)}, its GPU works for {duration(one.busy_ns)}."


def _title(standing: Sequence[Standing]) -> str:
    counts = sorted({one.steps for one in standing})
    if not counts[-1]:
        return "In the whole trace, µs"
    steps = plural(counts[0], "step") if len(counts) == 1 else f"{counts[0]} to {counts[-1]} steps"
    return f"In a step (medians of {steps}), µs"


def _lateness_table(job: Job, shown: Collection[int]) -> Iterator[Block]:
    found = lateness(job.meetings.met, _MOST_MARKS)
    if found is None:
        return
    each = f"; a mark is the latest of {found.each:,} collectives" if found.each > 1 else ""
    rows = [
        {"rank": rank, "marks": " ".join("".join(_mark(late, found.most_ns) for late in step) for step in steps)}
        for rank, steps in found.by_rank.items()
        if rank in shown
    ]
    title = f"How late each came ({_MARKS[-1]} {duration(found.most_ns)}, {_MARKS[0]} among the first{each})"
    yield Table(_LATENESS, rows, title=title, folds=True)


def _mark(late_ns: int | None, most_ns: int) -> str:
    if late_ns is None:
        return _NO_PART
    return _MARKS[0 if late_ns <= TIED_NS else math.ceil(late_ns / most_ns * (len(_MARKS) - 1))]


def _kind_row(kind: Kind) -> dict[str, Any]:
    return {**asdict(kind), "a_step": round(kind.a_step, 2)}


def _notes(job: Job, standing: Sequence[Standing]) -> Iterator[str]:
    if job.missing:
        missing = plural(len(job.missing), "has", "have")
        yield f"of {job.world_size:,} ranks {missing} no trace here: {ranges(job.missing)}"
    if job.meetings.ahead_ns:
        apart = max(job.meetings.ahead_ns.values()) - min(job.meetings.ahead_ns.values())
        caveat = "" if job.meetings.counted else " (windows that do not match would look the same)"
        yield (
            f"by their files ranks leave collectives up to {duration(apart)} apart: taken for clocks that disagree, "
            f"and set right{caveat}"
        )
    if job.meetings.unmatched and job.meetings.met:
        odd = job.meetings.odd_ranks
        who = f": {'ranks' if len(odd) > 1 else 'rank'} {ranges(odd)} did something else" if odd else ""
        yield f"{plural(job.meetings.unmatched, 'kernel')} of collectives left out{who}"
    if job.meetings.met and not job.meetings.counted and not has_steps(standing):
        yield (
            "without steps messages, and collectives that the files do not number, are paired by their order alone: "
            "wrongly, where windows begin apart"
        )
    if job.meetings.met:
        yield "waits: time without other work; holds up: what ranks lost to it or to those it delayed, in their mean"
    seen = Counter(note for one in job.ranks.values() for note in one.notes)
    yield from (f"{note} (in {plural(count, 'trace')})" for note, count in seen.most_common(3))


def _next(job: Job, late: Standing, standing: Sequence[Standing]) -> Iterator[Item]:
    path = shlex.quote(job.ranks[late.rank].path)
    if not works_longer(late, standing):
        yield Item(f"where rank {late.rank}'s host is", f"foretrace read {path} --ask idle")
    quick = min((one for one in standing if one is not late), key=lambda one: one.holds_up_ns or 0.0)
    yield Item("kernel by kernel", f"foretrace diff {shlex.quote(job.ranks[quick.rank].path)} {path}")


def _single_blocks(jobs: Sequence[Job], *, more: bool) -> Iterator[Block]:
    rows = []
    for job in jobs:
        (one,) = standings(job)
        rows.append({**asdict(one), "rank": job.ranks[one.rank].rank, "trace": job.ranks[one.rank].path})
    if len(jobs) == 1 and not more:
        yield Sentence(_said(jobs[0], standings(jobs[0])))
    else:
        walls = [row["wall_ns"] for row in rows if row["steps"] and row["wall_ns"] is not None]
        if walls and not more:
            apart = dict.fromkeys((duration(min(walls)), duration(max(walls))))
            yield Sentence(f"{plural(len(jobs), 'trace')} of single runs: a step takes {' to '.join(apart)}.")
    yield Table(_RUNS, rows, title="Single traces (medians of their steps), µs", folds=True)
