"""The outcome of a check: one row for each expectation and for each thing that nobody expected."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from foretrace.names import decode
from foretrace.units import plural

if TYPE_CHECKING:
    from collections.abc import Mapping

Verdict = Literal["confirmed", "broken", "surprise", "unknown"]
SCHEMA = "foretrace.check/1"
_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One expectation and what became of it, or something that ran unexpected.

    Attributes:
        verdict: ``confirmed``, ``broken``, ``surprise`` or ``unknown``.
        guess: What was expected, in words; ``None`` for a surprise.
        observed: Names of what ran, as in the trace.
        why: The reason.
        op_class: Class of the kernel.
        dur_ns, floor_ns: How long it took (median), and the least that it could take.
    """

    verdict: Verdict
    guess: str | None = None
    observed: tuple[str, ...] = ()
    why: str = ""
    op_class: str | None = None
    dur_ns: int | None = None
    floor_ns: int | None = None

    @property
    def in_words(self) -> str:
        """What it is about and the reason; several kernels that nobody counted are told by the reason alone."""
        about = self.guess or (decode(self.observed[0]).short if len(self.observed) == 1 else "")
        return f"{about}: {self.why}" if about else self.why


@dataclass(frozen=True, slots=True)
class Checked:
    """A guess held against a run.

    Attributes:
        rows: In the order of the guess, surprises where they ran.
        guessed, ran: Kernels and copies on both sides; ``guessed`` is ``None`` where the guess counts classes only.
        copies: How many of those that ran are copies by the copy engine, which a guess cannot tell from kernels.
        notes: What the check rests on: the period that was taken, versions that differ.
    """

    rows: tuple[Row, ...]
    guessed: int | None
    ran: int
    notes: tuple[str, ...] = ()
    copies: int = 0

    @property
    def held(self) -> bool:
        """Whether no row is broken."""
        return not any(row.verdict == "broken" for row in self.rows)

    @property
    def counts(self) -> Counter[str]:
        """Rows by verdict."""
        return Counter(row.verdict for row in self.rows)

    @property
    def sentence(self) -> str:
        """The outcome in one sentence or two; a broken one names what broke."""
        counts = self.counts
        ran = self._counted(self.ran)
        compared = "" if self.guessed == self.ran else f"{ran} ran"
        if compared and self.guessed is not None:
            compared = f"you guessed {self._counted(self.guessed)}, {self.ran:,} ran"
        if not self.held:
            broken = [row for row in self.rows if row.verdict == "broken"]
            named = "; ".join(row.in_words for row in broken[:_NAMED])
            more = f"; and {len(broken) - _NAMED} more" if len(broken) > _NAMED else ""
            return f"Broken{f' ({compared})' if compared else ''}. {named}{more}."
        unsure = f", {counts['unknown']} cannot be told" if counts["unknown"] else ""
        if not counts["surprise"]:
            return f"Held: {compared or f'{ran} as guessed'}{unsure}."
        few = "one surprise" if counts["surprise"] == 1 else f"{counts['surprise']} surprises"
        return f"Held, with {few}{unsure}: {compared or f'{ran} as guessed'}."

    def _counted(self, count: int) -> str:
        return plural(count, "kernel or copy", "kernels and copies") if self.copies else plural(count, "kernel")

    def to_json(self) -> Mapping[str, Any]:
        """The record of ``check --format json``."""
        return {
            "schema": SCHEMA,
            "held": self.held,
            "guessed": self.guessed,
            "ran": self.ran,
            "copies": self.copies,
            "rows": self.rows,
            "notes": self.notes,
            "sentence": self.sentence,
        }
