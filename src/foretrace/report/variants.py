"""The variants of one target side by side: what a step costs, and what it costs to get there."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from foretrace import stats
from foretrace.diff.host import regions
from foretrace.readings import Column
from foretrace.report.document import Item, Listing, Table
from foretrace.units import duration, percent, plural, significant

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from foretrace.report.document import Block
    from foretrace.run import Run

_BASELINE = "eager"
_WITHIN_NOISE = 0.02
"""Two timings of one step differ by about this much; a smaller gain pays for nothing."""
_DISTANT = 2.0
"""An error this many times the baseline's is worth a word."""

_STEP = (
    Column("variant", "variant"),
    Column("kernels", "kernels", "count"),
    Column("gpu_ns", "GPU µs", "ns"),
    Column("cpu_ns", "CPU µs", "ns"),
    Column("wall_ns", "bare wall µs", "ns"),
    Column("device_ns", "bare GPU µs", "ns"),
    Column("peak_memory_bytes", "peak memory", "bytes"),
)
_PRICE = (
    Column("variant", "variant"),
    Column("start_up", "start-up"),
    Column("shape_1", ""),
    Column("shape_2", ""),
    Column("breaks_even", "pays after"),
    Column("max_abs_error", "max err"),
    Column("relative_error", "rel err"),
)


@dataclass(frozen=True, slots=True)
class NewShape:
    """The first calls at another shape: their cost beyond later calls, and the graphs compiled on the way."""

    what: str
    cost_ns: int | None
    recompiles: int
    failed: str | None


@dataclass(frozen=True, slots=True)
class Variant:
    """One variant; times are medians in nanoseconds, unknown is ``None``.

    Attributes:
        variant: Its name.
        kernels: Kernels a step.
        gpu_ns: GPU busy time of a step in the trace.
        cpu_ns: Host time of the step's region in the trace; the profiler slows it.
        wall_ns, device_ns: A step without the profiler, on the host's clock and on the device's.
        spread: (max − min) ÷ median of the timings behind ``wall_ns``.
        peak_memory_bytes: Most memory that the allocator held.
        first_call_ns: The first call beyond a later one: compilation and lazy initialisation.
        cache_hits: Graphs that came from a compiler's cache; above 0 the first call is no cold compile.
        new_shapes: What other shapes cost.
        break_even_calls: Calls after which its first call has paid for itself against the baseline; ``None`` for the
            baseline, for a variant that is not faster, and where it is not known.
        max_abs_error, relative_error: Against eager in fp32.
    """

    variant: str
    kernels: float | None = None
    gpu_ns: float | None = None
    cpu_ns: float | None = None
    wall_ns: int | None = None
    device_ns: int | None = None
    spread: float | None = None
    peak_memory_bytes: int | None = None
    first_call_ns: int | None = None
    cache_hits: int | None = None
    new_shapes: tuple[NewShape, ...] = ()
    break_even_calls: int | None = None
    max_abs_error: float | None = None
    relative_error: float | None = None


def variants(runs: Sequence[tuple[str, Run]]) -> tuple[Variant, ...]:
    """Compare runs of one target; the baseline is ``eager``, else the first."""
    found = [_variant(name, run) for name, run in runs]
    if not found:
        return ()
    base = next((one for one in found if one.variant == _BASELINE), found[0])
    return tuple(one if one is base else replace(one, break_even_calls=break_even(base, one)) for one in found)


def break_even(base: Variant, other: Variant) -> int | None:
    """After how many calls ``other`` has cost no more than ``base`` in all; ``None`` for never, or not known.

    n calls cost (first call beyond a later one) + n · (a later one). A gain within the spread of the timings, or within
    2 %, is none.
    """
    if None in {base.wall_ns, other.wall_ns, base.first_call_ns, other.first_call_ns}:
        return None
    assert base.wall_ns is not None and other.wall_ns is not None  # noqa: PT018 - told to the type checker
    assert base.first_call_ns is not None and other.first_call_ns is not None  # noqa: PT018 - as above
    if not _is_faster(other, base):
        return None
    return max(math.ceil((other.first_call_ns - base.first_call_ns) / (base.wall_ns - other.wall_ns)), 0)


def _is_faster(one: Variant, base: Variant) -> bool:
    """Whether a step of ``one`` is shorter by more than its own and the baseline's timings scatter."""
    if one.wall_ns is None or base.wall_ns is None:
        return False
    noise = max(_WITHIN_NOISE, one.spread or 0.0, base.spread or 0.0)
    return one.wall_ns < (1 - noise) * base.wall_ns


def _too_scattered(best: Variant, base: Variant) -> str:
    if best is base or (best.wall_ns or 0) >= (1 - _WITHIN_NOISE) * (base.wall_ns or 0):
        return ""
    scatter = percent(max(best.spread or 0.0, base.spread or 0.0), 1)
    return (
        f"; the {duration(best.wall_ns or 0)} of {best.variant} is less, but these timings scatter by {scatter}: "
        "time again while nothing else runs"
    )


def _times(one: Variant, base: Variant) -> str:
    return f"{significant((one.wall_ns or 0) / (base.wall_ns or 1), 2)}×"


