"""Documents in a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from rich.cells import cell_len

from foretrace.readings import Column
from foretrace.render.to_terminal import to_terminal
from foretrace.report.document import Document, Fields, Item, Listing, Sentence, Table

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize("width", [80, 100])
def test_every_block_at_two_widths(document: Document, width: int, snapshot: Callable[[str, str], None]) -> None:
    """The whole page, as accepted: folded sentences, figures to the right, long names cut in the middle."""
    snapshot(to_terminal(document, width=width), f"document_{width}.txt")


@pytest.mark.parametrize("width", [60, 80, 100])
def test_no_line_is_wider_than_the_terminal(document: Document, width: int) -> None:
    """Sentences fold and names are cut until everything fits, and no line ends in blanks."""
    lines = to_terminal(document, width=width).splitlines()
    assert max(cell_len(line) for line in lines) <= width
    assert [line for line in lines if line != line.rstrip()] == []


def test_without_styles_nothing_but_text_comes_out(document: Document) -> None:
    """No escape sequence is written, not even one from a kernel's name; a styled page differs only by its styles."""
    plain, styled = to_terminal(document), to_terminal(document, styled=True)
    assert "\x1b" not in plain
    assert "\x1b[1m" in styled
    for style in ("\x1b[1m", "\x1b[2m", "\x1b[0m"):
        styled = styled.replace(style, "")
    assert styled == plain


def test_columns_that_no_row_knows_are_left_out(document: Document) -> None:
    """A column without a single value says nothing and takes no room."""
    assert "not known of any row" not in to_terminal(document)


def test_figures_stay_whole_where_names_cannot_shrink_further() -> None:
    """A table too wide for the terminal runs over instead of dropping digits."""
    columns = (Column("name", "name"), *(Column(f"t{i}", f"column {i}, µs", "ns") for i in range(8)))
    row = {"name": "n" * 60, **{f"t{i}": 123_000_000 for i in range(8)}}
    line = to_terminal(Document((Table(columns, [row]),)), width=60).splitlines()[1]
    assert line.count("123,000") == 8
    assert "n…n" in line


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("gemm 256×128×64, 4 stages, bf16→bf16", "gemm 256×128×64, 4 stages…"),
        ("elementwise<vector, functor, 4>(unsigned)", "elementwise<vector, …signed)"),
    ],
)
def test_a_list_in_words_loses_its_last_members_whole(name: str, shown: str) -> None:
    """A decoded name is cut between its parts; a C++ name keeps its end, which tells it from others."""
    columns = (Column("name", "name"), Column("t", "µs", "ns"))
    lines = to_terminal(Document((Table(columns, [{"name": name, "t": 1_000}]),)), width=36).splitlines()
    assert lines[1].strip().startswith(f"{shown} ")


def test_spare_columns_go_first_on_a_narrow_page() -> None:
    """A table that does not fit even with its texts cut loses the columns that it can do without."""
    columns = (Column("name", "name"), Column("t", "µs", "ns"), Column("share", "of GPU", "share", spare=True))
    page = Document((Table(columns, [{"name": "n" * 40, "t": 1_000, "share": 0.5}]),))
    assert to_terminal(page, width=33).splitlines()[0].split() == ["name", "µs", "of", "GPU"]  # 2 + 17 + 2 + 4 + 2 + 6
    assert to_terminal(page, width=32).splitlines()[0].split() == ["name", "µs"]


def test_a_figure_and_its_unit_share_a_line() -> None:
    """Where a line is full before the unit, the figure goes on with it; words break anywhere."""
    page = Document((Sentence("the GPU works 55.7 µs in all, 43.2 % of it in one"),))
    assert to_terminal(page, width=19).splitlines() == ["the GPU works", "55.7 µs in all,", "43.2 % of it in one"]
    assert to_terminal(page, width=18).splitlines()[-2:] == ["43.2 % of it in", "one"]


def test_wide_characters_count_as_two_cells() -> None:
    """Names in scripts with wide signs keep the columns aligned."""
    columns = (Column("name", "name"), Column("t", "µs", "ns"))
    rows = [{"name": "核函数", "t": 1_000}, {"name": "kernel", "t": 1_000}]
    lines = to_terminal(Document((Table(columns, rows),))).splitlines()
    assert len({cell_len(line) for line in lines}) == 1


def test_a_hint_that_does_not_fit_gets_its_own_line() -> None:
    """An item's command stands at the right edge, on the next line when the text leaves no room."""
    item = Item("x" * 50, "--ask idle")
    lines = to_terminal(Document((Listing("Worth knowing", (item,)),)), width=60).splitlines()
    assert lines == ["Worth knowing", "  " + "x" * 50, " " * 50 + "--ask idle"]


def test_long_values_hang_under_their_field() -> None:
    """A folded value goes on in its own column."""
    page = to_terminal(Document((Fields((("in words", "one two three four five"),)),)), width=24)
    assert page == "  in words  one two\n            three four\n            five\n"


def test_a_word_longer_than_the_line_stays_whole() -> None:
    """A path or kernel name in a sentence can be copied: it is never broken."""
    name = "k" * 120
    assert name in to_terminal(Document((Sentence(f"the kernel {name} ran"),)), width=80).splitlines()


@pytest.mark.parametrize("depth", range(1, 60))
def test_a_file_s_name_is_whole_wherever_it_lies(depth: int) -> None:
    """A path is folded after a folder's name and loses nothing."""
    path = f"/{'x' * depth}/{'y' * 7}/ddp_rank0.json.gz"
    table = Table((Column("trace", "trace"),), [{"trace": path}], folds=True)
    _, *lines = to_terminal(Document((table,)), width=25).split()
    assert "".join(lines) == path
    assert lines[-1].endswith("ddp_rank0.json.gz")


@pytest.mark.parametrize("width", range(25, 60))
def test_a_rate_is_no_path(width: int) -> None:
    """Units with a slash are not folded."""
    said = "reaches 3.9 TB/s of the 4.8 TB/s that memory can move"
    table = Table((Column("note", "note"),), [{"note": said}], folds=True)
    assert to_terminal(Document((table,)), width=width).split()[1:] == said.split()
