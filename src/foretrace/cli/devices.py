"""``foretrace devices``."""

from __future__ import annotations

from foretrace.cli.output import STDOUT, Output
from foretrace.devices import all_devices
from foretrace.report.devices import devices_document


def devices(*, out: Output = STDOUT) -> None:
    """List the ceilings of known devices, with the source of each.

    Args:
        out: How and where to show it.
    """
    out.check()
    known = all_devices()
    out.emit(lambda: devices_document(known), lambda: known)
