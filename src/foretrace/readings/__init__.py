"""Questions about a run, in the order in which a careful reader asks them; one question a file."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from foretrace.errors import InputError
from foretrace.readings import (
    bound,
    chain,
    collectives,
    compiled,
    copies,
    first,
    gemm_choice,
    graphs,
    idle,
    kernels,
    launch,
    memory,
    metadata,
    modules,
    queries,
    roofline,
    round_trips,
    steps,
    streams,
    syncs,
    variance,
    window,
)
from foretrace.readings.base import Advice, Answer, Column, Reading, answered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foretrace.run import Run

READINGS: tuple[Reading, ...] = (
    window.READING,
    steps.READING,
    kernels.READING,
    chain.READING,
    metadata.READING,
    queries.READING,
    launch.READING,
    idle.READING,
    bound.READING,
    roofline.READING,
    gemm_choice.READING,
    variance.READING,
    compiled.READING,
    round_trips.READING,
    modules.READING,
    memory.READING,
    graphs.READING,
    syncs.READING,
    copies.READING,
    streams.READING,
    collectives.READING,
    first.READING,
)


def named(questions: Sequence[str]) -> tuple[str, ...]:
    """The questions that words mean: ``round-trips`` is ``round_trips``, ``all`` is every one.

    Raises:
        InputError: There is no question of that name.
    """
    known = [reading.question for reading in READINGS]
    found: list[str] = []
    for word in questions:
        question = word.replace("-", "_")
        if question not in (*known, "all"):
            near = difflib.get_close_matches(question, known, n=1)
            hint = f"did you mean `{near[0]}`?" if near else f"ask one of: {', '.join(known)}; or all"
            raise InputError(f"no question `{word}`", hint=hint)
        found += known if question == "all" else [question]
    return tuple(found)


def ask(run: Run, questions: Sequence[str] = ()) -> tuple[Answer, ...]:
    """The answers to ``questions`` (all, in the reader's order, by default); questions that do not arise are left out.

    Raises:
        InputError: There is no question of that name.
    """
    known = {reading.question: reading for reading in READINGS}
    chosen = [known[question] for question in named(questions)] if questions else list(READINGS)
    answers = (answered(reading, run) for reading in chosen)
    return tuple(answer for answer in answers if answer is not None)


__all__ = ["READINGS", "Advice", "Answer", "Column", "Reading", "ask", "named"]
