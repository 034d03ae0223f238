"""Who computes which tile when a whole gated MLP runs in one kernel, and where one kernel pays.

Shape legend: M rows, K dim, N hidden. A gated tile is ``TILE`` rows of h by ``TILE`` of its columns, K deep; a tile of
the down projection is ``TILE`` rows of y by twice as many columns, N deep, and needs every gated tile of its rows.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

TILE = 128
"""Rows of a tile, and columns of a gated one."""
GROUP = 16
"""Gated tiles are numbered so many rows of tiles at a time, column by column: neighbours share weights in L2."""
# tiles of the down projection go row by row: what runs at once covers as many rows, and the weight is read once for
# them. At 4096 features 132 programs cover 8, and one kernel takes 2 to 7 % less than two; at 8192 they cover 4, and
# 2,048 rows take 3 % more.
_FEWEST_ROWS_AT_ONCE = 8
# with shorter tiles of the down projection programs may wait for h longer than they work; not measured, so not served
_SHORTEST_DOWN = 2


class Schedule(NamedTuple):
    """The shares of a kernel's programs: gated tiles first, then tiles of the down projection.

    Every program takes a gated tile in each of ``rounds`` rounds; what is left goes round all but the first ``longer``
    programs, which have one tile of the down projection more than the others. Of those the first ``longer`` are
    theirs, and the rest goes round all.
    """

    programs: int
    longer: int
    rounds: int


@lru_cache(maxsize=4096)
def schedule(rows: int, dim: int, hidden: int, programs: int) -> Schedule | None:
    """The shares that end together where one kernel pays and cannot stall, nothing elsewhere.

    The ``longer`` programs finish their last gated tile beside their first of the down projection. So no first one of
    theirs may need a last one of theirs; the other programs finish theirs before they wait for anybody.

    Args:
        rows: M.
        dim: K; a multiple of 256, because tiles that stick out cost as much as whole ones.
        hidden: N; a multiple of 128, as well because h is moved slowly where its rows do not start on 128 bytes, and at
            least twice ``dim``.
        programs: As many as run at once, one a multiprocessor.
    """
    blocks, columns, columns_down = -(-rows // TILE), hidden // TILE, dim // (2 * TILE)
    if dim % (2 * TILE) or hidden % TILE or hidden < _SHORTEST_DOWN * dim:
        return None
    if columns_down * _FEWEST_ROWS_AT_ONCE > programs:
        return None
    gated, down = blocks * columns, blocks * columns_down
    longer = (down - 1) % programs + 1
    # a tile of the down projection takes as long as hidden / dim gated ones
    rounds = -(-(gated * dim - (programs - longer) * hidden) // (programs * dim))
    first = (longer - 1) // columns_down
    needed = min((first // GROUP + 1) * GROUP, blocks) * columns
    # the last one of theirs is in the last round or, where that has none left for them, in the one before
    earliest_last = min((rounds - 1) * programs, gated - programs)
    return Schedule(programs, longer, rounds) if needed <= earliest_last else None
