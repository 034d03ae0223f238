"""Why are there two kinds of GEMM kernel? Shapes, tiles, stages and waves of every matrix product."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from foretrace.names.explain import gemm_tile_MN
from foretrace.ops import SEVERAL_PRODUCTS
from foretrace.readings.base import Answer, Column, Reading
from foretrace.readings.costs import costs
from foretrace.readings.helpers import helpers
from foretrace.readings.lines import a_period, event, lines, longest
from foretrace.readings.pointers import product_shape
from foretrace.readings.roofline import Rates, rates
from foretrace.units import duration, flop_rate, percent, plural, significant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foretrace.readings.lines import Line
    from foretrace.run import Run

ASK = "Why are there two kinds of GEMM kernel?"

EVEN = 0.01
"""Rates closer than this are told as the same."""
FULLER = 0.05
"""Share of the SMs' slots by which one tiling must beat another to be a reason."""

_COLUMNS = (
    Column("kernel", "kernel"),
    Column("product", "M×K · K×N"),
    Column("flops", "FLOPs each", "flops"),
    Column("count", "a step", "count"),
    Column("mean_ns", "µs a step", "ns"),
    Column("tile", "tile", spare=True),
    Column("stages", "stages", "count", spare=True),
    Column("waves", "waves", "ratio", spare=True),
    Column("flops_per_s", "FLOP/s", "flop_rate"),
    Column("of_limit", "of peak", "share"),
)

# Positions of the two operands among an op's arguments, and whether the second is stored [N, K].
_OPERANDS = {
    "aten::mm": (0, 1, False),
    "aten::bmm": (0, 1, False),
    "aten::_int_mm": (0, 1, False),
    "aten::_scaled_mm": (0, 1, False),
    "aten::addmm": (1, 2, False),
    "aten::addmm_": (1, 2, False),
    "aten::_addmm_activation": (1, 2, False),
    "aten::baddbmm": (1, 2, False),
    "aten::baddbmm_": (1, 2, False),
    "aten::linear": (0, 1, True),
    "foretrace::gated_forward": (0, 1, True),
    "foretrace::gate_up": (0, 1, True),
    "foretrace::gated_backward": (0, 1, False),
}
_SIDE_BY_SIDE = {"foretrace::gated_forward": 2, "foretrace::gate_up": 2}
"""How many right operands of one size an op takes as one."""


@dataclass(frozen=True, slots=True)
class Product:
    """One matrix product and the kernel that does it.

    Attributes:
        rates: The line of the kernel with what it achieved.
        batch, m, n, k: Sizes of the row-major product; ``None`` where the file does not say.
        tile: Rows and columns of the output that one block computes.
        waves: Tiles over SMs: how often the device is filled, the last time in part.
        helpers: Activities that help the line's kernels; `rates` count their time.
    """

    rates: Rates
    batch: int | None
    m: int | None
    n: int | None
    k: int | None
    tile: tuple[int, int] | None
    waves: float | None
    helpers: tuple[int, ...]

    @property
    def line(self) -> Line:
        """The line of the kernel."""
        return self.rates.line

    @property
    def dtype(self) -> str | None:
        """Short type of the operands, as the peak is looked up by."""
        return self.rates.cost.dtype

    def tiles(self, tile: tuple[int, int]) -> int | None:
        """How many tiles of that size cover the output."""
        if self.m is None or self.n is None or self.batch is None:
            return None
        return self.batch * math.ceil(self.m / tile[0]) * math.ceil(self.n / tile[1])


def answer(run: Run) -> Answer | None:
    """The table of products and, where kernels differ, what differs; ``None`` without a kernel that does one GEMM."""
    gemms = [line for line in lines(run) if line.identity.op_class == "gemm" and line.op not in SEVERAL_PRODUCTS]
    products = [_product(run, line) for line in gemms]
    if not products:
        return None
    shown = longest([product.line for product in products])
    rows = tuple(_row(run, product) for product in products if product.line in shown)
    sentence, verdict = _sentence(run, products)
    return Answer("gemm_choice", ASK, sentence, verdict, rows, _COLUMNS)


def _product(run: Run, line: Line) -> Product:
    batch, m, n, k = _sizes(run, line) or (None, None, None, None)
    tile = gemm_tile_MN(line.identity)
    helping = helpers(run)
    beside = tuple(helper for kernel in line.activities for helper in helping.get(kernel, ()))
    product = Product(rates(run, line, beside), batch, m, n, k, tile, None, beside)
    tiles = product.tiles(tile) if tile else None
    sms = run.device.sms if run.device else None
    return replace(product, waves=tiles / sms if tiles and sms else None)


