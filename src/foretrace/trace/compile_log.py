"""What ``torch.compile`` logged: recompilations and graph breaks, one entry a place in the code.

Read are the text of ``TORCH_LOGS="recompiles,graph_breaks"`` in its old and new wordings, and the structured files of
``TORCH_TRACE``. The same messages stand in both; their grammar is in `compile_messages`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from foretrace.errors import InputError
from foretrace.trace.compile_messages import Break, Limit, Recompile, messages
from foretrace.trace.compile_structured import is_structured, structured_messages

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from foretrace.trace.compile_messages import Guard, Message

_SUFFIXES = (".compile.log", ".torch_logs.txt", ".log")
_FOLDER = ".torch_trace"


@dataclass(frozen=True, slots=True)
class GuardFailures:
    """A guard that failed at one place.

    Attributes:
        guard: What it looked at: ``tensor 'x' size mismatch at index 0``, ``self.k``.
        expected, actual: The values of its last failure, as far as they were logged.
        count: How often it failed.
    """

    guard: str
    expected: str | None
    actual: str | None
    count: int

    @property
    def advice(self) -> str | None:
        """What to do about it, where the guard says enough."""
        head, found, index = self.guard.rpartition(" size mismatch at index ")
        if found and head.startswith("tensor "):
            name = head.removeprefix("tensor ").strip("'")
            return f"mark the dimension dynamic before the first call: torch._dynamo.mark_dynamic({name}, {index})"
        return None


@dataclass(frozen=True, slots=True)
class Recompiles:
    """Recompilations of one function.

    Attributes:
        function, file, line: Where it is defined.
        count: How often it was compiled again.
        guards: Why, the most frequent guard first.
        limit: The limit that it hit; from then on the function runs in eager mode. ``None`` when it hit none.
        compile_ids: ``frame/attempt`` of each, as in the trace's ``Torch-Compiled Region: 0/1``.
    """

    function: str
    file: str | None
    line: int | None
    count: int
    guards: tuple[GuardFailures, ...]
    limit: int | None
    compile_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GraphBreaks:
    """Graph breaks at one line of code.

    Attributes:
        file, line: Where; ``None`` when the log does not say.
        reason: Why, in the log's words; ``None`` when it was suppressed everywhere.
        explanation: More of it, where the log explains.
        hints: What the log proposes.
        count: How often, duplicates included.
    """

    file: str | None
    line: int | None
    reason: str | None
    explanation: str | None
    hints: tuple[str, ...]
    count: int


@dataclass(frozen=True, slots=True)
class CompileLog:
    """Everything that was logged, the most frequent first."""

    recompiles: tuple[Recompiles, ...]
    breaks: tuple[GraphBreaks, ...]

    def __bool__(self) -> bool:
        return bool(self.recompiles or self.breaks)


def read_compile_log(path: str | Path) -> CompileLog:
    """Read a log file, or all files of a ``TORCH_TRACE`` directory (one a process).

    Raises:
        InputError: There is nothing to read at ``path``.
    """
    place = Path(path)
    files = sorted(file for file in place.iterdir() if file.suffix == ".log") if place.is_dir() else [place]
    try:
        texts = [file.read_text(encoding="utf-8", errors="replace") for file in files]
    except OSError as error:
        raise InputError(
            f"cannot read `{error.filename}`: {error.strerror}", hint="give a log file or folder"
        ) from error
    if not texts:
        raise InputError(f"`{place}` holds no .log file", hint="run with TORCH_TRACE=DIR, or give a text log")
    return summarize(message for text in texts for message in _messages(text))


def beside(trace_path: str) -> CompileLog | None:
    """The log beside a trace: ``NAME.compile.log``, ``NAME.log``, or a folder ``NAME.torch_trace``."""
    trace = Path(trace_path)
    stem = trace.name.removesuffix(".gz").removesuffix(".json")
    candidates = [trace.parent / f"{stem}{suffix}" for suffix in (*_SUFFIXES, _FOLDER)]
    found = next((candidate for candidate in candidates if candidate.exists()), None)
    try:
        return read_compile_log(found) if found else None
    except InputError:
        return None


def summarize(found: Iterable[Message]) -> CompileLog:
    """Messages put together by place."""
    recompiles: dict[tuple[str, str | None, int | None], list[Recompile | Limit]] = {}
    breaks: dict[tuple[str | None, int | None], list[Break]] = {}
    for message in found:
        if isinstance(message, Break):
            breaks.setdefault((message.file, message.line), []).append(message)
        else:
            recompiles.setdefault((message.function, message.file, message.line), []).append(message)
    again = [_recompiles(*place, same) for place, same in recompiles.items()]
    broken = [_breaks(*place, same) for place, same in breaks.items()]
    return CompileLog(
        tuple(sorted(again, key=lambda entry: -entry.count)), tuple(sorted(broken, key=lambda entry: -entry.count))
    )


def _messages(text: str) -> Iterable[Message]:
    return structured_messages(text) if is_structured(text) else messages(text.splitlines())


def _recompiles(function: str, file: str | None, line: int | None, found: Sequence[Recompile | Limit]) -> Recompiles:
    limits = [message for message in found if isinstance(message, Limit)]
    again = [message for message in found if isinstance(message, Recompile)]
    # a log of warnings alone has the limit and no recompilation: the limit is their number
    count = len(again) or max((limit.limit for limit in limits), default=0)
    guards = [message.guard for message in (again or limits) if message.guard is not None]
    ids = dict.fromkeys(message.compile_id for message in again if message.compile_id)
    limit = max((message.limit for message in limits), default=None)
    return Recompiles(function, file, line, count, _failures(guards), limit, tuple(ids))


def _failures(guards: Sequence[Guard]) -> tuple[GuardFailures, ...]:
    last = {guard.subject: guard for guard in guards}
    counts = Counter(guard.subject for guard in guards)
    return tuple(
        GuardFailures(subject, last[subject].expected, last[subject].actual, count)
        for subject, count in counts.most_common()
    )


def _breaks(file: str | None, line: int | None, found: Sequence[Break]) -> GraphBreaks:
    told = next((message for message in found if message.reason), found[0])
    return GraphBreaks(file, line, told.reason, told.explanation, told.hints, len(found))
