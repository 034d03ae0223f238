"""Time a piece of work without the profiler: the host's clock around it, and the device's own.

The work is whatever the consumer of these generators does between two of their values, so a `for` loop's body can
be timed as well as a call. Each generator returns its samples in nanoseconds per run of the body. `side_by_side` times
two calls in turns.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import torch

from foretrace import stats

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    Synchronize: TypeAlias = Callable[[], None]
    Samples: TypeAlias = Generator[None, None, tuple[float, ...]]

_Sample = TypeVar("_Sample", int, float)

BLOCKS = 10
BLOCK_NS = 20_000_000
"""Ten blocks of about 20 ms: 0.2 s in all, and a block's two synchronizes weigh below 1 % of it."""
FEWEST_BLOCKS = 3
MOST_IN_A_BLOCK = 1_000
DEVICE_CALLS = 50
CYCLES_PER_NS = 2
"""Spin cycles for a nanosecond of head start; a clock below 2 GHz makes it longer, which does no harm."""
LONGEST_HEAD_START_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Timing:
    """What one run of the body takes, without the profiler.

    Attributes:
        host_ns: Wall time of a run, back to back with others and one synchronize after each block; the median
            over the blocks. It is the larger of what the host needs to issue the work and what the device
            needs to do it.
        device_ns: Time between two events on the device's stream around a run, the median over runs. The device
            is kept busy until the host has issued the run, so the host's slowness is not in it, unless the run
            waits for the device itself or launches more than a stream can queue (about 1,000 kernels).
            ``None`` on the CPU, and on accelerators that cannot be given such a head start.
        calls: Runs behind ``host_ns``.
        spread: (max − min) ÷ median of the blocks behind ``host_ns``; ``None`` below two blocks.
    """

    host_ns: int
    device_ns: int | None
    calls: int
    spread: float | None


def one_call(synchronize: Synchronize) -> Generator[None, None, int]:
    """Time a single run to its end on the device."""
    synchronize()
    start = time.perf_counter_ns()
    yield
    synchronize()
    return time.perf_counter_ns() - start


def host_blocks(call_ns: int, synchronize: Synchronize) -> Samples:
    """Time blocks of runs with the host's clock.

    Args:
        call_ns: What a run takes, roughly; it decides how many make a block.
        synchronize: Waits for the device.

    Returns:
        The mean nanoseconds of a run in each block: ten blocks, or fewer (at least three) once 0.2 s have passed.
    """
    size = calls_in_a_block(call_ns)
    samples: list[float] = []
    for _ in _repeats(BLOCKS):
        samples.append((yield from _block(size, synchronize)))  # noqa: PERF401 - a comprehension cannot yield
    return tuple(samples)


def _repeats(most: int, *, of: int = 1) -> Iterator[int]:
    """``most`` times, or fewer (at least three) once 0.2 s have passed for each ``of`` those who take turns."""
    begin = time.perf_counter_ns()
    for turn in range(most):
        if turn >= FEWEST_BLOCKS and time.perf_counter_ns() - begin >= of * BLOCKS * BLOCK_NS:
            return
        yield turn


def _block(size: int, synchronize: Synchronize) -> Generator[None, None, float]:
    synchronize()
    start = time.perf_counter_ns()
    for _ in range(size):
        yield
    synchronize()
    return (time.perf_counter_ns() - start) / size


def device_calls(call_ns: int, device: torch.device) -> Samples:
    """Time single runs with the device's clock, each behind a spinning kernel that gives the host its head start.

    Args:
        call_ns: What a run takes on the host's clock; the head start is as long.
        device: Where the runs happen; only CUDA devices can spin.

    Returns:
        Nanoseconds between the events around each run: up to 50 runs in about 0.2 s, at least three; none when
        the device cannot spin.
    """
    if not _can_spin(device):
        return ()
    samples: list[float] = []
    for _ in _repeats(DEVICE_CALLS):
        samples.append((yield from _behind_a_spin(call_ns, device)))  # noqa: PERF401 - as above
    return tuple(samples)


