"""``--guess-first``: the reader says what should be there before anything is shown, and is told how it went."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from foretrace.errors import InputError
from foretrace.verdict import check_words, parse_words

if TYPE_CHECKING:
    from foretrace.run import Run
    from foretrace.verdict import Expected

_ASK = "Before you look: which kernels does one step run? (`3 gemm, 2 pointwise`; Enter skips)\n> "
_TRIES = 3


def ask() -> tuple[Expected, ...] | None:
    """The reader's guess, asked on stderr; ``None`` for an empty line, the end of input, or three that say nothing."""
    for _ in range(_TRIES):
        sys.stderr.write(_ASK)
        sys.stderr.flush()
        line = sys.stdin.readline().strip()
        if not line:
            return None
        try:
            return parse_words(line)
        except InputError as error:
            sys.stderr.write(f"{error.message}; {error.hint}\n")
    return None


def mark(guess: tuple[Expected, ...], run: Run) -> None:
    """Say on stderr what of the guess held: a mismatch is the most interesting thing in a trace."""
    checked = check_words(guess, run)
    marks = {"confirmed": "yes", "broken": "no", "surprise": "and", "unknown": "?"}
    lines = [checked.sentence]
    lines += [f"  {marks[row.verdict]:4}{': '.join(filter(None, (row.guess, row.why)))}" for row in checked.rows]
    sys.stderr.write("\n".join(lines) + "\n\n")
