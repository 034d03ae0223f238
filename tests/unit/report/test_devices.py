"""The catalogue as a page."""

from __future__ import annotations

from foretrace.devices import Device
from foretrace.report.devices import devices_document
from foretrace.report.document import Headline, Item, Listing, Table


def _device(name: str, peaks: dict[str, float], sources: dict[str, str], sms: int | None = 10) -> Device:
    return Device(
        name=name,
        vendor="Maker",
        arch=None,
        compute_capability=None,
        sms=sms,
        peak_flops=peaks,
        memory_bytes_per_s=2e12,
        memory_bytes=80 * 2**30,
        l2_bytes=None,
        link_bytes_per_s=None,
        peer_link_bytes_per_s=None,
        sources=sources,
    )


def test_figures_carry_the_unit_of_their_header_and_their_source() -> None:
    """TFLOP/s, TB/s and GiB; a device without bf16 shows fp16; each source is listed once, by number."""
    new = _device("New", {"bf16": 4e14, "f16": 4e14, "f8": 8e14}, {"rest": "sheet A", "sms": "paper B"})
    old = _device("Old", {"f16": 1e14}, {"rest": "paper B"}, sms=None)
    blocks = devices_document([new, old]).blocks
    assert blocks[0] == Headline("2 devices")
    table = next(block for block in blocks if isinstance(block, Table))
    assert list(table.rows) == [
        {
            "name": "New",
            "sms": 10,
            "half": 400.0,
            "fp8": 800.0,
            "memory": 2.0,
            "capacity": 80.0,
            "l2": None,
            "ridge": 200.0,
            "sources": "1 2",
        },
        {
            "name": "Old",
            "sms": None,
            "half": 100.0,
            "fp8": None,
            "memory": 2.0,
            "capacity": 80.0,
            "l2": None,
            "ridge": 50.0,
            "sources": "2",
        },
    ]
    listing = next(block for block in blocks if isinstance(block, Listing))
    assert listing.items == (Item("sheet A"), Item("paper B"))