def variant_blocks(found: Sequence[Variant]) -> tuple[Block, ...]:
    """Two tables, and the sentences that they lead to."""
    rows = [asdict(one) for one in found]
    whats = [shape.what for shape in next((one.new_shapes for one in found if one.new_shapes), ())]
    headers = {f"shape_{i + 1}": what for i, what in enumerate(whats)}
    price = tuple(replace(c, header=headers.get(c.key, c.header)) for c in _PRICE)
    notes = tuple(Item(text) for text in _notes(found))
    blocks: list[Block] = [
        Table(_STEP, rows, title="A step"),
        Table(price, [_price(one) for one in found], title="What it costs"),
    ]
    if notes:
        blocks.append(Listing("Worth knowing", notes))
    return tuple(blocks)


def verdict(found: Sequence[Variant]) -> str | None:
    """Which variant is the fastest without the profiler, and from which call on."""
    timed = [one for one in found if one.wall_ns is not None]
    if len(timed) < 2:  # noqa: PLR2004 - one is no comparison
        return None
    base = next((one for one in timed if one.variant == _BASELINE), timed[0])
    best = min(timed, key=lambda one: one.wall_ns or 0)
    if not _is_faster(best, base):
        slower = [f"{one.variant} takes {_times(one, base)} as long" for one in timed if _is_faster(base, one)]
        more = f"; {', '.join(slower)}" if slower else _too_scattered(best, base)
        return f"Nothing clearly beats {base.variant} without the profiler: {duration(base.wall_ns or 0)} a step{more}."
    text = (
        f"Without the profiler {best.variant} is the fastest: {duration(best.wall_ns or 0)} a step against "
        f"{duration(base.wall_ns or 0)} of {base.variant}"
    )
    if best.break_even_calls is not None:
        text += f"; its first call has paid for itself after {plural(best.break_even_calls, 'call')}"
    return f"{text}."


def _variant(name: str, run: Run) -> Variant:
    environment, on_gpu = run.environment, len(run.activities) > 0
    one = Variant(
        name,
        kernels=stats.median([len(run.kernels(s.activities)) for s in run.steps]) if on_gpu else None,
        gpu_ns=stats.median([run.busy_ns(s.activities) for s in run.steps]) if on_gpu else None,
        cpu_ns=_cpu_ns(run),
    )
    if environment is None:
        return one
    wall, first = environment.unprofiled.host_ns, environment.first_call_ns
    numerics = environment.numerics
    return replace(
        one,
        wall_ns=wall,
        device_ns=environment.unprofiled.device_ns,
        spread=environment.unprofiled.spread,
        peak_memory_bytes=environment.peak_memory_bytes,
        first_call_ns=None if first is None or wall is None else max(first - wall, 0),
        cache_hits=environment.compile_cache_hits,
        new_shapes=tuple(NewShape(s.what, s.cost_ns, s.recompiles, s.failed) for s in environment.new_shapes),
        max_abs_error=numerics.max_abs_error if numerics else None,
        relative_error=numerics.relative_error if numerics else None,
    )


def _cpu_ns(run: Run) -> float | None:
    """Host time of the region that capture put around each step."""
    name = run.environment.region if run.environment else None
    return next((region.before_host_ns for region in regions(run, run) if region.name == name), None)


def _price(one: Variant) -> dict[str, Any]:
    row: dict[str, Any] = {"variant": one.variant}
    if one.first_call_ns is not None:
        row["start_up"] = duration(one.first_call_ns)
    for number, shape in enumerate(one.new_shapes, 1):
        row[f"shape_{number}"] = _shape(shape)
    if one.break_even_calls is not None:
        row["breaks_even"] = plural(one.break_even_calls, "call")
    for key in ("max_abs_error", "relative_error"):
        value = getattr(one, key)
        row[key] = None if value is None else _error(value)
    return row


def _shape(shape: NewShape) -> str:
    if shape.cost_ns is None:
        return "failed"
    graphs = f", {plural(shape.recompiles, 'recompile')}" if shape.recompiles else ""
    return f"{duration(shape.cost_ns)}{graphs}"


def _error(value: float) -> str:
    """``0.0039``; exponents below a thousandth: errors span many powers of ten."""
    return f"{value:.1e}" if value and abs(value) < 1e-3 else significant(value, 2)  # noqa: PLR2004 - as said


def _notes(found: Sequence[Variant]) -> Iterator[str]:
    base = next((one for one in found if one.variant == _BASELINE), None)
    for one in found:
        if one.cache_hits:
            yield f"{one.variant}: {plural(one.cache_hits, 'graph')} came from a cache; a cold compile is slower."
        failed = next((shape for shape in one.new_shapes if shape.failed), None)
        if failed:
            yield f"{one.variant} does not run with {failed.what}: {failed.failed}"
        if base and one is not base and base.relative_error and one.relative_error:
            times = one.relative_error / base.relative_error
            if times > _DISTANT:
                yield f"{one.variant} is {significant(times, 2)} times as far from fp32 as {base.variant}."
