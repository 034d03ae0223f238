"""The record of ``foretrace fuse``: every gated MLP, what becomes of it, and what swapping changes."""

from __future__ import annotations

import math
import re
import shlex
from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from foretrace.readings import Column
from foretrace.report.diff import diff_document
from foretrace.report.document import Document, Headline, Item, Listing, Note, Sentence, Table, Title
from foretrace.units import duration, percent, plural, significant

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from foretrace.diff import Diff
    from foretrace.report.document import Block
    from foretrace.report.variants import Variant
    from foretrace.stats import Ratio

SCHEMA = "foretrace.fuse/1"
_MOST_ROWS = 40
_MOST_NUMBERS = 4
_WITHIN_NOISE = 0.02
"""Two timings of one step differ by about this much."""
_NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")
_PLAIN = "plain"
_NOISE = "not measured: both run PyTorch's own operators here, so what differs between their times would be noise"

_MODULES = (
    Column("module", "module"),
    Column("count", "times", "count"),
    Column("what", "is"),
    Column("rows", "rows", "count"),
    Column("path", "path"),
    Column("why", "why"),
)
_ERRORS = (Column("what", ""), Column("max_abs", "max abs"), Column("relative", "relative"))
_TIMES = (
    Column("variant", "variant"),
    Column("kernels", "kernels", "count"),
    Column("gpu_ns", "GPU µs", "ns"),
    Column("device_ns", "bare GPU µs", "ns"),
    Column("wall_ns", "bare wall µs", "ns"),
    Column("peak_memory_bytes", "peak memory", "bytes"),
)


@dataclass(frozen=True, slots=True)
class Call:
    """A number of rows with which the workload calls a module, the path that they take, and why."""

    rows: int
    path: str
    why: str


@dataclass(frozen=True, slots=True)
class Module:
    """One module that looks like a gated MLP.

    Attributes:
        name: Its name in the model; empty for the model itself.
        was: Its class.
        activation, dim, hidden: What it computes; ``None`` where it is refused.
        refused: Why the fused layers cannot serve it; ``None`` where they can.
        calls: Every different number of rows that the workload gives it; none where it is refused or not called.
    """

    name: str
    was: str
    activation: str | None = None
    dim: int | None = None
    hidden: int | None = None
    refused: str | None = None
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True, slots=True)
class Error:
    """Largest |a − b| over all results, and ‖a − b‖ ÷ ‖b‖."""

    max_abs: float
    relative: float

    def within(self, limit: Error) -> bool:
        """Whether neither is above ``limit``'s; not a number is beyond any."""
        return self.max_abs <= limit.max_abs and self.relative <= limit.relative


@dataclass(frozen=True, slots=True)
class Comparison:
    """Results of the swapped against those of the original.

    Attributes:
        name: The layer that is compared alone; empty for the whole model.
        swapped: How far the swapped one's results are from the original's.
        tolerance: How far they may be.
        original_own, swapped_own: How far each is from the original in the reference's precision.
    """

    name: str
    swapped: Error
    tolerance: Error
    original_own: Error
    swapped_own: Error

    @property
    def held(self) -> bool:
        """Whether the two agree."""
        return self.swapped.within(self.tolerance)

    @property
    def strain(self) -> float:
        """The larger share of the tolerance that is used; not a number is more than any."""
        pairs = zip(asdict(self.swapped).values(), asdict(self.tolerance).values(), strict=True)
        shares = [error / limit if limit else float(error > 0) for error, limit in pairs]
        return math.inf if any(map(math.isnan, shares)) else max(shares)


@dataclass(frozen=True, slots=True)
class Check:
    """The swapped model's results on the target's own arguments.

    Attributes:
        reference: Precision of the reference: ``fp32`` or ``fp64``.
        whole: Of the whole model.
        layers: Of each replaced layer alone, on what its first call with any rows brings.
    """

    reference: str
    whole: Comparison
    layers: tuple[Comparison, ...] = ()

    @property
    def held(self) -> bool:
        """Whether the model and every layer agree with the original."""
        return all(one.held for one in (self.whole, *self.layers))

    @property
    def worst(self) -> Comparison | None:
        """The layer that comes closest to its tolerance, or goes furthest beyond."""
        return max(self.layers, key=lambda layer: layer.strain, default=None)

    @property
    def sentence(self) -> str:
        """The verdict in one sentence."""
        if all(one.swapped == Error(0.0, 0.0) for one in (self.whole, *self.layers)):
            return "The swapped model gives the original's results to the bit."
        worst, error = self.worst, _error(self.whole.swapped.relative)
        text = f"The swapped model's results are {error} from the original's, {_word(self.whole)} the tolerance"
        if worst is not None:
            alone = f"is {_error(worst.swapped.relative)} away, {_word(worst)} its own"
            link = "but" if worst.held != self.whole.held else "and"
            text += f", {link} of the layers alone the worst {alone}"
        return f"{text}."


