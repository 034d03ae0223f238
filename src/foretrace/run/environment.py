"""``NAME.env.json`` beside a trace: what capture wrote down, as far as reading needs it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec


class Unprofiled(msgspec.Struct, frozen=True):
    """The same step without the profiler: medians in nanoseconds; unknown is ``None``."""

    host_ns: int | None = None
    device_ns: int | None = None
    calls: int | None = None
    spread: float | None = None


class Numerics(msgspec.Struct, frozen=True):
    """Errors of the results against eager PyTorch in fp32."""

    max_abs_error: float | None = None
    relative_error: float | None = None


class NewShape(msgspec.Struct, frozen=True):
    """What the first calls at another shape cost; ``cost_ns`` is ``None`` where they failed."""

    what: str
    cost_ns: int | None = None
    recompiles: int = 0
    failed: str | None = None


class Environment(msgspec.Struct, frozen=True):
    """The part of ``foretrace.env/1`` that a reading uses; capture documents every key."""

    unprofiled: Unprofiled = Unprofiled()
    versions: dict[str, Any] = {}
    variant: str | None = None
    region: str | None = None
    first_call_ns: int | None = None
    peak_memory_bytes: int | None = None
    compile_cache_hits: int | None = None
    numerics: Numerics | None = None
    new_shapes: tuple[NewShape, ...] = ()


def beside(trace_path: str) -> Environment | None:
    """The environment written beside ``trace_path``; ``None`` when there is none or it cannot be read."""
    path = Path(trace_path)
    stem = path.name.removesuffix(".gz").removesuffix(".json")
    try:
        known = msgspec.json.decode((path.parent / f"{stem}.env.json").read_bytes(), type=dict[str, Any])
        return msgspec.convert({key: value for key, value in known.items() if value is not None}, Environment)
    except (OSError, msgspec.MsgspecError):
        return None
