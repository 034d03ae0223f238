"""What ``foretrace read`` shows a person: the answer first, then the evidence, then what to do."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from foretrace import units
from foretrace.readings.first import about
from foretrace.readings.lines import a_period
from foretrace.report.document import Document, Headline, Item, Listing, Note, Sentence, Table, Title
from foretrace.report.kernel_table import kernel_table
from foretrace.report.op_table import op_table
from foretrace.report.selection import EVERYTHING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from foretrace.readings import Answer
    from foretrace.report.document import Block
    from foretrace.report.selection import Selection
    from foretrace.run import Run

_SAID_ABOVE = ("window", "bound", "first")
"""Questions that the view answers by parts of its own: the headline, the sentence, what to do first."""
_TABLED = ("kernels", "chain", "roofline")
"""Questions whose answers the table holds in short."""
_TOGETHER = {"idle": "launch"}
"""Questions of which the first answers the second in short: one entry stands for both."""
_TRIVIA = ("gemm_choice", "variance", "metadata", "queries")
"""Questions whose answers explain and seldom ask for anything: they come last."""
_ABSENT = {"compiled": "torch.compile", "graphs": "CUDA graphs"}
"""What a silent question says that the trace does not show."""
_FIRST = 5
_BRIEF = 170
"""Characters of an answer under "Worth knowing": two lines with the option that shows the rest."""
_LEAST = 60
"""Characters below which a clause says too little to stand alone."""
_CLAUSE_END = re.compile(r"(?:[.;:]|,(?! and ))(?= )")
_LEANING = re.compile(r"(Yes|No|At times|Partly)\b")
"""How an answer begins that needs its question to be understood."""


def overview(run: Run, answers: Sequence[Answer], selection: Selection = EVERYTHING) -> Document:
    """The view of a whole trace, from the answers to all questions."""
    by_question = {answer.question: answer for answer in answers}
    blocks: list[Block] = []
    said = ""
    if "window" in by_question:
        said = by_question["window"].sentence
        holds, _, lacks = said.partition(". ")
        blocks += [Headline(holds), *([Sentence(lacks)] if lacks else [])]
    blocks += _notes(run, selection, said)
    if "bound" in by_question:
        blocks.append(Sentence(by_question["bound"].sentence))
    table = kernel_table(run) or op_table(run)
    if table is not None:
        blocks.append(table)
    if "first" in by_question:
        blocks += _do_first(run, by_question["first"])
    items = _worth_knowing(by_question)
    absent = [what for question, what in _ABSENT.items() if question not in by_question]
    if absent and len(run.activities):
        items.append(Item(f"This trace shows no {' and no '.join(absent)}."))
    tabled = [question for question in _TABLED if question in by_question]
    if tabled:
        items.append(Item("The kernels in full: how each was reached, what limits it.", f"--ask {' '.join(tabled)}"))
    if items:
        blocks.append(Listing("Worth knowing", tuple(items)))
    return Document(tuple(blocks))


def _worth_knowing(by_question: Mapping[str, Answer]) -> list[Item]:
    """What else the questions say in short, trivia last."""
    told = [question for question in by_question if question not in (*_SAID_ABOVE, *_TABLED)]
    within = {_TOGETHER[question] for question in told if question in _TOGETHER}
    told = sorted((question for question in told if question not in within), key=lambda q: q in _TRIVIA)
    both = {question: f"{question} {other}" for question, other in _TOGETHER.items() if other in by_question}
    return [Item(_brief(by_question[question]), f"--ask {both.get(question, question)}") for question in told]


def asked(run: Run, answers: Sequence[Answer], questions: Sequence[str], selection: Selection = EVERYTHING) -> Document:
    """The answers to ``questions`` in full, and which of them the trace says nothing about."""
    blocks: list[Block] = _notes(run, selection)
    for answer in answers:
        blocks += [Title(answer.ask), Sentence(answer.sentence)]
        if answer.evidence and answer.columns:
            blocks.append(Table(answer.columns, answer.evidence, folds=True))
        if answer.advice is not None:
            of = "the step" if answer.advice.waiting else "GPU time"
            saving = _saving(run, {"saves_ns": answer.advice.saves_ns, "share_of": of})
            blocks.append(Listing("Do", (Item(f"{answer.advice.text}{saving}"),)))
    answered = {answer.question for answer in answers}
    silent = [question for question in dict.fromkeys(questions) if question not in answered]
    if silent:
        why = "" if len(run.activities) else ": it has no GPU events, and most questions are about those"
        blocks.append(Sentence(f"This trace raises no question of {', '.join(silent)}{why}."))
    return Document(tuple(blocks))


def _notes(run: Run, selection: Selection, said: str = "") -> list[Block]:
    """What to keep in mind about the file and the selection, unless it is ``said`` already."""
    notes: list[Block] = [Note(note.text) for note in run.notes if note.text.casefold() not in said.casefold()]
    if selection:
        chosen = [f"step {selection.step}"] if selection.step is not None else []
        chosen += [f"region {selection.region}"] if selection.region is not None else []
        notes.append(Note(f"only {' and '.join(chosen)}"))
    return notes


def _do_first(run: Run, first: Answer) -> list[Block]:
    rows = first.evidence[:_FIRST]
    if not rows:
        return [Sentence(first.sentence)]
    items = tuple(Item(f"{row['advice']}{_saving(run, row)}", f"--ask {row['question']}") for row in rows)
    beyond = first.sentence.removeprefix(rows[0]["advice"]).strip()
    if rows[0].get("saves_ns") is not None:
        beyond = beyond.partition(". ")[2]
    return [Listing("Do first", items, numbered=True), *([Sentence(beyond)] if beyond else [])]


def _saving(run: Run, row: Mapping[str, Any]) -> str:
    if row.get("saves_ns") is None:
        return ""
    share = row.get("share")
    waiting = row.get("share_of") == "the step"
    of_it = f" ({units.percent(share, 1)} of {'it' if waiting else 'GPU time'})" if share is not None else ""
    return f" Saves {about(waiting=waiting)} {units.duration(row['saves_ns'])} {a_period(run)}{of_it}."


def _brief(answer: Answer) -> str:
    """As many of its first sentences as fit in two lines, or as much of a longer one; with its question if it leans."""
    text = f"{answer.ask} {answer.sentence}" if _LEANING.match(answer.sentence) else answer.sentence
    if len(text) <= _BRIEF:
        return text
    ends = [match.start() for match in _CLAUSE_END.finditer(text) if _stands(text[: match.start()], match[0])]
    ends = [at for at in ends if at >= _LEAST]
    fitting = [at for at in ends if at <= _BRIEF]
    sentences = [at for at in fitting if text[at] == "."]
    end = max(sentences or fitting, default=min(ends, default=len(text)))
    return text[: end + 1] if text[end : end + 1] == "." else f"{text[:end]}…"


def _stands(before: str, mark: str) -> bool:
    """Whether a text may end here: in no brackets, and at a comma only between the members of a list."""
    return before.count("(") == before.count(")") and (mark != "," or ": " in before)