@dataclass(frozen=True, slots=True)
class Measured:
    """One step of the original and of the swapped model, and what foretrace says between their traces.

    Attributes:
        before, after: A step of each.
        diff: Between their traces.
        host, device: What the swapped step takes of the original's time without the profiler, measured in turns, on
            the host's clock and on the device's; ``None`` where that was not timed.
    """

    before: Variant
    after: Variant
    diff: Diff
    host: Ratio | None = None
    device: Ratio | None = None

    @property
    def sentence(self) -> str:
        """What the swap does to a step without the profiler."""
        for what, key, ratio in (("of GPU time", "device_ns", self.device), ("of wall time", "wall_ns", self.host)):
            before, after = getattr(self.before, key), getattr(self.after, key)
            if ratio is None or before is None or after is None:
                continue
            change, noise = ratio.median - 1, max(_WITHIN_NOISE, ratio.scatter)
            text = f"Without the profiler a step takes {duration(before)} → {duration(after)} {what}"
            if abs(change) <= noise:
                return f"{text}: no difference beyond the {percent(noise, 1)} by which it varies from turn to turn."
            return f"{text} ({'+' if change > 0 else '−'}{percent(abs(change), 1)} turn by turn)."
        return "A step was not timed without the profiler."


@dataclass(frozen=True, slots=True)
class Fuse:
    """What the fused layers can do for one target.

    Attributes:
        target: As it was asked for.
        arguments: Of its factory.
        device: The device that works, as its maker names it; ``None`` for the CPU.
        modules: Every gated MLP, in the model's order.
        check: How well results agree, where that was asked for.
        measured: What it buys, where that was asked for and both do not run PyTorch's own operators.
        grad: Whether the paths are those of a training step.
        already: How many of the target's modules are fused layers as it is.
        is_here: Whether ``device`` is this machine's; otherwise it was only asked about.
        measure: Whether it was asked what it buys.
    """

    target: str
    arguments: tuple[str, ...]
    device: str | None
    modules: tuple[Module, ...]
    check: Check | None = None
    measured: Measured | None = None
    grad: bool = False
    already: int = 0
    is_here: bool = True
    measure: bool = False

    @property
    def replaceable(self) -> tuple[Module, ...]:
        """The modules that the fused layers serve."""
        return tuple(module for module in self.modules if module.refused is None)

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths that the calls of replaceable modules take, in order."""
        return tuple(dict.fromkeys(call.path for module in self.replaceable for call in module.calls))

    @property
    def is_plain(self) -> bool:
        """Whether the swapped model runs PyTorch's own operators, as the original does."""
        return self.paths == (_PLAIN,)

    @property
    def sentence(self) -> str:
        """How many can be replaced, and what then runs."""
        if not self.modules and self.already:
            return f"Fused already: {plural(self.already, 'gated MLP')} of `{self.target}`; no other was found."
        if not self.modules:
            return (
                f"No gated MLP was found in `{self.target}`: modules of three linears, or two with gate and up in one, "
                "are tried; experts in one tensor, and linears under wrappers of other names, are not."
            )
        some = f"{len(self.replaceable)} of {plural(len(self.modules), 'gated MLP')} can be replaced"
        return f"{some}; {self._then()}."

    def _then(self) -> str:
        if not self.replaceable:
            return "the table says what stands in the way"
        paths = self.paths
        if not paths:
            return "these arguments call none of them"
        if self.is_plain:
            where = "the kernels need a CUDA GPU" if self.device is None else "no kernel serves them as they are"
            return f"{'here' if self.is_here else 'there'} they run plain PyTorch: {where}"
        named = " and ".join(f"`{path}`" for path in paths)
        there = "" if self.is_here else f" on {self.device}"
        return f"with these arguments they take the {named} path{'s' if len(paths) > 1 else ''}{there}"

    def to_json(self) -> Mapping[str, Any]:
        """The record as JSON."""
        check, measured = self.check, self.measured
        return {
            "schema": SCHEMA,
            "sentence": self.sentence,
            "target": self.target,
            "arguments": self.arguments,
            "device": self.device,
            "modules": [asdict(module) for module in self.modules],
            "check": check and {"held": check.held, "sentence": check.sentence, **asdict(check)},
            "measured": measured
            and {
                "sentence": measured.sentence,
                "host": measured.host,
                "device": measured.device,
                "before": measured.before,
                "after": measured.after,
                "diff": measured.diff,
            },
            "is_here": self.is_here,
        }


