"""Ceilings of devices, each with its source: what a kernel is held against.

The figures live in ``catalogue.toml`` beside this file, which is read at the first question. A device is found by the
words of its name and by its properties, never by its exact name; a part of a device (a MIG slice, a vGPU) or a device
that is not listed has no ceilings unless the user gives a file of them.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foretrace.devices.spec import read_device
from foretrace.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from foretrace.devices.device import Device

# A slice or a share of a device, or a mobile namesake: MIG profiles (1g.10gb), vGPU profiles (A40-48Q).
_NOT_WHOLE = re.compile(r"\b(mig|grid|vgpu|laptop|mobile|max-q|\d+g\.\d+gb)\b|-\d+[abcq]\b")
_CAPACITY = re.compile(r"\b(\d+)\s?gi?b\b")
_WORD = re.compile(r"[a-z0-9.]+")

# Drivers show less than the board holds: 85.0 of 85.9 GB on an A100 80GB, 15.6 of 17.2 GB on a T4 with ECC.
_SHOWN_MEMORY = (0.88, 1.02)


@dataclass(frozen=True, slots=True)
class _Listed:
    """A device with what its name and properties must show."""

    device: Device
    words: tuple[frozenset[str], ...]
    forms: frozenset[str]
    without: frozenset[str]
    part: bool
    capacity_in_name: bool

    def may_be(self, name: str, words: frozenset[str]) -> bool:
        """Whether a device of this name can be this one."""
        if not any(phrase <= words for phrase in self.words) or self.without & words:
            return False
        capacity = _CAPACITY.search(name)
        if capacity is None or not self.capacity_in_name or self.device.memory_bytes is None:
            return True
        return int(capacity[1]) << 30 == self.device.memory_bytes

    def agrees(self, properties: Mapping[str, object]) -> bool:
        """Whether recorded properties (Kineto's ``deviceProperties``) contradict nothing that is listed."""
        sms, memory = _number(properties, "numSms"), _number(properties, "totalGlobalMem")
        major, minor = _number(properties, "computeMajor"), _number(properties, "computeMinor")
        if sms is not None and self.device.sms is not None and sms != self.device.sms:
            return False
        if memory is not None and self.device.memory_bytes is not None:
            low, high = _SHOWN_MEMORY
            if not low <= memory / self.device.memory_bytes <= high:
                return False
        if major is None or minor is None or self.device.compute_capability is None:
            return True
        return f"{major:.0f}.{minor:.0f}" == self.device.compute_capability


def find(name: str, properties: Mapping[str, object] | None = None) -> Device | None:
    """The device of a trace or of a command line; ``None`` when it is not listed or cannot be told apart.

    Args:
        name: ``NVIDIA H100 80GB HBM3``, ``Tesla T4``, ``h200``: every word that lists a device must stand in it.
        properties: One entry of a trace's ``deviceProperties``; tells variants of one name apart, and contradicts a
            name whose device is only a part of it.
    """
    fitting = _fitting(name, properties or {})
    return fitting[0].device if len(fitting) == 1 else None


def resolve(text: str) -> Device:
    """The device that an option names: a listed one, or a TOML file of ceilings.

    Raises:
        InputError: It is neither, or the name fits several devices.
    """
    if text.lower().endswith(".toml") or Path(text).is_file():
        return load_spec(text)
    device = find(text)
    if device is not None:
        return device
    similar = [listed.device.name for listed in _fitting(text, {})]
    if similar:
        message = f"`{text}` can be any of {len(similar)} devices"
        raise InputError(message, hint="say which: " + ", ".join(f"`{name}`" for name in similar))
    message = f"no ceilings are known for the device `{text}`"
    raise InputError(
        message, hint="`foretrace devices` lists those that are; in its place a TOML file can describe one"
    )


def load_spec(path: str | Path) -> Device:
    """A device from a TOML file of the keys of the catalogue, for ``--device-spec FILE.toml``.

    ``name`` is required; ``peak_tflops`` (a table by type), ``memory_gb_s``, ``memory_gib``, ``l2_mib``,
    ``link_gb_s``, ``peer_gb_s``, ``sms``, ``vendor``, ``arch`` and ``compute_capability`` are taken where they are.

    Raises:
        InputError: The file cannot be read, is no TOML, or holds something that is no such key or value.
    """
    try:
        content = tomllib.loads(Path(path).read_text("utf-8"))
    except OSError as error:
        message = f"cannot read the device file `{path}`: {error.strerror or error}"
        raise InputError(message, hint="give the path of a TOML file") from error
    except ValueError as error:
        message = f"`{path}` is not a TOML file: {error}"
        raise InputError(message, hint='a device file starts with `name = "…"`') from error
    return read_device(content, str(path), {"rest": f"given in {path}"})


def all_devices() -> tuple[Device, ...]:
    """Every listed device, in the order of the catalogue."""
    return tuple(listed.device for listed in _catalogue())


def _fitting(name: str, properties: Mapping[str, object]) -> list[_Listed]:
    lowered = name.lower()
    if _NOT_WHOLE.search(lowered):
        return []
    words = frozenset(_WORD.findall(lowered))
    fitting = [one for one in _catalogue() if one.may_be(lowered, words) and one.agrees(properties)]
    exact = [one for one in fitting if one.device.name.lower() == lowered]
    formed = [one for one in fitting if one.forms & words]
    whole = [one for one in fitting if not one.part] if not properties else fitting
    return exact or formed or whole


@cache
def _catalogue() -> tuple[_Listed, ...]:
    content = tomllib.loads(Path(__file__).with_name("catalogue.toml").read_text("utf-8"))
    return tuple(_listed(entry, content["sources"]) for entry in content["device"])


def _listed(entry: dict[str, Any], known: Mapping[str, str]) -> _Listed:
    words = tuple(frozenset(phrase.split()) for phrase in entry.pop("words"))
    forms, without = frozenset(entry.pop("forms", ())), frozenset(entry.pop("without", ()))
    part, capacity_in_name = entry.pop("part", False), entry.pop("capacity_in_name", True)
    sources = {figure: known[key] for figure, key in entry.pop("sources").items()}
    device = read_device(entry, "catalogue.toml", sources)
    return _Listed(device, words, forms, without, part, capacity_in_name)


def _number(properties: Mapping[str, object], key: str) -> float | None:
    value = properties.get(key)
    return value if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 else None