def _can_spin(device: torch.device) -> bool:
    return device.type == "cuda" and hasattr(torch.cuda, "_sleep")  # private; PyTorch's own tests rely on it


def _behind_a_spin(call_ns: int, device: torch.device) -> Generator[None, None, float]:
    stream = torch.cuda.current_stream(device)
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    with torch.cuda.device(device):
        torch.cuda._sleep(min(call_ns, LONGEST_HEAD_START_NS) * CYCLES_PER_NS)  # type: ignore[no-untyped-call] # noqa: SLF001
    start.record(stream)
    yield
    end.record(stream)
    end.synchronize()
    return float(start.elapsed_time(end) * 1e6)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two calls timed side by side.

    Attributes:
        before, after: The `Timing` of each.
        host, device: What the second takes of the first's time, turn by turn, by either clock; ``device`` is ``None``
            where the device has none to offer.
    """

    before: Timing
    after: Timing
    host: stats.Ratio | None
    device: stats.Ratio | None


def side_by_side(
    before: Callable[[], object],
    after: Callable[[], object],
    device: torch.device,
    synchronize: Synchronize,
    prepare: Callable[[bool], object] = lambda _after: None,
) -> Pair:
    """Time two calls in turns, a block of each: a device at its power limit slows down while it works.

    Measured one after the other, the first after a pause wins up to 10 % on an H200.

    Args:
        before: One call.
        after: The other.
        device: Where they run.
        synchronize: Waits for it.
        prepare: Called ahead of each block, outside its time, with whether ``after`` comes next.
    """
    calls = (before, after)
    warm: list[int] = []
    for which, call in enumerate(calls):
        prepare(bool(which))
        warm.append(min(_run(one_call(synchronize), call) for _ in range(FEWEST_BLOCKS)))
    blocks: tuple[list[float], list[float]] = [], []
    runs: tuple[list[float], list[float]] = [], []
    for turn in _repeats(BLOCKS, of=len(calls)):
        for which in _order(turn):
            prepare(bool(which))
            blocks[which].append(_run(_block(calls_in_a_block(warm[which]), synchronize), calls[which]))
    for turn in _repeats(DEVICE_CALLS if _can_spin(device) else 0, of=len(calls)):
        for which in _order(turn):
            prepare(bool(which))
            runs[which].append(_run(_behind_a_spin(warm[which], device), calls[which]))
    one, other = (summary(tuple(b), tuple(r), ns) for b, r, ns in zip(blocks, runs, warm, strict=True))
    return Pair(one, other, stats.ratio(blocks[1], blocks[0]), stats.ratio(runs[1], runs[0]))


def _order(turn: int) -> tuple[int, int]:
    """Who comes first changes from turn to turn."""
    return (1, 0) if turn % 2 else (0, 1)


def _run(samples: Generator[None, None, _Sample], call: Callable[[], object]) -> _Sample:
    """Run ``call`` once for every value of a generator; what the generator returns."""
    while True:
        try:
            next(samples)
        except StopIteration as end:
            value: _Sample = end.value
            return value
        call()


def calls_in_a_block(call_ns: int) -> int:
    """How many runs of ``call_ns`` make a block of about 20 ms: from 1 to 1,000."""
    return max(1, min(BLOCK_NS // max(call_ns, 1), MOST_IN_A_BLOCK))


def summary(blocks: tuple[float, ...], device: tuple[float, ...], call_ns: int) -> Timing:
    """One `Timing` from the samples of `host_blocks` and `device_calls` for the same ``call_ns``."""
    host_ns, device_ns = stats.median(blocks), stats.median(device)
    assert host_ns is not None, "host_blocks never returns nothing"
    return Timing(
        host_ns=round(host_ns),
        device_ns=None if device_ns is None else round(device_ns),
        calls=len(blocks) * calls_in_a_block(call_ns),
        spread=stats.spread(blocks),
    )
