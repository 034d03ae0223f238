"""What a reading is: a question, and a pure function from a run to an answer or to silence."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from foretrace.run import Run

Unit = Literal["text", "count", "ns", "bytes", "flops", "flop_rate", "byte_rate", "share", "ratio"]
"""How a value is shown: ``ns`` as µs, ``share`` (0 to 1) as %, rates per second."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of an answer's evidence: the key in each row, its header and its unit.

    ``spare`` columns go first where a page is too narrow for all. A figure that comes as a text is sorted by what its
    row holds under ``by``.
    """

    key: str
    header: str
    unit: Unit = "text"
    spare: bool = False
    by: str | None = None


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do about it.

    Attributes:
        text: One imperative sentence or two.
        saves_ns: What it would save per step, nanoseconds: at most where it is waiting, else about; ``None`` when that
            cannot be said.
        waiting: Whether what it saves is time in which the GPU waits, so that it is a part of the step and not of the
            GPU's work.
    """

    text: str
    saves_ns: int | None = None
    waiting: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer: the sentence first, then the evidence, then what to do.

    Attributes:
        question: Slug of the question, as ``--ask`` takes it.
        ask: The question as a person asks it.
        sentence: The answer in one or two sentences.
        verdict: A stable word for programs (``overhead-bound``, ``unknown``…), where there is one.
        evidence: Rows that back the sentence; keys carry units (``dur_ns``); ``event`` is an index in ``traceEvents``.
        columns: Which keys of the evidence a person is shown, in order; the rest is for programs.
        advice: What to do, where there is something.
    """

    question: str
    ask: str
    sentence: str
    verdict: str | None = None
    evidence: tuple[Mapping[str, Any], ...] = ()
    columns: tuple[Column, ...] = ()
    advice: Advice | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """One question and the function that answers it; ``None`` means that the trace raises no such question."""

    question: str
    ask: str
    answer: Callable[[Run], Answer | None]


@lru_cache(maxsize=64)
def answered(reading: Reading, run: Run) -> Answer | None:
    """The answer of one reading, worked out once for each run: what to do first asks all the others again."""
    return reading.answer(run)