def _sizes(run: Run, line: Line) -> tuple[int, int, int, int] | None:
    """(batch, M, N, K) from the op's recorded shapes, or as concluded for a kernel in a graph."""
    group = line.groups[0]
    concluded = costs(run).sizes.get(line.activities[0])
    if concluded is not None:
        return 1, *concluded
    if line.identity.family == "inductor":
        return product_shape(line.identity, group.shapes, group.dtypes)
    operands = _OPERANDS.get(line.op or "")
    if operands is None or not isinstance(group.shapes, list) or len(group.shapes) <= operands[1]:
        return None
    left, right = group.shapes[operands[0]], group.shapes[operands[1]]
    if len(left) < 2 or len(right) < 2:  # noqa: PLR2004 - matrices
        return None
    batched = len(right) > 2  # noqa: PLR2004 - matrices
    batch = math.prod(left[:-2]) if batched else 1
    rows = left[-2] if batched else math.prod(left[:-1])
    columns = right[-2 if operands[2] else -1] * _SIDE_BY_SIDE.get(line.op or "", 1)
    return batch, rows, columns, left[-1]


def _sentence(run: Run, products: Sequence[Product]) -> tuple[str, str | None]:
    known = [p for p in products if p.m is not None]
    kinds = {p.line.identity.name for p in products}
    amount = f"{plural(len(products), 'matrix product')} in {plural(len(kinds), 'kind')} of kernel"
    if not known:  # without shapes a line may hold many different products
        launched = round(sum(p.line.count for p in products))
        some = f"{plural(launched, 'matrix product')} {a_period(run)} in {plural(len(kinds), 'kind')} of kernel"
        return f"{some}; why is unknown: no shapes are recorded for them.", "unknown"
    if len(products) == 1:
        launched = round(known[0].line.count)
        several = f"{launched} matrix products of one shape {a_period(run)}"
        head = several if launched > 1 else "One matrix product"
        return f"{head}, one kernel: {_told(known[0])}.", None
    if len(kinds) == 1:
        return f"{amount}: {_told(known[0])}. One kernel serves every shape here.", None
    pair = _most_alike(known)
    if pair is None:
        return f"{amount}: the library chooses by shape, {_told(known[0])}, for one.", None
    return f"{_compared(run, *pair)}", None


def _most_alike(products: Sequence[Product]) -> tuple[Product, Product] | None:
    """Two products done by different kernels, of the same FLOPs if there are such, the largest first."""
    ordered = sorted(products, key=lambda p: -p.line.total_ns)
    pairs = [(a, b) for i, a in enumerate(ordered) for b in ordered[i + 1 :] if a.line.identity != b.line.identity]
    same = [(a, b) for a, b in pairs if a.rates.cost.flops == b.rates.cost.flops and a.dtype == b.dtype]
    retiled = [(a, b) for a, b in same if a.tile != b.tile]
    return next(iter(retiled or same or pairs), None)


def _told(p: Product) -> str:
    """``[M, K]×[K, N] gets a 256×128 tile``."""
    return f"{_written(p)} gets {_tile(p)}"


def _tile(p: Product) -> str:
    tile = f"a {_named(p)} tile" if p.tile else p.line.identity.short
    return f"{tile}, split along K" if p.line.identity.split_k else tile


def _named(p: Product) -> str:
    """The tile as the kernel's name spells it, which for a column-major library is N×M."""
    tile = p.line.identity.tile
    return f"{tile[0]}×{tile[1]}" if tile else "?"


def _written(p: Product) -> str:
    batch = f"{p.batch}×" if p.batch and p.batch > 1 else ""
    return f"{batch}[{p.m}, {p.k}]×[{p.k}, {p.n}]"


def _compared(run: Run, one: Product, other: Product) -> str:
    same = one.rates.cost.flops == other.rates.cost.flops
    retyped = None not in (one.dtype, other.dtype) and one.dtype != other.dtype
    head = "Same FLOPs, two kernels" if same else "Different shapes, different kernels"
    head = "Different types, different kernels" if retyped else head
    slow, fast = (other, one) if _speed(one) >= _speed(other) else (one, other)
    gain = _speed(fast) / _speed(slow) - 1 if _speed(slow) else 0.0
    same_rate = f", both at about {flop_rate(_speed(fast), 1e9)}" if _speed(fast) else ""
    faster = f", at a rate {percent(gain, 1)} higher" if gain >= EVEN else same_rate
    every = (_split_reason(run, one, other), _wave_reason(run, slow, fast), _depth_reason(slow, fast))
    reasons = [reason for reason in every if reason] or _other_reason(run, one, other)
    why = f" {' '.join(reasons)}" if reasons else " Why the library chose so is not in the trace."
    if retyped:
        return f"{head}: {_told(slow)} in {slow.dtype}, {_told(fast)} in {fast.dtype}{faster}."
    if _written(slow) == _written(fast):
        return f"Same product, two kernels: {_told(slow)}, elsewhere {_tile(fast)}{faster}.{why}"
    return f"{head}: {_told(slow)}, {_told(fast)}{faster}.{why}"


def _speed(p: Product) -> float:
    return p.rates.flops_per_s or 0.0


