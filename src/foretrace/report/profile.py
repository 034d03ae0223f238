"""The record of ``foretrace profile``: one line a variant, and where to look."""

from __future__ import annotations

import shlex
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from foretrace import readings, stats
from foretrace.readings import Column
from foretrace.report.compile_log import compile_items
from foretrace.report.document import Block, Document, Headline, Item, Listing, Note, Sentence, Table
from foretrace.report.variants import Variant, variant_blocks, verdict
from foretrace.report.variants import variants as compare_variants
from foretrace.run import read
from foretrace.trace import compile_log
from foretrace.units import duration, percent, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from foretrace.run import Run

SCHEMA = "foretrace.profile/1"
_SCATTERED = 0.2
"""Timings that differ by more than this share of their median are no figure to compare with."""


@dataclass(frozen=True, slots=True)
class VariantRow:
    """One variant; times are medians in nanoseconds, unknown is ``None``.

    Attributes:
        variant, trace: Its name and file.
        failed: Why it has no trace.
        sentence: What bounds it.
        kernels: Kernels a step.
        gpu_ns: GPU busy time of a step in the trace.
        host_ns, device_ns: A step without the profiler, on the host's clock and on the device's.
        spread: (max − min) ÷ median of the timings behind ``host_ns``.
        first_call_ns: The first call, compilation included.
        peak_memory_bytes: Device memory at its highest.
    """

    variant: str
    trace: str
    failed: str | None = None
    sentence: str | None = None
    kernels: float | None = None
    gpu_ns: float | None = None
    host_ns: int | None = None
    device_ns: int | None = None
    spread: float | None = None
    first_call_ns: int | None = None
    peak_memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Profile:
    """All variants of one target, in the order in which they were asked for."""

    device: str | None
    variants: tuple[VariantRow, ...]
    comparison: tuple[Variant, ...] = ()

    @property
    def sentence(self) -> str:
        """The fastest variant without the profiler, in one sentence."""
        compared = verdict(self.comparison)
        if compared is not None:
            return compared
        timed = {row.variant: row.host_ns for row in self.variants if row.host_ns is not None}
        if not timed:
            return f"{plural(len(self.variants), 'trace')} written; nothing was timed without the profiler."
        best = min(timed, key=lambda name: timed[name])
        if len(timed) == 1:
            spread = next((row.spread for row in self.variants if row.variant == best), None) or 0.0
            noise = f"; its timings scatter by {percent(spread, 1)}, so time it again while nothing else runs"
            return f"A step takes {duration(timed[best])} without the profiler{noise if spread > _SCATTERED else ''}."
        others = ", ".join(f"{name} {duration(ns)}" for name, ns in timed.items() if name != best)
        return f"Without the profiler {best} is the fastest: {duration(timed[best])} a step ({others})."

    def to_json(self) -> Mapping[str, Any]:
        """The record as JSON."""
        return {"schema": SCHEMA, "sentence": self.sentence, **asdict(self)}


def profile_record(variants: Sequence[tuple[str, str, str | None]]) -> Profile:
    """Read every trace back.

    Args:
        variants: Name, trace path, and why there is no trace (``None`` when there is one).
    """
    rows, devices, runs = [], [], []
    for name, path, failed in variants:
        if failed is not None:
            rows.append(VariantRow(name, path, failed=failed))
            continue
        run = read(path)
        devices.append(run.device_name)
        runs.append((name, run))
        rows.append(_row(name, path, run))
    compared = compare_variants(runs) if len(runs) > 1 else ()
    return Profile(next(filter(None, devices), None), tuple(rows), compared)


def _row(name: str, path: str, run: Run) -> VariantRow:
    environment = run.environment
    on_gpu = len(run.activities) > 0
    bound = readings.ask(run, ["bound"])
    return VariantRow(
        name,
        path,
        sentence=bound[0].sentence if bound else None,
        kernels=stats.median([len(run.kernels(s.activities)) for s in run.steps]) if on_gpu else None,
        gpu_ns=stats.median([run.busy_ns(s.activities) for s in run.steps]) if on_gpu else None,
        host_ns=environment.unprofiled.host_ns if environment else None,
        device_ns=environment.unprofiled.device_ns if environment else None,
        spread=environment.unprofiled.spread if environment else None,
        first_call_ns=environment.first_call_ns if environment else None,
        peak_memory_bytes=environment.peak_memory_bytes if environment else None,
    )


def document(profile: Profile) -> Document:
    """The report as a person reads it."""
    done = [row for row in profile.variants if row.failed is None]
    blocks: list[Block] = [
        Headline(f"{profile.device or 'CPU'} · {plural(len(done), 'variant')} profiled"),
        Sentence(profile.sentence),
        *(Note(f"{row.variant}: {row.failed}") for row in profile.variants if row.failed is not None),
        *(variant_blocks(profile.comparison) if profile.comparison else (_one_table(done),)),
    ]
    if len(done) == 1 and done[0].sentence:
        blocks.append(Sentence(done[0].sentence))
    for row in done:
        said = compile_log.beside(row.trace)
        if said:
            blocks.append(Listing(f"What torch.compile said of {row.variant}", compile_items(said)))
    blocks.append(Listing("Next", (*_reads(done), *_diffs(done))))
    return Document(tuple(blocks))


def _reads(done: Sequence[VariantRow]) -> Iterator[Item]:
    return (Item(row.variant, f"foretrace read {shlex.quote(row.trace)}") for row in done)


def _diffs(done: Sequence[VariantRow]) -> Iterator[Item]:
    """What became of the first variant in each of the others."""
    for row in done[1:]:
        traces = shlex.join((done[0].trace, row.trace))
        yield Item(f"{done[0].variant} against {row.variant}", f"foretrace diff {traces}")


def _one_table(done: Sequence[VariantRow]) -> Table:
    columns = (
        Column("variant", "variant"),
        Column("kernels", "kernels", "count"),
        Column("gpu_ns", "GPU µs", "ns"),
        Column("device_ns", "bare GPU µs", "ns"),
        Column("host_ns", "bare wall µs", "ns"),
        Column("first_call_ns", "first call µs", "ns"),
        Column("peak_memory_bytes", "peak memory", "bytes"),
    )
    return Table(columns, [asdict(row) for row in done])
