"""The many-way comparison: break-even, verdict, and tables that say what failed."""

from __future__ import annotations

import pytest

from foretrace.render.to_terminal import to_terminal
from foretrace.report.document import Document
from foretrace.report.variants import NewShape, Variant, break_even, variant_blocks, verdict

EAGER = Variant("eager", wall_ns=250_000, first_call_ns=50_000_000, relative_error=0.004)


def _compiled(wall_ns: int, first_call_ns: int = 10_050_000_000, spread: float | None = None) -> Variant:
    return Variant("compile", wall_ns=wall_ns, first_call_ns=first_call_ns, spread=spread)


def test_ten_seconds_of_compiling_pay_after_so_many_calls() -> None:
    """10 s more at the start, 50 µs less a call: 200,000 calls; a part of a call is a whole one."""
    assert break_even(EAGER, _compiled(200_000)) == 200_000
    assert break_even(EAGER, _compiled(200_000, 50_000_001)) == 1
    assert break_even(EAGER, _compiled(200_000, 10_000_000)) == 0


@pytest.mark.parametrize("wall_ns", [250_000, 300_000, 246_000])
def test_what_is_not_faster_never_pays(wall_ns: int) -> None:
    """Equal, slower, or faster by less than 2 %."""
    assert break_even(EAGER, _compiled(wall_ns)) is None


def test_a_gain_within_the_spread_of_the_timings_is_none() -> None:
    """10 % faster with blocks that scatter by 15 % may be no faster at all."""
    assert break_even(EAGER, _compiled(225_000, spread=0.15)) is None
    assert break_even(EAGER, _compiled(225_000, spread=0.05)) == 400_000


def test_what_is_not_known_stays_unknown() -> None:
    """Without a timing or a first call there is no break-even."""
    assert break_even(EAGER, Variant("compile", wall_ns=1)) is None
    assert break_even(Variant("eager"), _compiled(1)) is None


def test_the_verdict_names_the_fastest_and_its_price() -> None:
    """One sentence; where nothing is clearly faster it says so; one variant alone is no comparison."""
    paid = Variant("compile", wall_ns=200_000, first_call_ns=10_050_000_000, break_even_calls=200_000)
    assert verdict([EAGER, paid]) == (
        "Without the profiler compile is the fastest: 200 µs a step against 250 µs of eager; "
        "its first call has paid for itself after 200,000 calls."
    )
    assert verdict([EAGER, _compiled(249_000)]) == "Nothing clearly beats eager without the profiler: 250 µs a step."
    assert verdict([EAGER, _compiled(200_000, spread=0.3)]) == (
        "Nothing clearly beats eager without the profiler: 250 µs a step; the 200 µs of compile is less, but these "
        "timings scatter by 30.0 %: time again while nothing else runs."
    )
    assert verdict([EAGER]) is None


def test_the_tables_say_what_each_variant_costs() -> None:
    """New shapes are headed by what was changed; a failure, a cache and a large error are put in words."""
    shapes = (
        NewShape("batch 64 → 32", 7_020_000_000, 1, None),
        NewShape("sequence 128 → 64", None, 0, "ValueError: no"),
    )
    compiled = Variant(
        "compile", kernels=4, gpu_ns=206_047, new_shapes=shapes, cache_hits=2, relative_error=0.02, max_abs_error=1e-5
    )
    text = to_terminal(Document(variant_blocks([EAGER, compiled])), width=100)
    assert "batch 64 → 32" in text
    assert "7.02 s, 1 recompile" in text
    assert "compile does not run with sequence 128 → 64: ValueError: no" in text
    assert "compile: 2 graphs came from a cache; a cold compile is slower." in text
    assert "compile is 5.0 times as far from fp32 as eager." in text
    assert "1.0e-05" in text
