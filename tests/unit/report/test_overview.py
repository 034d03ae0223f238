"""The page of a trace, from answers written by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from foretrace.readings import Advice, Answer, Column
from foretrace.report.document import Headline, Item, Listing, Note, Sentence, Table, Title
from foretrace.report.overview import asked, overview
from foretrace.report.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Callable

    from foretrace.run import Run


@pytest.fixture
def run(built: Callable[..., Run]) -> Run:
    """One kernel and no steps."""
    return built(
        ("cpu_op", "aten::mul", 0, 9, 1, {}),
        ("cuda_runtime", "cudaLaunchKernel", 3, 2, 1, {"correlation": 1}),
        ("kernel", "my_kernel", 10, 5, 7, {"correlation": 1, "stream": 7, "device": 0}),
        deviceProperties=[{"id": 0, "name": "Unheard-of 1"}],
    )


_FUSE = {"advice": "Fuse them.", "saves_ns": 21_000, "share": 0.09, "question": "round_trips"}
_PIN = {"advice": "Pin it.", "saves_ns": None, "share": None, "question": "copies"}


def _answer(question: str, sentence: str) -> Answer:
    return Answer(question, f"{question}?", sentence)


def test_the_page_is_in_reading_order(run: Run) -> None:
    """What it holds, what is missing, the regime, the table, what to do first, what else is worth knowing."""
    answers = (
        _answer("window", "Unheard-of 1 · 1 kernel. No steps were recorded."),
        _answer("idle", "The GPU sits idle for 12 µs."),
        _answer("bound", "Overhead-bound while profiled."),
        Answer("first", "first?", "Fuse them. Saves up to 21.0 µs a step. MFU is 27 %.", evidence=(_FUSE, _PIN)),
    )
    blocks = overview(run, answers).blocks
    assert blocks[0] == Headline("Unheard-of 1 · 1 kernel")
    assert blocks[1] == Sentence("No steps were recorded.")
    rest = [block for block in blocks[2:] if not isinstance(block, Note)]
    assert rest[0] == Sentence("Overhead-bound while profiled.")
    assert isinstance(rest[1], Table)
    assert rest[1].title == "On the GPU, over the whole trace"
    to_do = (
        Item("Fuse them. Saves up to 21.0 µs a step (9.00 % of GPU time).", "--ask round_trips"),
        Item("Pin it.", "--ask copies"),
    )
    assert rest[2] == Listing("Do first", to_do, numbered=True)
    assert rest[3] == Sentence("MFU is 27 %.")
    assert rest[4] == Listing("Worth knowing", (Item("The GPU sits idle for 12 µs.", "--ask idle"),))
    assert len(rest) == 5


def test_nothing_to_do_is_a_sentence(run: Run) -> None:
    """Where no advice is worth giving, the answer's own sentence says so."""
    answers = (_answer("first", "Nothing here is worth more than 2 %."),)
    assert overview(run, answers).blocks[-1] == Sentence("Nothing here is worth more than 2 %.")


def test_at_most_five_things_to_do(run: Run) -> None:
    """More than five is a list that nobody works through."""
    evidence = tuple({"advice": f"Thing {i}.", "question": "idle"} for i in range(8))
    listing = overview(run, (Answer("first", "first?", "Thing 0.", evidence=evidence),)).blocks[-1]
    assert isinstance(listing, Listing)
    assert [item.text for item in listing.items] == ["Thing 0.", "Thing 1.", "Thing 2.", "Thing 3.", "Thing 4."]


_IDLE = (
    "The GPU works 54.6 % of the 1.28 ms between its first event and its last and sits idle for 583 µs: 509 µs in the 9"
    " of 20 gaps whose next launch call had not begun when the GPU went idle, 74.1 µs in the rest."
)
_WORDY = "A first sentence that is long enough to stand alone on the page of a trace, as it were. "


@pytest.mark.parametrize(
    ("sentence", "brief"),
    [
        ("Yes: 3 of 4 launches.", "launch? Yes: 3 of 4 launches."),
        ("Short.", "Short."),
        (_IDLE, _IDLE[: _IDLE.index(": 509")] + "…"),
        (_WORDY + _WORDY.replace(" page", " page and page and page"), _WORDY.strip()),
    ],
)
def test_answers_are_brief_and_can_stand_alone(run: Run, sentence: str, brief: str) -> None:
    """Two lines at most, cut where a sentence or a clause ends; a yes or no comes with its question."""
    listing = overview(run, (_answer("launch", sentence),)).blocks[-1]
    assert isinstance(listing, Listing)
    assert listing.items == (Item(brief, "--ask launch"),)


def test_a_clause_in_brackets_is_not_torn(run: Run) -> None:
    """A cut never leaves a bracket open."""
    sentence = "w" * 70 + " (one; two; " + "three; " * 30 + ") end: " + "tail " * 5
    listing = overview(run, (_answer("idle", sentence),)).blocks[-1]
    assert isinstance(listing, Listing)
    assert listing.items[0].text.count("(") == listing.items[0].text.count(")")


def test_a_selection_is_said(run: Run) -> None:
    """The page of a part says which part it is of."""
    blocks = overview(run, (), Selection(step=3, region="forward")).blocks
    assert Note("only step 3 and region forward") in blocks


def test_asked_answers_come_in_full(run: Run) -> None:
    """Question, sentence, the whole table, the advice; then what the trace says nothing about."""
    columns = (Column("dur_ns", "µs", "ns"),)
    answer = Answer(
        "idle", "Where?", "Here. And there.", evidence=({"dur_ns": 5},), columns=columns, advice=Advice("Wait less.")
    )
    blocks = [block for block in asked(run, (answer,), ["idle", "graphs"]).blocks if not isinstance(block, Note)]
    assert blocks == [
        Title("Where?"),
        Sentence("Here. And there."),
        Table(columns, ({"dur_ns": 5},), folds=True),
        Listing("Do", (Item("Wait less."),)),
        Sentence("This trace raises no question of graphs."),
    ]