def _wave_reason(run: Run, slow: Product, fast: Product) -> str | None:
    """What the other's tile would have done to this output's last wave."""
    sms = run.device.sms if run.device else None
    if not sms or fast.tile is None or slow.tile is None or fast.tile == slow.tile:
        return None
    for mine, theirs in ((fast, slow), (slow, fast)):
        assert mine.tile is not None
        assert theirs.tile is not None
        own, others = mine.tiles(mine.tile), mine.tiles(theirs.tile)
        if own and others and _filled(own, sms) > _filled(others, sms) + FULLER:
            if max(own, others) <= sms:
                return (
                    f"On {mine.m}×{mine.n} outputs {_named(mine)} tiles keep {own} of {sms} SMs busy where "
                    f"{_named(theirs)} tiles would keep {others}."
                )
            return (
                f"On {mine.m}×{mine.n} outputs {_named(mine)} tiles fill {significant(own / sms)} waves of {sms} SMs "
                f"where {_named(theirs)} tiles would fill {significant(others / sms)}: less of the last wave idles."
            )
    return None


def _split_reason(run: Run, one: Product, other: Product) -> str | None:
    """Why one of them divides K over blocks."""
    split = next((p for p in (one, other) if p.line.identity.split_k), None)
    tiles = split.tiles(split.tile) if split and split.tile else None
    sms = run.device.sms if run.device else None
    if split is None or tiles is None or sms is None or tiles >= sms:
        return None
    return (
        f"{split.m}×{split.n} outputs are only {plural(tiles, 'tile')} for {sms} SMs while K = {split.k} is "
        f"long, so the library splits K over more blocks and adds the parts up{_adding(run, split)}."
    )


def _adding(run: Run, split: Product) -> str:
    """`` in a kernel of its own, whose 4.37 µs a step count here``."""
    spent = _helpers_ns(run, split)
    return f" in a kernel of its own, whose {duration(spent)} {a_period(run)} count here" if spent else ""


def _helpers_ns(run: Run, p: Product) -> float:
    """Time of the product's helpers per period that has the product."""
    index = list(p.helpers)
    spent = int((run.activities.end_ns[index] - run.activities.start_ns[index]).sum())
    return spent * p.line.mean_ns / p.line.total_ns if p.line.total_ns else 0.0


def _other_reason(run: Run, one: Product, other: Product) -> list[str]:
    if all(p.line.identity.family == "inductor" for p in (one, other)):
        return ["Inductor's autotuner timed its candidates for each and kept these."]
    differently = "Their operands lie differently in memory"
    layouts = [p.line.identity.layout for p in (one, other)]
    if None not in layouts and layouts[0] != layouts[1]:
        return [f"{differently} (layouts {layouts[0]} and {layouts[1]})."]
    strides = [_strides(run, p) for p in (one, other)]
    if None in strides or strides[0] == strides[1] or _written(one) != _written(other):
        return []
    return [f"{differently} (strides {strides[0]} and {strides[1]})."]


def _strides(run: Run, p: Product) -> str | None:
    """``[1024, 1]×[1, 1024]``: the recorded strides of both operands."""
    operands, recorded = (
        _OPERANDS.get(p.line.op or ""),
        run.op_argument(run.activities.op[p.line.activities[0]], "strides"),
    )
    if operands is None or not isinstance(recorded, list) or len(recorded) <= operands[1]:
        return None
    return f"{recorded[operands[0]]}×{recorded[operands[1]]}"


def _filled(tiles: int, sms: int) -> float:
    """Share of the SMs' slots in use over all waves."""
    return tiles / (math.ceil(tiles / sms) * sms)


def _depth_reason(slow: Product, fast: Product) -> str | None:
    """How long each tile's loop over K is: filling and draining the pipeline weighs less on a long one."""
    depths = [
        p.k / p.line.identity.tile[2] if p.k and p.line.identity.tile and p.line.identity.tile[2] else None
        for p in (slow, fast)
    ]
    if depths[0] is None or depths[1] is None or depths[1] < 2 * depths[0]:
        return None
    steps = [f"{math.ceil(depth)}" for depth in (depths[1], depths[0])]
    return (
        f"Each of the faster one's tiles runs {steps[0]} K steps against {steps[1]}, so that filling and draining the "
        "pipeline weighs less."
    )


def _and_helpers(run: Run, p: Product) -> str:
    names = dict.fromkeys(run.identity(helper).short for helper in p.helpers)
    return "".join(f" + {name}" for name in names)


def _row(run: Run, p: Product) -> dict[str, Any]:
    return {
        "kernel": f"{p.line.identity.short}{_and_helpers(run, p)}",
        "name": p.line.groups[0].name,
        "op": p.line.op,
        "product": _written(p) if p.m is not None else None,
        "batch": p.batch,
        "m": p.m,
        "k": p.k,
        "n": p.n,
        "flops": p.rates.cost.flops,
        "tile": _named(p) if p.line.identity.tile else None,
        "tile_mn": list(p.tile) if p.tile else None,
        "stages": p.line.identity.stages,
        "waves": p.waves,
        "count": p.line.count,
        "mean_ns": round(p.line.mean_ns + _helpers_ns(run, p)),
        "helper_ns": round(_helpers_ns(run, p)),
        "flops_per_s": p.rates.flops_per_s,
        "of_limit": p.rates.of_limit,
        "work": "inferred" if p.rates.cost.inferred else "recorded",
        "event": event(run, p.line.activities[0]),
    }


READING = Reading("gemm_choice", ASK, answer)
