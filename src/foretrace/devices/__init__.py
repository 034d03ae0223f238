"""What devices can reach: a sourced catalogue of ceilings, and files of the user's own."""

from __future__ import annotations

from foretrace.devices.catalogue import all_devices, find, load_spec, resolve
from foretrace.devices.device import Device

__all__ = ["Device", "all_devices", "find", "load_spec", "resolve"]
