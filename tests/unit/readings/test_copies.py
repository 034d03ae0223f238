from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from build import TraceBuilder
from mutate import mutated

from foretrace.readings import bound, copies

if TYPE_CHECKING:
    from collections.abc import Callable

    from foretrace.run import Run


def test_pageable_copy_and_scalar(recorded: Callable[[str], Run]) -> None:
    """A pageable copy is told with its rate and its share of the link, a scalar without one."""
    answer = copies.answer(recorded("mlp_sync_and_pageable_copy"))
    assert answer is not None
    assert answer.verdict == "pageable"
    assert answer.sentence.startswith(
        "1× a step 4.19 MB from pageable host memory to device, 248 µs each (16.9 GB/s, 26.4 % of the link), 83.5 % "
        "of GPU busy; "
    )
    to_device, to_host = answer.evidence
    assert (to_device["moved_bytes"], to_device["held_ns"], to_device["total_ns"]) == (4_194_304, 339_061, 744_472)
    assert (to_host["moved_bytes"], to_host["of_link"]) == (4, None)
    assert answer.advice is not None
    assert answer.advice.saves_ns == 329_875
    assert "if the host buffer is reused" in answer.advice.text


def test_pinned_copies_get_no_advice() -> None:
    """The same copy from pinned memory is not advised on."""

    def pinned(event: dict[str, Any]) -> dict[str, Any]:
        return {**event, "name": event["name"].replace("Pageable", "Pinned")} if "name" in event else event

    answer = copies.answer(mutated("mlp_sync_and_pageable_copy", pinned))
    assert answer is not None
    assert answer.verdict == "pinned"
    assert answer.advice is None


def test_copies_on_the_device_do_not_cross_the_link(recorded: Callable[[str], Run]) -> None:
    """DDP's bucket copies stay on the device."""
    answer = copies.answer(recorded("ddp_rank1"))
    assert answer is not None
    assert answer.verdict == "on-device"
    assert answer.sentence.startswith(
        "Nothing crosses the link to the host. 12× a step 8.39 MB on the device, 5.57 µs each (3.01 TB/s, read and "
        "written)"  # 2 × 8,388,608 bytes in 5.568 µs
    )


def test_no_share_of_an_unknown_link() -> None:
    """On a device that the catalogue does not know, the rate stands alone."""
    built = TraceBuilder("Some New Device").step(1, 0, 500).op("aten::copy_", 0, 100)
    built.copy("Memcpy HtoD (Pinned -> Device)", 20, 100, launch=(10, 5), bytes=1_000_000)
    answer = copies.answer(built.run())
    assert answer is not None
    assert answer.sentence == "1× a step 1.00 MB from host to device, 100 µs each (10.0 GB/s), 100 % of GPU busy."


def test_silent_without_copies_and_unknown_without_bytes(recorded: Callable[[str], Run]) -> None:
    """No copy raises no question; copies without sizes have no rate."""
    assert copies.answer(recorded("mlp_64x128x768x3072_eager")) is None
    assert copies.answer(recorded("mlp_recompiles")) is None  # all 632 are the autotuner's
    answer = copies.answer(TraceBuilder().copy("Memcpy HtoD (Pinned -> Device)", 20, 100, launch=(10, 5)).run())
    assert answer is not None
    assert answer.verdict == "unknown"
    assert "does not say how many bytes" in answer.sentence


def test_pageable_copies_dominate_without_steps() -> None:
    """In a trace without step marks, copies that hold the CPU are advised on all the same."""
    built = TraceBuilder()
    for i in range(3):
        built.op("aten::copy_", 1_000 * i, 900)
        built.copy(
            "Memcpy HtoD (Pageable -> Device)", 1_000 * i + 100, 700, launch=(1_000 * i + 10, 850), bytes=1 << 24
        )
        built.op("aten::mm", 1_000 * i + 910, 20).kernel("k", 1_000 * i + 930, 60, launch=(1_000 * i + 915, 5))
    answer = copies.answer(built.run())
    assert answer is not None
    assert answer.sentence.startswith("3× in this trace 16.8 MB from pageable host memory to device, 700 µs each")
    assert "92.1 % of GPU busy" in answer.sentence
    assert answer.advice is not None
    assert answer.advice.saves_ns == 2_550_000


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("CopyHostToDevice", "from host to device"),  # roctracer
        ("MEMORY_COPY_DEVICE_TO_HOST", "from device to host"),  # rocprofiler-sdk
        ("Memcpy M2D (MEMORY(Unknown) -> DEVICE)", "from host to device"),  # XPU: host memory that SYCL does not know
        ("Memcpy D2M (DEVICE -> MEMORY(Unknown))", "from device to host"),
        ("Memcpy HtoD (Host -> Device)", "from host to device"),
    ],
)
def test_every_profilers_names_cross_the_link(name: str, where: str) -> None:
    """A copy crosses the link whichever profiler named it; which host memory it uses is unknown unless said."""
    built = TraceBuilder("Some New Device").step(1, 0, 500)
    run = built.copy(name, 20, 100, launch=(10, 5), bytes=1_000_000).run()
    answer = copies.answer(run)
    assert answer is not None
    assert answer.verdict == "unknown"
    assert answer.sentence == f"1× a step 1.00 MB {where}, 100 µs each (10.0 GB/s), 100 % of GPU busy."
    assert answer.evidence[0]["pageable"] is None
    whole = bound.shares(run, np.arange(1))
    assert (whole.host_copy_ns, whole.unknown_ns) == (100_000, 0)


@pytest.mark.parametrize(
    "name", ["CopyDeviceToDevice", "Memcpy D2D (DEVICE -> DEVICE)", "Memcpy PtoP (Device -> Device)"]
)
def test_what_stays_on_devices_is_no_work_of_the_hosts_link(name: str) -> None:
    """Copies inside a device or between two are not counted as copies over the host's link, also on unknown devices."""
    run = TraceBuilder("Some New Device").step(1, 0, 500).copy(name, 20, 100, launch=(10, 5), bytes=1_000_000).run()
    answer = copies.answer(run)
    assert answer is not None
    assert answer.sentence.startswith("Nothing crosses the link to the host. ")
    assert bound.shares(run, np.arange(1)).host_copy_ns == 0
