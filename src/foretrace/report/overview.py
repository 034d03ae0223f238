"""What ``foretrace read`` shows a person: the answer first, then the evidence, then what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foretrace import units
from foretrace.report.document import Document, Headline, Item, Listing, Note, Sentence, Table, Title
from foretrace.report.facts import totals
from foretrace.report.kernel_table import kernel_table
from foretrace.report.op_table import op_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foretrace.readings import Answer
    from foretrace.report.document import Block
    from foretrace.report.selection import Selection
    from foretrace.run import Run

_SAID_ABOVE = ("window", "bound", "kernels", "first")
"""Questions that the view answers by its own parts: headline, sentence, table, what to do first."""
_FIRST = 5
_BRIEF = 230
"""Characters of an answer under "Worth knowing"; its first sentence is always whole."""


def overview(run: Run, answers: Sequence[Answer], selection: Selection) -> Document:
    """The view of a whole trace, from the answers to all questions."""
    by_question = {answer.question: answer for answer in answers}
    blocks: list[Block] = [Headline(_headline(run, by_question.get("window")))]
    blocks += _notes(run, selection)
    if "bound" in by_question:
        blocks.append(Sentence(by_question["bound"].sentence))
    table = kernel_table(run) or op_table(run)
    if table is not None:
        blocks.append(table)
    if "first" in by_question:
        blocks.append(_do_first(by_question["first"]))
    others = [answer for answer in answers if answer.question not in _SAID_ABOVE]
    if others:
        items = tuple(Item(_brief(answer.sentence), f"--ask {answer.question}") for answer in others)
        blocks.append(Listing("Worth knowing", items))
    return Document(tuple(blocks))


def asked(run: Run, answers: Sequence[Answer], questions: Sequence[str], selection: Selection) -> Document:
    """The answers to ``questions`` in full, and which of them the trace says nothing about."""
    blocks: list[Block] = _notes(run, selection)
    for answer in answers:
        blocks += [Title(answer.ask), Sentence(answer.sentence)]
        if answer.evidence and answer.columns:
            blocks.append(Table(answer.columns, answer.evidence))
        if answer.advice is not None:
            blocks.append(Listing("Do", (Item(answer.advice.text),)))
    answered = {answer.question for answer in answers}
    silent = [question for question in dict.fromkeys(questions) if question not in answered]
    if silent:
        blocks.append(Sentence(f"This trace raises no question of {', '.join(silent)}."))
    return Document(tuple(blocks))


def _headline(run: Run, window: Answer | None) -> str:
    if window is not None:
        return window.sentence
    total = totals(run)
    parts = [run.device_name or "", units.plural(len(run.steps), "step"), units.plural(total.kernels, "kernel")]
    return " · ".join(filter(None, parts))


def _notes(run: Run, selection: Selection) -> list[Block]:
    notes: list[Block] = [Note(note.text) for note in run.notes]
    if selection:
        chosen = [f"step {selection.step}"] if selection.step is not None else []
        chosen += [f"region {selection.region}"] if selection.region is not None else []
        notes.append(Note(f"only {' and '.join(chosen)}"))
    return notes


def _do_first(first: Answer) -> Block:
    texts = [str(row["text"]) for row in first.evidence[:_FIRST] if row.get("text")]
    if not texts:
        return Sentence(first.sentence)
    return Listing("Do first", tuple(Item(text) for text in texts), numbered=True)


def _brief(sentence: str) -> str:
    """The first sentences, as many as fit in a line or two."""
    brief, *rest = sentence.split(". ")
    for part in rest:
        if len(brief) + len(part) > _BRIEF:
            return f"{brief}."
        brief = f"{brief}. {part}"
    return brief
