"""``foretrace devices``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foretrace.cli.output import STDOUT, Output
from foretrace.devices import all_devices
from foretrace.errors import InputError
from foretrace.report.devices import devices_document

if TYPE_CHECKING:
    from collections.abc import Sequence


def devices(*name: str, out: Output = STDOUT) -> None:
    """List the ceilings of known devices, with the source of each.

    Args:
        name: Only those whose names have these words: `foretrace devices a100 80gb`.
        out: How and where to show it.
    """
    out.check()
    words = " ".join(name).lower().split()
    known = tuple(device for device in all_devices() if _has(device.name.lower().split(), words))
    if not known:
        raise InputError(
            f"no ceilings are known for the device `{' '.join(name)}`",
            hint="`foretrace devices` lists those that are; in its place a TOML file can describe one",
        )
    out.emit(lambda: devices_document(known), lambda: known)


def _has(name: Sequence[str], words: Sequence[str]) -> bool:
    """Whether each word begins one of the name: ``h200`` is not in ``GH200``."""
    return all(any(part.startswith(word) for part in name) for word in words)
