"""Phases besides the complete slice: begin and end pairs become slices, the rest is counted."""

from __future__ import annotations

from collections import Counter, defaultdict
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING

import msgspec

from foretrace.trace.columns import Note
from foretrace.units import plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from foretrace.trace.schema import Event

READ = frozenset("XiIsftM")
"""Phases that the builder handles itself; ``t`` is the middle of a flow arrow, of which only the ends matter."""

# the Trace Event Format's other phases, by what they are
_LEFT_OUT = {
    **dict.fromkeys("bneSTpF", "async"),
    "C": "counter",
    **dict.fromkeys("NOD", "object"),
    "P": "sample",
    **dict.fromkeys("Rc", "marker"),
}


class Pairs:
    """Begin events that wait for their end, thread by thread, innermost last."""

    def __init__(self) -> None:
        self._open: defaultdict[tuple[int | str, int | str], list[tuple[int, Event]]] = defaultdict(list)
        self._others: Counter[str] = Counter()
        self._lone_ends = 0

    def take(self, events: Iterable[tuple[int, Event]]) -> list[tuple[int, Event]]:
        """Slices (with the index of their begin) that end among ``events``, which are given with their index."""
        closed = []
        for index, event in events:
            if event.ph == "B":
                self._open[event.pid, event.tid].append((index, _detached(event)))
            elif event.ph == "E":
                waiting = self._open[event.pid, event.tid]
                if waiting:
                    began, begin = waiting.pop()
                    closed.append((began, msgspec.structs.replace(begin, ph="X", dur=_between(begin, event))))
                else:
                    self._lone_ends += 1
            else:
                self._others[_LEFT_OUT.get(event.ph, "unknown")] += 1
        return closed

    def rest(self) -> list[tuple[int, Event]]:
        """The slices that never ended: without a duration."""
        waiting = [pair for stack in self._open.values() for pair in stack]
        waiting.sort(key=lambda pair: pair[0])
        return [(index, msgspec.structs.replace(event, ph="X", dur=None)) for index, event in waiting]

    def notes(self) -> list[Note]:
        """What was left out, by the kind of phase."""
        notes = []
        if self._lone_ends:
            text = f"{plural(self._lone_ends, 'end event')} (ph E) without a begin: left out"
            notes.append(Note("lone-ends", text, self._lone_ends, partial=True))
        if self._others:
            notes.append(Note("other-phases", f"left out: {_listed(self._others)}", sum(self._others.values())))
        return notes


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(plural(count, f"{kind} event") for kind, count in counts.items())


def _detached(event: Event) -> Event:
    """The event without a hold on the piece of the file that it was decoded from."""
    kept = event.args and msgspec.structs.replace(
        event.args,
        **{name: value.copy() for name in event.args.__struct_fields__ if _is_raw(value := getattr(event.args, name))},
    )
    return msgspec.structs.replace(event, ts=event.ts.copy(), args=kept)


def _is_raw(value: object) -> bool:
    return isinstance(value, msgspec.Raw)


def _between(begin: Event, end: Event) -> float | None:
    try:
        first, last = (Decimal(bytes(event.ts).decode("ascii").strip('" ')) for event in (begin, end))
        return float(last - first)
    except (InvalidOperation, UnicodeDecodeError, OverflowError, ValueError):
        return None
