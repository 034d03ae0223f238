"""The record of ``foretrace ladder``: rung after rung, what was guessed and what was there, and the summary."""

from __future__ import annotations

import shlex
from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from foretrace.readings import Column
from foretrace.report.document import Block, Document, Headline, Item, Listing, Note, Sentence, Table, Title
from foretrace.units import plural

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SCHEMA = "foretrace.ladder/1"


@dataclass(frozen=True, slots=True)
class Guess:
    """One claim, stated before the trace was opened, and what became of it."""

    claim: str
    verdict: str
    why: str


@dataclass(frozen=True, slots=True)
class KernelRow:
    """One kernel of the step: how it came to be and how long it took; unknown is ``None``."""

    kernel: str
    op: str | None
    module: str | None
    chain: tuple[str, ...]
    launch: str | None
    dur_ns: float


@dataclass(frozen=True, slots=True)
class Rung:
    """One rung of the road.

    Attributes:
        name, title, setup: Slug, words, and few words.
        trace: The trace that was read; ``None`` when the rung was skipped.
        skipped: Why there is none, and what would bring it.
        guesses: The claims and their verdicts.
        surprises: What ran and was not guessed.
        kernels: Kernels of the last step.
        on_gpu, on_cpu: What changed since the rung that it is compared with.
        kernels_per_step, gpu_ns, cpu_ns: Medians over steps; ``None`` where the trace cannot show them.
        first_call_ns: The first call, compilation included, where capture measured it.
    """

    name: str
    title: str
    setup: str
    trace: str | None = None
    skipped: str | None = None
    guesses: tuple[Guess, ...] = ()
    surprises: tuple[str, ...] = ()
    kernels: tuple[KernelRow, ...] = ()
    on_gpu: str = ""
    on_cpu: str = ""
    kernels_per_step: float | None = None
    gpu_ns: float | None = None
    cpu_ns: float | None = None
    first_call_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Ladder:
    """The whole road on one machine (or as recorded).

    Attributes:
        device: What it ran on.
        recorded: Whether the traces are the ones shipped with foretrace.
        rungs: In order.
        notes: What a reader should know about this machine.
    """

    device: str
    recorded: bool
    rungs: tuple[Rung, ...]
    notes: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """The outcome in one sentence."""
        verdicts = Counter(guess.verdict for rung in self.rungs for guess in rung.guesses)
        surprises = sum(len(rung.surprises) for rung in self.rungs)
        parts = [f"{verdicts[v]} {v}" for v in ("confirmed", "broken", "unknown") if verdicts[v]]
        walked = sum(rung.skipped is None for rung in self.rungs)
        return (
            f"{plural(verdicts.total(), 'guess', 'guesses')} on {plural(walked, 'rung')}: "
            f"{', '.join(parts) or 'none held'}; {plural(surprises, 'surprise')}."
        )

    def to_json(self) -> Mapping[str, Any]:
        """The promised keys: ``schema``, ``device``, ``recorded``, ``sentence``, ``notes`` and ``rungs``."""
        return {"schema": SCHEMA, "sentence": self.sentence, **asdict(self)}


def document(ladder: Ladder) -> Document:
    """The road as a person reads it."""
    where = "recorded on" if ladder.recorded else "on"
    blocks: list[Block] = [
        Headline(f"The road from nn.Linear to a fused MLP, {where} {ladder.device}"),
        *(Note(text) for text in ladder.notes),
        Sentence(ladder.sentence),
    ]
    for position, rung in enumerate(ladder.rungs, 1):
        blocks += _rung(position, rung)
    blocks += [Title("Summary"), _summary(ladder.rungs)]
    traces = [Item(rung.setup, f"foretrace read {shlex.quote(rung.trace)}") for rung in ladder.rungs if rung.trace]
    if traces and not ladder.recorded:
        blocks.append(Listing("Look for yourself", tuple(traces)))
    return Document(tuple(blocks))


def _rung(position: int, rung: Rung) -> list[Block]:
    blocks: list[Block] = [Title(f"{position}  {rung.title}")]
    if rung.skipped is not None:
        return [*blocks, Note(f"Skipped: {rung.skipped}")]
    blocks.append(Listing("Guessed, then looked", tuple(_guess(guess) for guess in rung.guesses)))
    if rung.surprises:
        blocks.append(Listing("Surprises", tuple(Item(text) for text in rung.surprises)))
    if rung.kernels:
        blocks.append(_kernels(rung.kernels))
    return blocks


def _guess(guess: Guess) -> Item:
    return Item(f"{guess.verdict}: {guess.claim}. Seen: {guess.why}")


def _kernels(kernels: Sequence[KernelRow]) -> Table:
    columns = [Column("module", "module")] if any(kernel.module for kernel in kernels) else []
    columns += [
        Column("op", "op"),
        Column("launch", "launched by"),
        Column("kernel", "kernel"),
        Column("dur_ns", "µs", "ns"),
    ]
    return Table(tuple(columns), [asdict(kernel) for kernel in kernels], title="The last step")


def _summary(rungs: Sequence[Rung]) -> Table:
    walked = [rung for rung in rungs if rung.skipped is None]
    on_gpu = [
        Column("on_gpu", "on the GPU"),
        Column("kernels_per_step", "kernels", "count"),
        Column("gpu_ns", "GPU µs", "ns"),
    ]
    return Table(
        (
            Column("setup", "setup"),
            *(on_gpu if any(rung.gpu_ns is not None for rung in walked) else ()),
            Column("on_cpu", "on the CPU"),
            Column("cpu_ns", "CPU µs", "ns"),
            Column("first_call_ns", "1st call µs", "ns"),
        ),
        [asdict(rung) for rung in walked],
    )
