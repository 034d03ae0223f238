from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from build import TraceBuilder
from mutate import mutated

from foretrace.readings import collectives

if TYPE_CHECKING:
    from collections.abc import Callable

    from foretrace.run import Run

_ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
_SAID = {"Collective name": "allreduce", "In msg nelems": 1_000, "Out msg nelems": 1_000, "dtype": "BFloat16"}


def test_exposed_time_of_the_straggler(recorded: Callable[[str], Run]) -> None:
    """All 15 all-reduces in rank 0's file are exposed for 31,141.2 µs; three have no launch in it."""
    run = recorded("ddp_straggler_rank0")
    assert int(collectives.is_collective(run).sum()) == 15
    assert collectives.exposed_ns(run) == 31_141_219
    launched = collectives.is_collective(run) & (run.activities.launch >= 0)
    assert collectives.exposed_ns(run, np.flatnonzero(launched)) == 28_572_714
    answer = collectives.answer(run)
    assert answer is not None
    assert answer.verdict == "exposed"
    assert "31.1 ms of it exposed (83.8 %; hidden by kernels and sets, not by copies)" in answer.sentence
    assert "8.39 MB take 7.18 ms and 33.6 MB 1.64 ms: the small ones wait for another rank." in answer.sentence
    assert "3 of them were launched before this file begins." in answer.sentence


def test_bytes_come_from_the_recorded_arguments(recorded: Callable[[str], Run]) -> None:
    """16,777,216 bf16 elements are 33.6 MB; a collective without arguments has no size."""
    answer = collectives.answer(recorded("ddp_straggler_rank0"))
    assert answer is not None
    sizes = sorted((row["moved_bytes"] or 0, row["count"]) for row in answer.evidence)
    assert sizes == [(0, 3), (8_388_608, 3), (25_165_824, 3), (33_554_432, 6)]


def test_kernels_hide_and_copies_do_not() -> None:
    """Of a 100 µs all-reduce 30 µs run beside a kernel and 40 µs beside a copy: 70 µs are exposed."""
    built = TraceBuilder().kernel(_ALL_REDUCE, 0, 100, launch=(0, 1), stream=17, **_SAID)
    built.kernel("gemm", 10, 30, launch=(2, 1)).copy("Memcpy DtoD (Device -> Device)", 50, 40, launch=(4, 1), bytes=8)
    run = built.run()
    assert collectives.exposed_ns(run) == 70_000
    answer = collectives.answer(run)
    assert answer is not None
    assert answer.evidence[0]["moved_bytes"] == 2_000


def test_silent_without_collectives_and_unknown_without_their_kernels(recorded: Callable[[str], Run]) -> None:
    """A run on one GPU has none; a call whose kernel is not in the file cannot be timed."""
    assert collectives.answer(recorded("mlp_64x128x768x3072_eager")) is None
    answer = collectives.answer(TraceBuilder().op("record_param_comms", 0, 10, **_SAID).run())
    assert answer is not None
    assert answer.verdict == "unknown"


def test_renamed_kernels_are_no_collectives() -> None:
    """What makes a collective is its name, not its stream."""

    def renamed(event: dict[str, Any]) -> dict[str, Any]:
        return {**event, "name": "gemm_kernel"} if event.get("name") == _ALL_REDUCE else event

    answer = collectives.answer(mutated("tp_rank0", renamed))
    assert answer is not None
    assert answer.verdict == "unknown"


@pytest.mark.parametrize(
    ("written", "word"),
    [
        ("allreduce", "all-reduce"),
        ("allreduce_coalesced", "all-reduce"),
        ("_allgather_base", "all-gather"),
        ("all_gather_into_tensor", "all-gather"),
        ("allgather_into_tensor_coalesced", "all-gather"),
        ("reduce_scatter_tensor_coalesced", "reduce-scatter"),
        ("_reduce_scatter_base", "reduce-scatter"),
        ("all_to_allv", "all-to-all"),
        ("alltoall_base", "all-to-all"),
        ("broadcast_oop", "broadcast"),
        ("barrier", "barrier"),
        ("recv", "recv"),
        (None, None),
    ],
)
def test_forms_of_one_collective_have_one_word(written: str | None, word: str | None) -> None:
    """As PyTorch's process groups write them."""
    assert collectives.kind_of(written) == word


def test_each_collective_s_exposed_time_adds_up(recorded: Callable[[str], Run]) -> None:
    """Where none overlaps another, the parts are the whole."""
    run = recorded("ddp_straggler_rank0")
    assert int(collectives.exposed_each_ns(run).sum()) == collectives.exposed_ns(run)
