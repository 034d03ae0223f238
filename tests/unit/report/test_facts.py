"""Totals of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foretrace.report.facts import Totals, totals, trace_facts

if TYPE_CHECKING:
    from collections.abc import Callable

    from foretrace.run import Run


def test_every_total_of_overlapping_streams(built: Callable[..., Run]) -> None:
    """Kernels on two streams that overlap by 4 µs, a copy after a gap of 10, a memset whose launch is missing."""
    run = built(
        ("cuda_runtime", "cudaLaunchKernel", 0, 2, 1, {"correlation": 1}),
        ("cuda_runtime", "cudaLaunchKernel", 3, 2, 1, {"correlation": 2}),
        ("cuda_runtime", "cudaMemcpyAsync", 6, 2, 1, {"correlation": 3}),
        ("kernel", "a", 10, 10, 7, {"correlation": 1, "stream": 7, "device": 0}),
        ("kernel", "b", 16, 10, 9, {"correlation": 2, "stream": 9, "device": 0}),
        ("gpu_memcpy", "Memcpy HtoD", 36, 4, 7, {"correlation": 3, "stream": 7, "device": 0}),
        ("gpu_memset", "Memset (Device)", 40.5, 1, 7, {"correlation": 9, "stream": 7, "device": 0}),
    )
    assert totals(run) == Totals(
        kernels=2,
        copies=1,
        sets=1,
        kernel_ns=20_000,
        busy_ns=21_000,
        span_ns=31_500,
        linked=3,
        orphans=1,
        streams=2,
        overlap_ns=4_000,
        gaps=2,
        gap_ns=10_500,
        max_gap_ns=10_000,
    )


def test_one_stream_number_on_two_devices_is_two_streams(built: Callable[..., Run]) -> None:
    """Streams are counted by device and number."""
    kernels = (("kernel", "a", 0, 1, 7, {"stream": 7, "device": device}) for device in (0, 1))
    assert totals(built(*kernels)).streams == 2


def test_nothing_on_a_device_is_zero(built: Callable[..., Run]) -> None:
    """A CPU-only trace has totals of zero: that is known, not unknown."""
    assert totals(built(("cpu_op", "aten::mm", 0, 5, 1, {}))) == Totals(*[0] * 13)


def test_what_the_file_does_not_say_is_none(built: Callable[..., Run]) -> None:
    """No header: no device, rank, world size or torch version."""
    facts = trace_facts(built(("cpu_op", "aten::mm", 5, 5, 1, {})))
    assert (facts.device, facts.torch, facts.rank, facts.world_size) == (None, None, None, None)
    assert facts.base_ns == "5000"


def test_the_header_is_shown(built: Callable[..., Run]) -> None:
    """Device, rank and absolute time come from the file's own keys."""
    run = built(
        ("cpu_op", "aten::mm", 5, 5, 1, {}),
        deviceProperties=[{"id": 0, "name": "NVIDIA H100 NVL"}],
        distributedInfo={"rank": 3, "world_size": 8},
        baseTimeNanoseconds=1_712_008_155_000_000_000,
    )
    facts = trace_facts(run)
    assert (facts.device, facts.rank, facts.world_size) == ("NVIDIA H100 NVL", 3, 8)
    assert facts.base_ns == "1712008155000005000"