def fuse_document(found: Fuse) -> Document:
    """What a person is shown."""
    where = f"{'' if found.is_here else 'on '}{found.device or 'CPU'}"
    blocks: list[Block] = [Headline(f"{where} · {found.target}"), Sentence(found.sentence)]
    if found.modules:
        blocks.append(_modules(found.modules))
    if found.check is not None:
        blocks += [Title("Numerics"), Sentence(found.check.sentence), *_errors(found.check)]
    if found.measured is not None:
        blocks += _measured(found.measured)
    elif found.measure and found.is_plain:
        blocks.append(Note(_NOISE))
    if found.replaceable:
        blocks.append(Listing("Next", tuple(_next(found))))
    return Document(tuple(blocks))


def _modules(modules: Sequence[Module]) -> Table:
    """Equal modules of many layers in one row; a row for each number of rows."""
    alike: dict[tuple[object, ...], list[Module]] = {}
    for module in modules:
        key = (_NUMBER.sub("*", module.name), module.was, module.activation, module.dim, module.hidden)
        alike.setdefault((*key, module.refused, module.calls), []).append(module)
    patterns = Counter(str(key[0]) for key in alike)
    rows = [row for key, some in alike.items() for row in _rows(some, alone=patterns[str(key[0])] == 1)]
    rest = len(rows) - _MOST_ROWS
    more = f"and {plural(rest, 'other row')}; --format json has all" if rest > 0 else None
    return Table(_MODULES, rows[:_MOST_ROWS], more=more, folds=True)


def _rows(some: Sequence[Module], *, alone: bool) -> list[dict[str, Any]]:
    """``alone``: whether no other row is of modules whose names differ from these by their numbers."""
    first = some[0]
    name = first.name if len(some) == 1 else _NUMBER.sub("*", first.name)
    if len(some) > 1 and not alone:
        numbers = [found.group() for module in some[:_MOST_NUMBERS] if (found := _NUMBER.search(module.name))]
        rest = ",…" if len(some) > _MOST_NUMBERS else ""
        name = _NUMBER.sub(f"{{{','.join(numbers)}{rest}}}", first.name, count=1)
    sizes = f"{first.dim:,} → {first.hidden:,}" if first.dim is not None and first.hidden is not None else None
    row: dict[str, Any] = {
        "module": name or "the model itself",
        "count": len(some) if len(some) > 1 else None,
        "what": ", ".join(part for part in (first.was, first.activation, sizes) if part),
    }
    if first.refused is not None:
        return [{**row, "path": "refused", "why": first.refused}]
    if not first.calls:
        return [{**row, "why": "not called with these arguments"}]
    return [{**row, **asdict(call)} for call in first.calls]


def _word(one: Comparison) -> str:
    return "inside" if one.held else "beyond"


def _errors(check: Check) -> list[Table]:
    tables = [_comparison(check.whole, check.reference, "The whole model")]
    if check.worst is not None and check.worst.strain > 0:
        title = "The worst layer alone" + (f", {check.worst.name}" if check.worst.name else "")
        tables.append(_comparison(check.worst, check.reference, title))
    return tables


def _comparison(one: Comparison, reference: str, title: str) -> Table:
    rows = (
        ("swapped against the original", one.swapped),
        ("  at most", one.tolerance),
        (f"original against {reference}", one.original_own),
        (f"swapped against {reference}", one.swapped_own),
    )
    cells = [{"what": w, "max_abs": _error(e.max_abs), "relative": _error(e.relative)} for w, e in rows]
    return Table(_ERRORS, cells, title=title)


def _error(value: float) -> str:
    """``0.0039``; exponents below a thousandth: errors span many powers of ten."""
    return f"{value:.1e}" if value and abs(value) < 1e-3 else significant(value, 2)  # noqa: PLR2004 - as said


def _measured(one: Measured) -> list[Block]:
    times = Table(_TIMES, [asdict(one.before), asdict(one.after)])
    return [Title("Before and after"), Sentence(one.sentence), times, *diff_document(one.diff).blocks]


def _next(found: Fuse) -> list[Item]:
    command = f"foretrace fuse {shlex.quote(found.target)}"
    arguments = f"{' --grad' * found.grad}{f' -- {shlex.join(found.arguments)}' if found.arguments else ''}"
    items = [] if found.is_plain else [Item("swap them in your code", "model = foretrace.fused.replace(model).model")]
    if found.device is None or not found.is_here:
        where = found.device or "a CUDA GPU"
        items.insert(0, Item(f"ask again where {where} is", f"{command} --check --measure{arguments}"))
        if found.device is None:
            items.insert(0, Item("ask about a GPU that is not here", f"{command} --on h200{arguments}"))
        return items
    if found.check is None:
        items.append(Item("see that results agree", f"{command} --check{arguments}"))
    if found.measured is None:
        items.append(Item("measure what it buys", f"{command} --measure{arguments}"))
    if found.measured is not None:
        sides = (found.measured.diff.before, found.measured.diff.after)
        items += [Item(f"read {side.label}", f"foretrace read {shlex.quote(side.path)}") for side in sides]
    return items
