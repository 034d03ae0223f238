"""Questions about a run, in the order in which a careful reader asks them; one question a file."""

from __future__ import annotations

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


def ask(run: Run, questions: Sequence[str] = ()) -> tuple[Answer, ...]:
    """The answers to ``questions`` (all, in the reader's order, by default); questions that do not arise are left out.

    Raises:
        InputError: There is no question of that name.
    """
    known = {reading.question: reading for reading in READINGS}
    for question in questions:
        if question not in known:
            raise InputError(f"no question `{question}`", hint=f"ask one of: {', '.join(known)}")
    chosen = [known[q] for q in questions] if questions else list(READINGS)
    answers = (answered(reading, run) for reading in chosen)
    return tuple(answer for answer in answers if answer is not None)


__all__ = ["READINGS", "Advice", "Answer", "Column", "Reading", "ask"]
