"""The catalogue of devices as a table: ceilings, and where each figure comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from foretrace.readings.base import Column
from foretrace.report.document import Document, Headline, Item, Listing, Sentence, Table
from foretrace.units import plural

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from foretrace.devices import Device
    from foretrace.report.document import Block

_TERA, _MIB, _GIB = 1e12, 2**20, 2**30
_COLUMNS = (
    Column("name", "device"),
    Column("sms", "SMs", "count"),
    Column("half", "16-bit TFLOP/s", "ratio"),
    Column("fp8", "fp8", "ratio"),
    Column("memory", "TB/s", "ratio"),
    Column("capacity", "GiB", "ratio"),
    Column("l2", "L2 MiB", "ratio"),
    Column("ridge", "FLOP/B", "ratio"),
    Column("sources", "from"),
)


def devices_document(devices: Sequence[Device]) -> Document:
    """Every device with its ceilings, then the sources that the last column counts."""
    sources = list(dict.fromkeys(source for device in devices for source in device.sources.values()))
    number = {source: i for i, source in enumerate(sources, 1)}
    blocks: list[Block] = [
        Headline(plural(len(devices), "device")),
        Sentence(
            "Dense peaks (no structured sparsity) and memory bandwidth, as the vendors state them. FLOP/B is where they"
            " meet, in 16-bit FLOPs per byte moved: a kernel that does fewer is limited by memory."
        ),
        Table(_COLUMNS, [_row(device, number) for device in devices]),
        Listing("Sources", tuple(Item(source) for source in sources), numbered=True),
        Sentence(
            "A device that is not here: describe it in a TOML file (`name`, `memory_gb_s`, `sms`, and `bf16` and other "
            "types in a table `[peak_tflops]`) and give it as --device-spec FILE.toml."
        ),
    ]
    return Document(tuple(blocks))


def _row(device: Device, number: Mapping[str, int]) -> dict[str, Any]:
    half = "bf16" if device.peak("bf16") is not None else "f16"  # the same rate on every device that has both
    return {
        "name": device.name,
        "sms": device.sms,
        "half": _in(_TERA, device.peak(half)),
        "fp8": _in(_TERA, device.peak("f8")),
        "memory": _in(_TERA, device.memory_bytes_per_s),
        "capacity": _in(_GIB, device.memory_bytes),
        "l2": _in(_MIB, device.l2_bytes),
        "ridge": device.ridge(half),
        "sources": " ".join(str(number[source]) for source in dict.fromkeys(device.sources.values())),
    }


def _in(unit: float, value: float | None) -> float | None:
    return None if value is None else value / unit
