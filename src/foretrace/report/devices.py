"""The catalogue of devices as a table: ceilings, and where each figure comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from foretrace.readings.base import Column
from foretrace.report.document import Document, Fields, Headline, Sentence, Table, Title

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from foretrace.devices import Device
    from foretrace.report.document import Block

_COLUMNS = (
    Column("name", "device"),
    Column("arch", "architecture"),
    Column("sms", "SMs", "count"),
    Column("bf16", "bf16", "flop_rate"),
    Column("fp8", "fp8", "flop_rate"),
    Column("memory_bytes_per_s", "memory", "byte_rate"),
    Column("memory_bytes", "holds", "bytes"),
    Column("l2_bytes", "L2", "bytes"),
    Column("ridge", "ridge", "ratio"),
)


def devices_document(devices: Sequence[Device]) -> Document:
    """Every device with its ceilings, then the sources; dense rates, memory in decimal units."""
    blocks: list[Block] = [
        Headline(f"{len(devices)} devices"),
        Sentence(
            "Dense peaks (no structured sparsity) and memory bandwidth, as the vendors state them. The ridge is where"
            " they meet: bf16 FLOPs a byte of memory traffic."
        ),
        Table(_COLUMNS, [_row(device) for device in devices]),
        Title("Sources"),
        Fields(tuple((device.name, "; ".join(_sources(device))) for device in devices)),
        Sentence("A device that is not here: describe it in a TOML file and give it as --device-spec FILE.toml."),
    ]
    return Document(tuple(blocks))


def _row(device: Device) -> dict[str, Any]:
    named = ("name", "arch", "sms", "memory_bytes_per_s", "memory_bytes", "l2_bytes")
    known = {key: getattr(device, key) for key in named}
    return {**known, "bf16": device.peak("bf16"), "fp8": device.peak("f8"), "ridge": device.ridge("bf16")}


def _sources(device: Device) -> Iterable[str]:
    """Each source once, in the order of the figures."""
    sources = device.sources
    return dict.fromkeys(sources.values() if hasattr(sources, "values") else sources)
