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


_ABSENT = Item("This trace shows no torch.compile and no CUDA graphs.")


def _answer(question: str, sentence: str) -> Answer:
    return Answer(question, f"{question}?", sentence)


def test_the_page_is_in_reading_order(run: Run) -> None:
    """What it holds, what is missing, the regime, the table, what to do first, what else is worth knowing."""
    answers = (
        _answer("window", "Unheard-of 1 · 1 kernel. No steps were recorded."),
        _answer("idle", "The GPU sits idle for 12 µs."),
        _answer("bound", "Overhead-bound while profiled."),
        Answer("first", "first?", "Fuse them. Saves about 21.0 µs a step. MFU is 27 %.", evidence=(_FUSE, _PIN)),
    )
    blocks = overview(run, answers).blocks
    assert blocks[0] == Headline("Unheard-of 1 · 1 kernel")
    assert blocks[1] == Sentence("No steps were recorded.")
    rest = [block for block in blocks[2:] if not isinstance(block, Note)]
    assert rest[0] == Sentence("Overhead-bound while profiled.")
    assert isinstance(rest[1], Table)
    assert rest[1].title == "On the GPU, over the whole trace, in order"
    to_do = (
        Item("Fuse them. Saves about 21.0 µs in this trace (9.00 % of GPU time).", "--ask round_trips"),
        Item("Pin it.", "--ask copies"),
    )
    assert rest[2] == Listing("Do first", to_do, numbered=True)
    assert rest[3] == Sentence("MFU is 27 %.")
    worth = (Item("The GPU sits idle for 12 µs.", "--ask idle"), _ABSENT)
    assert rest[4] == Listing("Worth knowing", worth)
    assert len(rest) == 5


def test_nothing_to_do_is_a_sentence(run: Run) -> None:
    """Where no advice is worth giving, the answer's own sentence says so."""
    answers = (_answer("first", "Nothing here is worth more than 2 %."),)
    assert Sentence("Nothing here is worth more than 2 %.") in overview(run, answers).blocks


def test_trivia_comes_last_and_idle_stands_for_launches(run: Run) -> None:
    """What explains follows what asks for something; two questions with one answer share an entry."""
    answers = tuple(_answer(q, f"About {q}.") for q in ("metadata", "queries", "launch", "idle", "compiled", "copies"))
    listing = overview(run, answers).blocks[-1]
    assert isinstance(listing, Listing)
    assert [item.hint for item in listing.items] == [
        "--ask idle launch",
        "--ask compiled",
        "--ask copies",
        "--ask metadata",
        "--ask queries",
        None,
    ]
    assert listing.items[-1].text == "This trace shows no CUDA graphs."


def test_a_saving_says_what_it_is_a_part_of(run: Run) -> None:
    """Time in which the GPU waits is a part of the step, not of the GPU's work."""
    row = {"advice": "Launch less.", "saves_ns": 300_000, "share": 0.25, "share_of": "the step", "question": "bound"}
    listing = overview(run, (Answer("first", "first?", "Launch less.", evidence=(row,)),)).blocks[-2]
    assert isinstance(listing, Listing)
    assert listing.items[0].text == "Launch less. Saves up to 300 µs in this trace (25.0 % of it)."


def test_at_most_five_things_to_do(run: Run) -> None:
    """More than five is a list that nobody works through."""
    evidence = tuple({"advice": f"Thing {i}.", "question": "idle"} for i in range(8))
    listing = overview(run, (Answer("first", "first?", "Thing 0.", evidence=evidence),)).blocks[-2]
    assert isinstance(listing, Listing)
    assert [item.text for item in listing.items] == ["Thing 0.", "Thing 1.", "Thing 2.", "Thing 3.", "Thing 4."]


_IDLE = (
    "The GPU works 54.6 % of the 1.28 ms between its first event and its last and sits idle for 583 µs: 509 µs in the 9"
    " of 20 gaps whose next launch call had not begun when the GPU went idle, 74.1 µs in the rest."
)
_GAPS = (
    "The GPU is busy 10.2 % of 36.1 ms, its own 3 steps, and idle 32.4 ms: 32.4 ms in the 558 of 560 gaps whose next "
    "launch had not begun, 28.7 µs in the other 2 gaps of the steps (of it 20 µs, and 8.7 µs, in calls)."
)
_WORDY = "A first sentence that is long enough to stand alone on the page of a trace, as it were. "


@pytest.mark.parametrize(
    ("sentence", "brief"),
    [
        ("Yes: 3 of 4 launches.", "launch? Yes: 3 of 4 launches."),
        ("Short.", "Short."),
        (_IDLE, _IDLE[: _IDLE.index(": 509")] + "…"),
        (_GAPS, _GAPS[: _GAPS.index(", 28.7")] + "…"),
        (_WORDY + _WORDY.replace(" page", " page and page and page"), _WORDY.strip()),
    ],
)
def test_answers_are_brief_and_can_stand_alone(run: Run, sentence: str, brief: str) -> None:
    """Two lines at most, cut where a sentence or a clause ends; a yes or no comes with its question."""
    listing = overview(run, (_answer("launch", sentence),)).blocks[-1]
    assert isinstance(listing, Listing)
    assert listing.items == (Item(brief, "--ask launch"), _ABSENT)


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


@pytest.mark.parametrize(("waiting", "how"), [(True, "up to"), (False, "about")])
def test_a_saving_is_as_sure_in_full_as_in_short(run: Run, waiting: bool, how: str) -> None:  # noqa: FBT001 - a case
    """Waiting that goes away is saved at most, work about, whichever page says so."""
    answer = Answer("copies", "What?", "This.", advice=Advice("Pin it.", 330_000, waiting))
    listing = asked(run, (answer,), ["copies"]).blocks[-1]
    assert isinstance(listing, Listing)
    assert listing.items[0].text.startswith(f"Pin it. Saves {how} 330 µs")
