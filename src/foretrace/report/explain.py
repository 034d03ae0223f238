"""Terms of the field in words, for ``foretrace explain``; the texts are in ``terms.toml`` beside this file."""

from __future__ import annotations

import difflib
import tomllib
from dataclasses import dataclass
from importlib.resources import files

from foretrace.errors import InputError
from foretrace.report.document import Document, Fields, Headline, Sentence


@dataclass(frozen=True, slots=True)
class Term:
    """One term.

    Attributes:
        term: As the field spells it.
        text: Two to five sentences for somebody who meets it for the first time.
        see: The command that shows it.
        also: Other spellings and near synonyms.
    """

    term: str
    text: str
    see: str
    also: tuple[str, ...] = ()


def terms() -> tuple[Term, ...]:
    """Every term, in alphabetical order."""
    table = tomllib.loads(files("foretrace.report").joinpath("terms.toml").read_text(encoding="utf-8"))
    found = (Term(name, row["text"], row["see"], tuple(row.get("also", ()))) for name, row in table.items())
    return tuple(sorted(found, key=lambda term: term.term.casefold()))


def explain(word: str) -> Term:
    """The term that ``word`` means, whatever its case, hyphens and plural.

    Raises:
        InputError: It is not in the list; the hint names near ones.
    """
    known = terms()
    by_spelling = {_plain(name): term for term in known for name in (*term.also, term.term)}
    wanted = _plain(word)
    found = by_spelling.get(wanted) or by_spelling.get(wanted.removesuffix("s"))
    if found is None:
        near = difflib.get_close_matches(wanted, by_spelling, n=3, cutoff=0.7)
        names = list(dict.fromkeys(by_spelling[spelling].term for spelling in near))
        hint = (
            f"did you mean {' or '.join(f'`{n}`' for n in names)}?" if names else "`foretrace explain` lists the terms"
        )
        raise InputError(f"no term `{word}`", hint=hint)
    return found


def explain_document(found: Term) -> Document:
    """The term, its text, and where to see it."""
    return Document((Headline(found.term), Sentence(found.text), Fields((("see it", found.see),))))


def terms_document(known: tuple[Term, ...]) -> Document:
    """The list of terms."""
    names = ", ".join(term.term for term in known)
    return Document((Headline("Terms that `foretrace explain TERM` knows"), Sentence(names)))


def _plain(word: str) -> str:
    return "".join(letter for letter in word.casefold() if letter.isalnum())
