"""The compile story in sentences: what was compiled again and why, and where graphs broke."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import TYPE_CHECKING

from foretrace.report.document import Item
from foretrace.units import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from foretrace.trace.compile_log import CompileLog, GraphBreaks, GuardFailures, Recompiles

_MOST = 5
_RESUMED = re.compile(r"torch_dynamo_resume_in_(?P<function>\w+)_at_(?P<line>\d+)")


def compile_items(log: CompileLog, calls: Mapping[str, int] | None = None) -> tuple[Item, ...]:
    """One item a place, the most frequent first.

    Args:
        log: What was logged.
        calls: Compile id → calls in the trace, to say which of the compiled code ran there.
    """
    items = [_recompiled(entry) + _ran(entry, calls) for entry in log.recompiles[:_MOST]]
    items += map(_broken, log.breaks[:_MOST])
    rest = max(len(log.recompiles) - _MOST, 0) + max(len(log.breaks) - _MOST, 0)
    more = [f"and {plural(rest, 'more place')}"] if rest else []
    return tuple(Item(text) for text in [*items, *more])


def _recompiled(entry: Recompiles) -> str:
    text = f"{_function(entry)} was compiled again {plural(entry.count, 'time')}"
    if entry.limit is not None:
        text += f", up to the limit of {entry.limit}: it runs in eager mode from then on"
    why = "; ".join(_guards(entry.guards))
    advice = next((guard.advice for guard in entry.guards if guard.advice), None)
    return f"{text}.{f' Guards that failed: {why}.' if why else ''}{f' Remedy: {advice}.' if advice else ''}"


def _ran(entry: Recompiles, calls: Mapping[str, int] | None) -> str:
    """Which of the function's compiled versions the trace holds calls of."""
    frames = {compile_id.partition("/")[0] for compile_id in entry.compile_ids}
    if calls is None or not frames:
        return ""
    ran = [f"{known} {plural(count, 'time')}" for known, count in calls.items() if known.partition("/")[0] in frames]
    return f" In this trace ran {', '.join(ran)}." if ran else " None of its compiled code ran in this trace."


def _guards(guards: tuple[GuardFailures, ...]) -> Iterator[str]:
    for guard in guards[:_MOST]:
        values = []
        if guard.expected is not None:
            values.append(f"expected {guard.expected}")
        if guard.actual is not None:
            values.append(f"found {guard.actual}")
        last = f" (last: {', '.join(values)})" if values else ""
        yield f"{guard.guard}, {plural(guard.count, 'time')}{last}"


def _broken(entry: GraphBreaks) -> str:
    where = f"{PurePath(entry.file).name}:{entry.line}" if entry.file else "a place that the log does not name"
    text = f"The graph breaks at {where}, {plural(entry.count, 'time')}: {entry.reason or 'no reason was logged'}."
    return f"{text} {entry.explanation}" if entry.explanation else text


def _function(entry: Recompiles) -> str:
    """Its name and place; what Dynamo calls a resume function is the rest of one behind a graph break."""
    rest = _RESUMED.fullmatch(entry.function)
    if rest and entry.file:
        return f"The rest of {rest['function']} behind the graph break at {PurePath(entry.file).name}:{rest['line']}"
    return f"{entry.function}{_at(entry.file, entry.line)}"


def _at(file: str | None, line: int | None) -> str:
    if file is None:
        return ""
    return f" ({PurePath(file).name}{f':{line}' if line is not None else ''})"
