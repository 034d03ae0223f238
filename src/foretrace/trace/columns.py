"""Events as columns: NumPy arrays plus interned strings, integer nanoseconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from foretrace.trace.schema import MALFORMED

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

NONE = -1
"""An integer that the file does not give (ids, streams, bytes, durations)."""


@dataclass(frozen=True, slots=True)
class Collective:
    """What a collective's event says of itself (NCCL and c10d rows).

    ``sequence`` counts the collectives of its group (PyTorch 2.13); ``peer`` is whom a send goes to or a receive comes
    from.
    """

    name: str
    in_elements: int | None
    out_elements: int | None
    dtype: str | None
    group_size: int | None
    group_name: str | None
    group_ranks: str | None
    sequence: int | None = None
    peer: int | None = None


@dataclass(frozen=True, slots=True)
class Columns:
    """Slices and instants of one trace, one row each, in the order in which the file ends them; every array is [rows].

    ``index`` is the event's position in ``traceEvents``. ``start_ns`` counts from ``base_ns`` (absolute, unix).
    ``dur_ns`` is `NONE` for an instant and for a missing, negative or absurd duration. ``category``, ``name``,
    ``process``, ``thread`` and the list columns (``dims``, ``types``, ``strides``, ``concrete``, ``grid``, ``block``)
    hold codes into the tables of the same name in `tables`; code 0 of a list column is "not in the file".
    """

    index: NDArray[np.int64]
    category: NDArray[np.int32]
    name: NDArray[np.int32]
    process: NDArray[np.int32]
    thread: NDArray[np.int32]
    start_ns: NDArray[np.int64]
    dur_ns: NDArray[np.int64]
    external: NDArray[np.int64]
    correlation: NDArray[np.int64]
    stream: NDArray[np.int64]
    device: NDArray[np.int64]
    moved_bytes: NDArray[np.int64]
    grid: NDArray[np.int32]
    block: NDArray[np.int32]
    registers: NDArray[np.int32]
    shared_bytes: NDArray[np.int64]
    graph: NDArray[np.int64]
    graph_node: NDArray[np.int64]
    dims: NDArray[np.int32]
    types: NDArray[np.int32]
    strides: NDArray[np.int32]
    concrete: NDArray[np.int32]
    sequence: NDArray[np.int64]
    python_id: NDArray[np.int64]
    python_parent: NDArray[np.int64]
    allocated_bytes: NDArray[np.int64]
    reserved_bytes: NDArray[np.int64]
    device_type: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.index)


@dataclass(frozen=True, slots=True)
class Flows:
    """Arrows between host slices (``ph`` s and f): shape [arrows] each; ``is_end`` marks the f side.

    Arrows from a launch to its activity are left out: the correlation links those.
    """

    category: NDArray[np.int32]
    id: NDArray[np.int64]
    process: NDArray[np.int32]
    thread: NDArray[np.int32]
    start_ns: NDArray[np.int64]
    is_end: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Tables:
    """The values behind the codes of `Columns`; list values are the file's own JSON text, code 0 is "none"."""

    category: tuple[str, ...]
    name: tuple[str, ...]
    process: tuple[int | str, ...]
    thread: tuple[int | str, ...]
    lists: tuple[bytes, ...]

    def decoded(self, code: int) -> Any:  # noqa: ANN401 - the JSON edge
        """The list behind ``code``, or ``None`` where the file has none or no JSON list."""
        try:
            return msgspec.json.decode(self.lists[code]) if code > 0 else None
        except MALFORMED:
            return None


@dataclass(frozen=True, slots=True)
class Note:
    """Something about the file that a reader should know: repaired, missing or cut.

    Attributes:
        kind: A stable slug such as ``truncated`` or ``control-characters``.
        text: One sentence.
        count: How many places were concerned.
        partial: Whether something of the file had to be mended or could not be read; ``--strict`` refuses such input.
    """

    kind: str
    text: str
    count: int = 1
    partial: bool = False


@dataclass(frozen=True, slots=True)
class Trace:
    """One file, read: columns, flows, and what the file says of itself.

    Attributes:
        path: As it was given.
        metadata: Every top-level key besides ``traceEvents``.
        base_ns: Absolute unix time of ``start_ns`` 0, nanoseconds.
        process_labels: Process → the text of its name and label rows.
        thread_names: (process, thread) → name.
        collectives: Row of `Columns` → what its arguments say.
    """

    path: str
    metadata: Mapping[str, Any]
    base_ns: int
    columns: Columns
    tables: Tables
    flows: Flows
    process_labels: Mapping[int | str, str]
    thread_names: Mapping[tuple[int | str, int | str], str]
    collectives: Mapping[int, Collective]
    notes: tuple[Note, ...]

    def name(self, row: int) -> str:
        """The name of the event in ``row``."""
        return self.tables.name[int(self.columns.name[row])]

    def category(self, row: int) -> str:
        """The category of the event in ``row``; empty where the file gives none."""
        return self.tables.category[int(self.columns.category[row])]
