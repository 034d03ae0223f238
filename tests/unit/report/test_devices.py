"""The catalogue as a page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from foretrace.cli.app import main
from foretrace.devices import Device, load_spec
from foretrace.report.devices import devices_document
from foretrace.report.document import Headline, Item, Listing, Table

if TYPE_CHECKING:
    import pytest


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


def test_devices_by_the_words_of_their_names(capsys: pytest.CaptureFixture[str]) -> None:
    """Words in any case, whole or begun; a name that no device has is an error with the way to the list."""
    for argv, expected in (
        (["h200"], ["NVIDIA H200", "NVIDIA H200 NVL"]),
        (["A100", "80gb"], ["NVIDIA A100 SXM4 80GB", "NVIDIA A100 PCIe 80GB"]),
        (["nvidia h200 nvl"], ["NVIDIA H200 NVL"]),
    ):
        assert main(["devices", *argv, "--format", "json"]) == 0
        assert [device["name"] for device in json.loads(capsys.readouterr().out)] == expected
    assert main(["devices", "abacus"]) == 2
    assert capsys.readouterr().err.startswith("error: no ceilings are known for the device `abacus`\n\nhint: ")


def test_the_documented_file_describes_a_device(tmp_path: Path) -> None:
    """The example of docs/concepts/bounds.md is taken as it stands, and has every number that can be given."""
    page = (Path(__file__).parents[3] / "docs" / "concepts" / "bounds.md").read_text(encoding="utf-8")
    file = tmp_path / "mine.toml"
    file.write_text(page.split("```toml\n")[1].split("```")[0], encoding="utf-8")
    device = load_spec(file)
    assert (device.name, device.peak("bf16"), device.memory_bytes_per_s) == ("My GPU", 3e14, 2e12)
    assert (device.sms, device.memory_bytes, device.l2_bytes) == (100, 40 << 30, 30 << 20)
    assert device.link_bytes_per_s == 32e9


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
