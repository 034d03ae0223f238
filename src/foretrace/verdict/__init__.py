"""Guesses and what becomes of them: records, their file, and the check against a run. No torch."""

from __future__ import annotations

from foretrace.verdict.check import check
from foretrace.verdict.checked import Checked, Row
from foretrace.verdict.guess_file import from_toml, read_guess, to_toml
from foretrace.verdict.records import Guess, GuessedKernel
from foretrace.verdict.words import Expected, check_words, parse_words

__all__ = [
    "Checked",
    "Expected",
    "Guess",
    "GuessedKernel",
    "Row",
    "check",
    "check_words",
    "from_toml",
    "parse_words",
    "read_guess",
    "to_toml",
]
