"""What the page of a run shows besides its document: timeline, every kernel, roofline, idle time, chains, answers."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from foretrace.readings import Answer, Column, ask
from foretrace.readings.costs import ceiling_ns, cost
from foretrace.readings.groups import groups, periods
from foretrace.readings.lines import event
from foretrace.report.document import Table
from foretrace.report.roofline import roofline_of
from foretrace.report.timeline import timeline
from foretrace.report.window import representative
from foretrace.units import duration, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from foretrace.diff import Change, Diff
    from foretrace.readings.groups import Group
    from foretrace.report.roofline import Roofline
    from foretrace.report.timeline import Timeline
    from foretrace.run import Run

MOST_KERNELS = 1_000
"""Rows of the table of every kernel: about 0.4 MB of a page."""
MOST_CHAINS = 4_000
"""GPU events whose chains are followed, at 0.1 ms each."""
MOST_SIBLINGS = 40
"""Links of one chain: nobody reads on."""
_KERNELS = (
    Column("kernel", "kernel"),
    Column("op", "op"),
    Column("module", "module"),
    Column("shapes", "shapes"),
    Column("count", "× a step", "count"),
    Column("median_ns", "µs", "ns"),
    Column("of_limit", "of limit", "share"),
    Column("bound", "bound"),
    Column("class", "class"),
)


@dataclass(frozen=True, slots=True)
class Part:
    """A cause and its part of the time between the first GPU event and the last."""

    cause: str
    ns: int
    share: float


@dataclass(frozen=True, slots=True)
class Node:
    """One link of the dispatch chains of a step: alike siblings are one, ``total_ns`` is GPU time below."""

    name: str
    count: int
    total_ns: int
    event: int | None
    children: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Page:
    """The parts that a page has beyond its document; empty ones are left out.

    Attributes:
        source: The file names that it was made from.
        title: What it is about, where the document has no headline.
        timelines: One of a run, two of a comparison: before, then after.
        kernels: Every kernel of a step; rows may carry ``event``.
        roofline, idle, chains: See their classes.
        chains_of: What the chains belong to.
        answers: Every answer with its evidence.
    """

    source: str
    title: str = ""
    timelines: tuple[Timeline, ...] = ()
    kernels: Table | None = None
    roofline: Roofline | None = None
    idle: tuple[Part, ...] = ()
    chains: tuple[Node, ...] = ()
    chains_of: str = ""
    answers: tuple[Answer, ...] = ()


def page_of(run: Run, answers: Sequence[Answer], *, told: bool = False) -> Page:
    """The page of ``run``.

    Args:
        run: The run.
        answers: Those whose evidence leads to the timeline.
        told: Whether the document tells them in full already.
    """
    table, roofline = _kernels(run), roofline_of(run)
    rows = [*(row for answer in answers for row in answer.evidence), *(table.rows if table else ())]
    events = [row["event"] for row in rows if isinstance(row.get("event"), int)]
    drawn = timeline(run, [*events, *(point.event for point in roofline.points)] if roofline else events)
    period, what = _typical_period(run)
    return Page(
        source=PurePath(run.trace.path).name,
        timelines=(drawn,) if drawn else (),
        kernels=table,
        roofline=roofline,
        idle=_idle(run),
        chains=_chains(run, period),
        chains_of=what,
        answers=() if told else tuple(answers),
    )


def compared(found: Diff, before: Run, after: Run) -> Page:
    """The page of a comparison: a representative step of each side, kernels tied to their counterparts."""
    sides = []
    for key, run, side in (("before", before, found.before), ("after", after, found.after)):
        drawn = timeline(run, one_step=True)
        if drawn is not None:
            sides.append(_tied(replace(drawn, key=key, label=f"{side.label}: {drawn.label}"), found.changes, key))
    source = " and ".join(PurePath(side.path).name for side in (found.before, found.after))
    return Page(source=source, title=f"{found.before.label} → {found.after.label}", timelines=tuple(sides))


def _tied(drawn: Timeline, changes: Sequence[Change], side: str) -> Timeline:
    """Kernels with what became of them: the n-th kernel of a name has the n-th change in which the name stands."""
    waiting: dict[str, deque[int]] = defaultdict(deque)
    for number, change in enumerate(changes):
        for name in getattr(change, side):
            waiting[name].append(number)
    slices = []
    for slice_ in drawn.slices:
        numbers = waiting.get(slice_.name) if slice_.detail else None
        if numbers and slice_.detail:
            number = numbers.popleft() if len(numbers) > 1 else numbers[0]  # one change for every call of a kind
            detail = replace(slice_.detail, change=_change(changes[number], side))
            slices.append(replace(slice_, pair=number, detail=detail))
        else:
            slices.append(replace(slice_, pair=None))
    return replace(drawn, slices=tuple(slices))


def _change(change: Change, side: str) -> str:
    other = change.after_short if side == "before" else change.before_short
    times = " → ".join("–" if ns is None else duration(ns) for ns in (change.before_ns, change.after_ns))
    what = f"{change.status}, {'now' if side == 'before' else 'was'} {' + '.join(other)}" if other else change.status
    return f"{what}; {times} a step"


def _kernels(run: Run) -> Table | None:
    """Every kernel of a step, in the order of launch; of very many the longest."""
    every = groups(run)
    if not every:
        return None
    kept = every
    if len(every) > MOST_KERNELS:
        longest = {id(group) for group in sorted(every, key=lambda group: -group.median_ns)[:MOST_KERNELS]}
        kept = tuple(group for group in every if id(group) in longest)
    count = len(periods(run))
    title = f"medians of {plural(count, 'step')}" if run.steps else "the whole trace"
    rest = len(every) - len(kept)
    more = f"and {plural(rest, 'shorter kernel')}" if rest else None
    return Table(_KERNELS, [_kernel(run, group) for group in kept], title=f"Every kernel ({title})", more=more)


def _kernel(run: Run, group: Group) -> dict[str, Any]:
    bound = cost(run, group.activities[0]).bound
    ceiling = ceiling_ns(run, group.activities) if bound in {"compute", "memory"} and group.median_ns else None
    return {
        "kernel": group.identity.short,
        "name": group.name,
        "op": "" if group.op == group.name else group.op,  # a generated kernel's op repeats its name
        "module": group.module,
        "shapes": group.shapes,
        "count": group.count,
        "median_ns": group.median_ns,
        "of_limit": None if ceiling is None else ceiling / len(group.durations_ns) / group.median_ns,
        "bound": bound,
        "class": group.identity.op_class,
        "event": event(run, group.activities[0]),
    }


def _idle(run: Run) -> tuple[Part, ...]:
    rows = [row for answer in ask(run, ["idle"]) for row in answer.evidence]
    return tuple(Part(row["cause"], row["span_ns"], row["share"]) for row in rows if row["span_ns"])


def _typical_period(run: Run) -> tuple[list[int], str]:
    """The activities whose chains are shown, the longest of very many, and what they are."""
    position = representative(run)
    if position is not None and len(run.steps[position].activities):
        activities, what = run.steps[position].activities, run.steps[position].name
    else:
        activities, what = np.arange(len(run.activities)), "the whole trace"
    if len(activities) > MOST_CHAINS:
        length = (run.activities.end_ns - run.activities.start_ns)[activities]
        activities = activities[np.sort(np.argsort(-length, kind="stable")[:MOST_CHAINS])]
        what = f"the {MOST_CHAINS:,} longest GPU events of {what}"
    return activities.tolist(), what


def _chains(run: Run, activities: Sequence[int]) -> tuple[Node, ...]:
    """Region → ops → runtime call → kernel, for the linked ``activities``."""
    roads = []
    for index in activities:
        activity = run.activity(index)
        if activity.launch is not None:
            roads.append(((*activity.chain, activity.launch, activity.identity.short), activity.dur_ns, activity.event))
    return tuple(_nodes(roads, 0))


def _nodes(roads: Sequence[tuple[tuple[str, ...], int, int]], depth: int) -> Iterator[Node]:
    """A node for each name at this depth, in the order of the roads; of very many those with the most GPU time."""
    below: dict[str, list[tuple[tuple[str, ...], int, int]]] = {}
    for road in roads:
        if len(road[0]) > depth:
            below.setdefault(road[0][depth], []).append(road)
    total = {name: sum(ns for _, ns, _ in some) for name, some in below.items()}
    kept = set(sorted(below, key=lambda name: -total[name])[:MOST_SIBLINGS])
    for name in (name for name in below if name in kept):
        children = tuple(_nodes(below[name], depth + 1))
        yield Node(name, len(below[name]), total[name], None if children else below[name][0][2], children)
    rest = [name for name in below if name not in kept]
    if rest:
        yield Node(f"and {len(rest):,} more", sum(len(below[n]) for n in rest), sum(total[n] for n in rest), None, ())
