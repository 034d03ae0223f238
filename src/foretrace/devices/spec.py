"""A device from plain keys with the units that data sheets use, checked for people who write their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foretrace.devices.device import PEAK_DTYPES, Device, canonical_dtype
from foretrace.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

_TEXTS = ("name", "vendor", "arch", "compute_capability")
_NUMBERS = ("sms", "memory_gb_s", "memory_gib", "l2_mib", "link_gb_s", "peer_gb_s")
_LEAST, _MOST = 1e-6, 1e9
"""Far beyond every data sheet on both sides: what lies outside was not written in their units."""
_KEYS = (*_TEXTS, *_NUMBERS, "peak_tflops")


def read_device(entry: Mapping[str, object], where: str, sources: Mapping[str, str]) -> Device:
    """The device that ``entry`` describes.

    Args:
        entry: Texts ``name``, ``vendor``, ``arch``, ``compute_capability``; numbers ``sms``, ``memory_gb_s``,
            ``memory_gib``, ``l2_mib``, ``link_gb_s``, ``peer_gb_s``; the table ``peak_tflops`` by type.
        where: The file, for messages.
        sources: Where the figures come from.

    Raises:
        InputError: A key is unknown, a value is of the wrong kind, or ``name`` is missing.
    """
    unknown = sorted(set(entry) - set(_KEYS))
    if unknown:
        message = f"`{where}`: `{unknown[0]}` is no key of a device"
        raise InputError(message, hint="keys are " + ", ".join(f"`{key}`" for key in _KEYS))
    texts = {key: _text(entry, key, where) for key in _TEXTS}
    numbers = {key: _positive(entry[key], key, where) if key in entry else None for key in _NUMBERS}
    name = texts["name"]
    if not name:
        message = f"`{where}`: a device needs a `name`"
        raise InputError(message, hint='add `name = "…"`')
    return Device(
        name=name,
        vendor=texts["vendor"],
        arch=texts["arch"],
        compute_capability=texts["compute_capability"],
        sms=_whole(numbers["sms"], 1),
        peak_flops=_peaks(entry.get("peak_tflops", {}), where),
        memory_bytes_per_s=_scaled(numbers["memory_gb_s"], 1e9),
        memory_bytes=_whole(numbers["memory_gib"], 1 << 30),
        l2_bytes=_whole(numbers["l2_mib"], 1 << 20),
        link_bytes_per_s=_scaled(numbers["link_gb_s"], 1e9),
        peer_link_bytes_per_s=_scaled(numbers["peer_gb_s"], 1e9),
        sources=dict(sources),
    )


def _peaks(table: object, where: str) -> dict[str, float]:
    if not isinstance(table, dict):
        message = f"`{where}`: `peak_tflops` must be a table, type to 10¹² operations a second"
        raise InputError(message, hint="for instance `peak_tflops = { bf16 = 989.4, f32 = 66.9 }`")
    peaks = {}
    for key, value in table.items():
        dtype = canonical_dtype(key)
        if dtype is None:
            message = f"`{where}`: `{key}` in `peak_tflops` is no type that has a peak"
            raise InputError(message, hint="types are " + ", ".join(f"`{one}`" for one in PEAK_DTYPES))
        peaks[dtype] = round(_positive(value, f"peak_tflops.{key}", where) * 1e12, 0)
    return peaks


def _text(entry: Mapping[str, object], key: str, where: str) -> str | None:
    value = entry.get(key)
    if value is not None and not isinstance(value, str):
        message = f"`{where}`: `{key}` must be text, not `{value}`"
        raise InputError(message, hint=f'write `{key} = "…"`')
    return value


def _positive(value: object, key: str, where: str) -> float:
    number = None if isinstance(value, bool) or not isinstance(value, int | float) else value
    if number is None or not number > 0:
        message = f"`{where}`: `{key}` must be a number above zero, not `{value}`"
        raise InputError(message, hint="leave a figure out when it is not known")
    if not _LEAST <= number <= _MOST:
        message = f"`{where}`: `{key}` is far from what any device has"
        raise InputError(message, hint="figures are in the units of data sheets: GB/s, GiB, 10¹² operations a second")
    return number


def _scaled(value: float | None, unit: float) -> float | None:
    return None if value is None else round(value * unit, 0)


def _whole(value: float | None, unit: int) -> int | None:
    return None if value is None else round(value * unit)
