"""Terms in words."""

from __future__ import annotations

import re

import pytest

from foretrace.cli.app import COMMANDS
from foretrace.errors import InputError
from foretrace.report.explain import Term, explain, terms

_PLANNED = {"read", "kernel", "explain", "devices", "profile", "diff", "guess", "check", "fleet"}


@pytest.mark.parametrize(
    "term",
    [
        "epilogue",
        "split-K",
        "guard",
        "graph break",
        "recompile",
        "roofline",
        "arithmetic intensity",
        "occupancy",
        "tile",
        "stage",
        "wave",
        "stream",
        "launch latency",
        "CUDA graph",
        "HBM round trip",
        "L2",
        "TMA",
        "wgmma",
        "cluster",
        "dispatch chain",
        "correlation",
        "overhead-bound",
        "memory-bound",
        "compute-bound",
        "latency-bound",
        "kernel",
        "helper",
        "orphan",
        "step",
        "region",
        "MFU",
        "warm-up",
        "pageable",
    ],
)
def test_the_words_of_every_report_are_explained(term: str) -> None:
    """Each word that a report uses has an entry under its own name."""
    assert explain(term).term == term


@pytest.mark.parametrize(
    ("word", "term"),
    [
        ("SPLITK", "split-K"),
        ("split_k", "split-K"),
        ("Graph Breaks", "graph break"),
        ("guards", "guard"),
        ("AI", "arithmetic intensity"),
        ("pinned", "pageable"),
        ("round trips", "HBM round trip"),
        ("warmup", "warm-up"),
        ("roof line", "roofline"),
        (".item()", "synchronize"),
        ("overhead", "overhead-bound"),
        ("kernel launch", "launch"),
        ("straggler", "rank"),
        ("FSDP", "rank"),
        ("flash attention", "attention"),
        ("autotune", "autotuning"),
        ("TFLOP/s", "FLOP"),
        ("tf32", "bf16"),
        ("elementwise", "pointwise"),
        ("Kineto", "profiler"),
        ("CTA", "thread block"),
        ("warps", "warp"),
        ("fused optimizer", "foreach"),
    ],
)
def test_spelling_does_not_matter(word: str, term: str) -> None:
    """Case, hyphens, plurals and common synonyms lead to the same entry."""
    assert explain(word).term == term


def test_a_near_miss_is_suggested() -> None:
    """A typo gets the term that it is near to; nonsense gets the way to the list."""
    with pytest.raises(InputError) as near:
        explain("rooflin3")
    assert (near.value.message, near.value.hint) == ("no term `rooflin3`", "did you mean `roofline`?")
    with pytest.raises(InputError) as far:
        explain("zzz")
    assert far.value.hint == "`foretrace explain` lists the terms"


@pytest.mark.parametrize("term", terms(), ids=lambda term: term.term)
def test_every_text_is_a_short_paragraph(term: Term) -> None:
    """Two to five sentences without a line break, ending in a full stop, and a command that exists or is promised."""
    sentences = re.findall(r"[.?!](?= [A-Z`(]|$)", term.text)
    assert 2 <= len(sentences) <= 5
    assert "\n" not in term.text
    assert term.text.endswith(".")
    program, command, *_ = term.see.split()
    assert program == "foretrace"
    assert command in _PLANNED


def test_every_command_is_one_that_a_text_may_name() -> None:
    """The commands that exist are among those that entries may point to."""
    assert {"read", "kernel", "explain", "devices"} <= {name for name, _, _ in COMMANDS} & _PLANNED


def test_no_spelling_has_two_meanings() -> None:
    """Each spelling, however written, leads to one term."""
    meanings: dict[str, set[str]] = {}
    for term in terms():
        for name in (term.term, *term.also):
            meanings.setdefault(re.sub(r"\W|_", "", name).casefold(), set()).add(term.term)
    assert [spelling for spelling, found in meanings.items() if len(found) > 1] == []
