"""What runtime and driver calls do, by the words in their names: one table for CUDA, HIP and Level Zero.

Whether a call launched something is never asked here: activities say so themselves. This table serves the calls that
launch nothing (waits, queries, allocations) and tells graphs, copies and sets from plain launches.
"""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from foretrace.run import Kind, Run

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Call(IntEnum):
    """The purpose of a call."""

    NONE = -1
    """The slice is no runtime call."""
    OTHER = 0
    WAIT = 1
    """Holds the CPU until the GPU has come so far."""
    STREAM_WAIT = 2
    """Makes a stream, and not the CPU, wait for an event."""
    GRAPH = 3
    COPY = 4
    SET = 5
    ALLOCATE = 6
    FREE = 7
    QUERY = 8
    """Asks something and returns at once."""
    ATTRIBUTE = 9
    """Changes how a kernel may be launched (dynamic shared memory, for one)."""
    EVENT = 10
    LAUNCH = 11
    UNKNOWN = 12
    """A call that the profiler itself could not name."""


# the first line that matches decides
_TABLE = (
    (Call.STREAM_WAIT, r"StreamWait(Event|Value)"),
    (Call.WAIT, r"Synchronize|^(zeEventHost|zeCommandQueue|zeFenceHost)Synchron|^urEventWait$|^urQueueFinish$"),
    (Call.GRAPH, r"GraphLaunch"),
    (
        Call.ALLOCATE,
        r"^(cuda|cu|hip)(Host|Extern)?(Malloc|Alloc|MemAlloc|MemCreate|MemHostAlloc|HostRegister)|^urUSM.*Alloc",
    ),
    (Call.FREE, r"^(cuda|cu|hip)(Host)?(Free|MemFree|MemRelease|Unregister)|^urUSMFree"),
    (Call.COPY, r"Memcpy|MemCopy|USMMemcpy"),
    (Call.SET, r"Memset|USMFill"),
    (Call.ATTRIBUTE, r"(Func|Kernel|Stream)Set(Attribute|CacheConfig|SharedMemConfig)"),
    (Call.EVENT, r"Event(Record|Create|Destroy|ElapsedTime)"),
    (Call.QUERY, r"Occupancy|Query|Get|IsCapturing|Peek|ThreadExchangeStreamCaptureMode|Attributes?$|Params?$"),
    (Call.LAUNCH, r"Launch"),
    (Call.UNKNOWN, r"^INVALID$|unknown"),
)
_COMPILED = tuple((call, re.compile(pattern)) for call, pattern in _TABLE)


@lru_cache(maxsize=1024)
def call_of(name: str) -> Call:
    """What the runtime or driver call ``name`` does."""
    return next((call for call, pattern in _COMPILED if pattern.search(name)), Call.OTHER)


@lru_cache(maxsize=2)
def calls(run: Run) -> NDArray[np.int8]:
    """The `Call` of every host slice, [n]; `Call.NONE` for slices that are no runtime call."""
    found = np.full(len(run.host), Call.NONE, dtype=np.int8)
    slices = np.flatnonzero(run.host.kind == Kind.LAUNCH)
    codes, places = np.unique(run.trace.columns.name[run.host.row[slices]], return_inverse=True)
    if len(codes):
        found[slices] = np.array([call_of(run.trace.tables.name[code]) for code in codes], dtype=np.int8)[places]
    return found
