"""One kernel for a whole gated MLP: every tile once, no program ever waits for one that waits for it, shares alike."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from foretrace.fused import paths
from foretrace.fused.schedule import GROUP, TILE, Schedule, schedule
from foretrace.fused.weights import Weights

H200 = 132


def _gated(order: Schedule, tiles: int, program: int) -> list[int]:
    """The gated tiles of a program, as ``Schedule`` says."""
    rounds = [i * order.programs + program for i in range(order.rounds)]
    others = order.programs - order.longer
    rest = range(order.rounds * order.programs + program - order.longer, tiles, others) if others else ()
    return [tile for tile in (*rounds, *(rest if program >= order.longer else ())) if tile < tiles]


def _down(order: Schedule, tiles: int, program: int) -> list[int]:
    """Its tiles of the down projection."""
    first = [program] if program < order.longer else []
    return [*first, *range(order.longer + program, tiles, order.programs)]


def _block(tile: int, blocks: int, columns: int) -> int:
    """The row of tiles that a gated tile belongs to."""
    first = tile // (GROUP * columns) * GROUP
    return first + tile % (GROUP * columns) % min(blocks - first, GROUP)


def _run(order: Schedule, blocks: int, columns: int, columns_down: int) -> bool:
    """Let all programs go as far as they can, again and again; whether all of them come to their end."""
    counted: Counter[int] = Counter()
    waiting = []
    for program in range(order.programs):
        mine = _gated(order, blocks * columns, program)
        waiting.append((program, mine, _down(order, blocks * columns_down, program)))
        # the last is counted at once, or, where there is one tile more to come, beside that
        counted.update(_block(tile, blocks, columns) for tile in mine[:-1])
        if program >= order.longer:
            counted[_block(mine[-1], blocks, columns)] += 1
    moved = True
    while moved:
        moved = False
        for program, mine, down in waiting:
            while down and counted[down[0] // columns_down] == columns:
                moved = True
                down.pop(0)
                if program < order.longer and mine:
                    counted[_block(mine[-1], blocks, columns)] += 1
                    mine.clear()
    return not any(down for _, _, down in waiting)


@given(
    rows=st.one_of(st.integers(1, 6_000), st.integers(1, 40_000)),
    dim=st.integers(1, 16).map(lambda k: 256 * k),
    hidden=st.integers(16, 160).map(lambda n: 128 * n),
    programs=st.integers(24, 160),
)
@example(rows=2176, dim=3840, hidden=15360, programs=132)  # where the last round has nothing left for some programs
@example(rows=4096, dim=2048, hidden=4096, programs=132)
def test_every_tile_once_and_nobody_stalls(rows: int, dim: int, hidden: int, programs: int) -> None:
    """Whatever the sizes, where there is a schedule."""
    order = schedule(rows, dim, hidden, programs)
    if order is None:
        return
    blocks, columns, columns_down = -(-rows // TILE), hidden // TILE, dim // (2 * TILE)
    gated, down = blocks * columns, blocks * columns_down
    everyone = range(order.programs)
    assert sorted(t for p in everyone for t in _gated(order, gated, p)) == list(range(gated))
    assert sorted(t for p in everyone for t in _down(order, down, p)) == list(range(down))
    assert all(len(_down(order, down, p)) == (down - 1) // programs + (p < order.longer) for p in everyone)
    assert _run(order, blocks, columns, columns_down)


@pytest.mark.parametrize(
    ("shape", "served"),
    [
        ((8192, 768, 3072), True),
        ((8155, 768, 3072), True),
        ((4096, 2048, 16384), True),
        ((8192, 4096, 14336), True),
        ((4096, 768, 3072), False),  # all the gated tiles are needed before the first of the down projection
        ((2048, 4096, 14336), False),
        ((8192, 8192, 28672), False),  # measured: 3 % slower
        ((8192, 800, 3072), False),
        ((8192, 768, 3080), False),  # measured: 3 % slower
        ((1, 768, 3072), False),
        ((3072, 4096, 1024), False),  # a rank's share, not measured
    ],
)
def test_where_one_kernel_pays_on_an_h200(shape: tuple[int, int, int], served: bool) -> None:  # noqa: FBT001 - a table
    """Many rows, whole tiles, and at most 4,096 features."""
    assert (schedule(*shape, H200) is not None) == served


def test_the_shares_at_the_articles_shape() -> None:
    """60 programs take 10 gated tiles and 2 of four times their length, the other 72 take 13 and 1: 18 and 17."""
    order = schedule(8192, 768, 3072, H200)
    assert order == Schedule(H200, longer=60, rounds=10)
    lengths = {len(_gated(order, 1536, p)) + 4 * len(_down(order, 192, p)) for p in range(H200)}
    assert lengths == {17, 18}


def test_which_calls_take_one_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not where processes communicate."""
    monkeypatch.setattr(paths, "multiprocessors", lambda _device: H200)
    x, gate, down = torch.empty(8192, 768), torch.empty(3072, 768), torch.empty(768, 3072)
    weights = Weights(gate, gate, down)
    assert paths.in_one_kernel(x, weights) is not None
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        assert paths.in_one_kernel(x, weights) is None
    finally:
        torch.distributed.destroy_process_group()
