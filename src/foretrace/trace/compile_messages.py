"""The grammar of Dynamo's messages about recompilations, limits and graph breaks, as text logs print them.

Lines begin with a prefix that changed over the years (``V1129 18:36:29.576000 107 torch/_dynamo/guards.py:5396] [0/1]
[__recompiles] …``, ``[2024-01-08 11:14:49,372] [0/0] torch._dynamo.guards.__recompiles: [DEBUG] …``, or nothing).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_PREFIX = re.compile(
    r"(?:\[rank\d+\]:? ?)?"
    r"(?:[VIWEDC]\d{4} [\d:.]+ \d+ [^\]]*:\d+\] ?|\[\d{4}-\d\d-\d\d [\d:,.]+\] ?)?"
    r"(?:\[(?P<id>!?\d+/[\d/]+)(?:_\d+)?\] ?)?"
    r"(?:torch[\w.]*: \[[A-Z]+\] ?|[A-Z]+:torch[\w.]*:)?"
    r"(?:\[__\w+\] ?)?"
)
_RECOMPILE = re.compile(r"Recompiling function (?P<function>\S+) in (?P<file>.+):(?P<line>\d+)\s*$")
_LIMIT = re.compile(
    r"torch\S* hit (?:config\.\w+|recompilation cache limit) \((?P<limit>\d+)\)"
    r"(?: for function '(?P<function>[^']+)' \((?P<file>.+):(?P<line>\d+)\)"
    r", due to .*?\[\[?['\"](?P<guard>.+?)['\"]\])?"
)
_FUNCTION = re.compile(r"\s*function: '(?P<function>[^']+)' \((?P<file>.+):(?P<line>\d+)\)")
_LAST_REASON = re.compile(r"\s*(?:last reason:|reasons?:)\s+(?P<guard>.+)$")
_FAILED = re.compile(r"\s*- (?P<guard>.+)$")
_BREAK = re.compile(r"Graph break(?: \([^)]*\))? in user code at (?P<file>.+):(?P<line>\d+)\s*$")
_OLD_BREAK = re.compile(r"Graph break:?\s*(?P<reason>.*?)\s*from user code at:?\s*(?P<rest>.*)$")
_REASON = re.compile(r"(?:Graph Break )?Reason: (?P<reason>.*)$")
_FRAME = re.compile(r'\s*File "(?P<file>.+?)", line (?P<line>\d+)')
_EXPLANATION, _HINT = "  Explanation: ", "  Hint: "
_GENERAL = "Encountered graph break when attempting to trace"
"""A reason that only names the bytecode; the next line names the cause."""

_ENTRY = re.compile(r"!?\d+/[\d/]+: ")
_COMMENT = re.compile(r"\s{2,}#.*$|\s+\(HINT: .*$")
_TENSOR = re.compile(
    r"(?P<subject>tensor '.+?' .+?)\. expected (?P<expected>.+?), actual (?P<actual>.+?)(?:\. .*|\.)?$"
)
_EQUAL = re.compile(r"(?P<subject>.+?) == (?P<expected>.+)$")


@dataclass(frozen=True, slots=True)
class Guard:
    """One guard that failed: what it looked at, what it expected and what it found, as far as the log says."""

    subject: str
    expected: str | None = None
    actual: str | None = None


@dataclass(frozen=True, slots=True)
class Recompile:
    """One recompilation of a function, with the guard of its newest compiled code that failed."""

    function: str
    file: str | None
    line: int | None
    compile_id: str | None
    guard: Guard | None


@dataclass(frozen=True, slots=True)
class Limit:
    """A function reached the limit of recompilations."""

    function: str
    file: str | None
    line: int | None
    limit: int
    guard: Guard | None


@dataclass(frozen=True, slots=True)
class Break:
    """One graph break."""

    file: str | None
    line: int | None
    reason: str | None
    explanation: str | None = None
    hints: tuple[str, ...] = ()


Message: TypeAlias = Recompile | Limit | Break


def guard_of(text: str) -> Guard:
    """A guard's failure in its parts, without the compile id, comments and hints around it."""
    text = _COMMENT.sub("", _ENTRY.sub("", text.strip(), count=1)).strip().removeprefix("['").removesuffix("']")
    for pattern in (_TENSOR, _EQUAL):
        if found := pattern.match(text):
            parts = found.groupdict()
            return Guard(parts["subject"], parts["expected"], parts.get("actual"))
    return Guard(text)


def messages(lines: Iterable[str]) -> Iterator[Message]:
    """Every message of a text log, in order; other lines are skipped."""
    block: list[str] = []
    compile_id: str | None = None
    for line in lines:
        prefix = _PREFIX.match(line)
        text = line[prefix.end() :] if prefix else line
        if _begins(text):
            yield from _message(block, compile_id)
            block, compile_id = [text], prefix["id"] if prefix else None
        elif block:
            block.append(text)
    yield from _message(block, compile_id)


def break_of(block: list[str]) -> Break | None:
    """A graph break from the lines of its message, in the new wording or the old."""
    if not block:
        return None
    if found := _BREAK.match(block[0]):
        return Break(found["file"], int(found["line"]), *_why(block[1:]))
    if found := _OLD_BREAK.match(block[0]):
        reason = found["reason"].strip("'\" ") or None
        frames = [frame for frame in map(_FRAME.match, [found["rest"], *block[1:]]) if frame]
        if frames:
            return Break(frames[-1]["file"], int(frames[-1]["line"]), reason)
        file, colon, line = found["rest"].rpartition(":")
        return Break(file, int(line), reason) if colon and line.isdecimal() else Break(None, None, reason)
    return None


def _begins(text: str) -> bool:
    return any(pattern.match(text) for pattern in (_RECOMPILE, _LIMIT, _BREAK, _OLD_BREAK))


def _message(block: list[str], compile_id: str | None) -> Iterator[Message]:
    if not block:
        return
    head, rest = block[0], block[1:]
    if found := _RECOMPILE.match(head):
        failed = next(filter(None, map(_FAILED.match, rest)), None)
        guard = guard_of(failed["guard"]) if failed else None
        yield Recompile(found["function"], found["file"], int(found["line"]), compile_id, guard)
    elif found := _LIMIT.match(head):
        yield from _limit(found, rest)
    elif broken := break_of(block):
        yield broken


def _limit(found: re.Match[str], rest: list[str]) -> Iterator[Limit]:
    place = found if found["function"] else next(filter(None, map(_FUNCTION.match, rest)), None)
    if place is None:
        return
    reason = found["guard"] or next((r["guard"] for r in map(_LAST_REASON.match, rest) if r), None)
    guard = guard_of(reason) if reason else None
    yield Limit(place["function"], place["file"], int(place["line"]), int(found["limit"]), guard)


def _why(rest: list[str]) -> tuple[str | None, str | None, tuple[str, ...]]:
    """Reason, explanation and hints of a graph break in the new wording."""
    at = next((i for i, line in enumerate(rest) if _REASON.match(line)), None)
    if at is None:
        return None, None, ()
    found = _REASON.match(rest[at])
    reason = found["reason"] if found else None
    if reason and reason.startswith(_GENERAL):
        reason = next((line.strip() for line in rest[at + 1 :] if line.strip()), reason)
    explanation = next((line.removeprefix(_EXPLANATION) for line in rest if line.startswith(_EXPLANATION)), None)
    return reason, explanation, tuple(line.removeprefix(_HINT) for line in rest if line.startswith(_HINT))
