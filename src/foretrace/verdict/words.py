"""A guess in words: ``3 gemm, 2 pointwise``, held by counting classes."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from foretrace.errors import InputError
from foretrace.units import plural
from foretrace.verdict import reasons
from foretrace.verdict.checked import Checked, Row
from foretrace.verdict.observed import observe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foretrace.run import Run
    from foretrace.verdict.checked import Verdict
    from foretrace.verdict.observed import Seen

CLASSES = (
    "gemm", "conv", "attention", "pointwise", "reduction", "normalization", "softmax", "scan", "sort",
    "gather-scatter", "copy", "fill", "random", "optimizer", "collective", "fft", "other",
)  # fmt: skip
"""Classes that words may count; a ``gemm-helper`` counts with its GEMM."""

_SYNONYMS = {
    "matmul": "gemm", "mm": "gemm", "linear": "gemm", "convolution": "conv", "elementwise": "pointwise",
    "norm": "normalization", "layernorm": "normalization", "reduce": "reduction", "gather": "gather-scatter",
    "scatter": "gather-scatter", "memcpy": "copy", "allreduce": "collective",
}  # fmt: skip
_ITEM = re.compile(r"(?P<most>at most\s+|<=\s*|≤\s*)?(?P<count>\d{1,9})\s*[x×]?\s*(?P<word>[a-zA-Z][\w -]*)")


@dataclass(frozen=True, slots=True)
class Expected:
    """How many of a class (``kernel`` for all, ``graph`` for compiled graphs) should run, exactly or at most."""

    what: str
    count: int
    at_most: bool = False

    @property
    def text(self) -> str:
        """As a person writes it."""
        return f"{'at most ' if self.at_most else ''}{self.count} {self.what}"

    def holds(self, ran: int) -> bool:
        """Whether ``ran`` fits."""
        return ran <= self.count if self.at_most else ran == self.count


def parse_words(text: str) -> tuple[Expected, ...]:
    """``3 gemm, 2 pointwise, at most 6 kernels``; counts of one class add up, bounds do not.

    Raises:
        InputError: A part is no count of a class.
    """
    parts = [part.strip() for part in re.split(r",|;|\band\b|\+", text) if part.strip()]
    if not parts:
        raise InputError("nothing was expected", hint='say what should run: `--expect "3 gemm, 2 pointwise"`')
    return _added_up([_expected(part) for part in parts])


def _added_up(items: Sequence[Expected]) -> tuple[Expected, ...]:
    """One count for each class, where it is first named."""
    counts: Counter[str] = Counter()
    for one in items:
        counts[one.what] += 0 if one.at_most else one.count
    return tuple(dict.fromkeys(one if one.at_most else Expected(one.what, counts[one.what]) for one in items))


def check_words(expected: tuple[Expected, ...], run: Run, *, exact: bool = False) -> Checked:
    """Hold counts against a typical step of a run; classes that nobody counted are surprises, broken if ``exact``."""
    observation = observe(run)
    if not observation.of:
        why = "this trace holds no GPU work"
        return Checked(tuple(Row(verdict="unknown", guess=one.text, why=why) for one in expected), None, 0)
    counts, names = counted(observation.work)
    rows = [_row(one, counts, names, observation.graphs) for one in expected]
    spoken = {one.what for one in expected}
    for name, count in counts.items():
        if name not in spoken and not spoken & {"kernel"}:
            verdict: Verdict = "broken" if exact else "surprise"
            rows.append(Row(verdict=verdict, observed=tuple(names[name]), why=f"{count} {name} not counted on"))
    helpers = [one for one in observation.work if one.op_class == "gemm-helper"]
    rows += [Row(verdict="surprise", observed=(h.name,), why=reasons.split(h, run.device)) for h in helpers]
    total = sum(e.count for e in expected if e.what not in {"kernel", "graph"}) if not _totals(expected) else None
    return Checked(tuple(rows), total, len(observation.work), (), observation.copies)


def counted(work: tuple[Seen, ...]) -> tuple[Counter[str], dict[str, list[str]]]:
    """Kernels by class, without helpers, and their names."""
    counts: Counter[str] = Counter()
    names: dict[str, list[str]] = {}
    for one in work:
        if one.op_class != "gemm-helper":
            counts[one.op_class] += 1
            names.setdefault(one.op_class, []).append(one.name)
    return counts, names


def _totals(expected: tuple[Expected, ...]) -> bool:
    return any(one.what == "kernel" or one.at_most for one in expected)


def _row(one: Expected, counts: Counter[str], names: dict[str, list[str]], graphs: int) -> Row:
    ran = graphs if one.what == "graph" else sum(counts.values()) if one.what == "kernel" else counts[one.what]
    observed = tuple(names.get(one.what, ()))
    why = "" if one.holds(ran) else f"{plural(ran, one.what) if one.what in {'kernel', 'graph'} else f'{ran}'} ran"
    return Row(verdict="broken" if why else "confirmed", guess=one.text, observed=observed, why=why, op_class=one.what)


def _expected(part: str) -> Expected:
    match = _ITEM.fullmatch(part)
    if match is None:
        raise InputError(f"`{part}` is no count of kernels", hint='write `--expect "3 gemm, 2 pointwise"`')
    return Expected(_class(match["word"]), int(match["count"]), bool(match["most"]))


def _class(word: str) -> str:
    plain = "-".join(word.lower().replace("_", "-").split()).removesuffix("-kernel").removesuffix("-kernels")
    singular = plain.removesuffix("s") if plain not in CLASSES else plain
    for candidate in (plain, singular, f"{singular.removesuffix('ie')}y"):
        name = _SYNONYMS.get(candidate, candidate)
        if name in (*CLASSES, "kernel", "graph"):
            return name
    near = difflib.get_close_matches(plain, [*CLASSES, *_SYNONYMS], n=1)
    raise InputError(f"no class of kernels `{word}`", hint=f"did you mean `{near[0]}`?" if near else ", ".join(CLASSES))
