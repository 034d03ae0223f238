"""The shape of a Kineto event as the fast path decodes it.

Only what foretrace uses is decoded; everything else in an event is skipped by the parser. ``ts`` stays as the bytes
of the file, because absolute microseconds do not fit a float64 to the nanosecond (see `times`). Lists (shapes, grids)
stay as bytes too: few of them are different, and each is decoded once, when an answer shows it.

Field names follow Kineto's ``output_json.cpp`` and PyTorch's ``profiler_kineto.cpp``.
"""

from __future__ import annotations

from msgspec import DecodeError, Raw, Struct, field

MALFORMED = (DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for a text that is not the JSON that was asked for."""

NO_TEXT = Raw()
"""A value that the event does not have, where its bytes are kept."""


class Args(Struct, gc=False, frozen=True):
    """The arguments of one event; ``None`` where the event has none of that name."""

    external_id: int | None = field(default=None, name="External id")
    correlation: int | None = None
    # on the device
    stream: int | None = None
    sycl_queue: int | None = field(default=None, name="sycl queue")  # what Intel's GPUs have for a stream
    device: int | None = None
    bytes: int | None = None
    grid: Raw = NO_TEXT
    block: Raw = NO_TEXT
    registers: int | None = field(default=None, name="registers per thread")
    shared_memory: int | None = field(default=None, name="shared memory")
    graph: int | None = field(default=None, name="graph id")
    graph_node: int | None = field(default=None, name="graph node id")
    # of an operator
    dims: Raw = field(default=NO_TEXT, name="Input Dims")
    old_dims: Raw = field(default=NO_TEXT, name="Input dims")  # before PyTorch 1.9
    types: Raw = field(default=NO_TEXT, name="Input type")
    strides: Raw = field(default=NO_TEXT, name="Input Strides")
    concrete: Raw = field(default=NO_TEXT, name="Concrete Inputs")
    sequence: int | None = field(default=None, name="Sequence number")
    # of a Python frame
    python_id: int | None = field(default=None, name="Python id")
    python_parent: int | None = field(default=None, name="Python parent id")
    # of a collective
    collective: str | None = field(default=None, name="Collective name")
    in_elements: int | None = field(default=None, name="In msg nelems")
    out_elements: int | None = field(default=None, name="Out msg nelems")
    element_type: str | None = field(default=None, name="dtype")
    group_size: int | None = field(default=None, name="Group size")
    group_name: str | None = field(default=None, name="Process Group Name")
    group_ranks: str | None = field(default=None, name="Process Group Ranks")
    group_sequence: int | None = field(default=None, name="Seq")
    source: int | None = field(default=None, name="Src Rank")
    target: int | None = field(default=None, name="Dst Rank")
    # of an allocator event ("[memory]")
    allocated: int | None = field(default=None, name="Total Allocated")
    reserved: int | None = field(default=None, name="Total Reserved")
    moved: int | None = field(default=None, name="Bytes")
    device_type: int | None = field(default=None, name="Device Type")
    # of a metadata row
    name: str | None = None
    labels: str | None = None


class Event(Struct, gc=False, frozen=True):
    """One event of ``traceEvents``: a slice (``ph`` X), an instant, a flow arrow or a metadata row."""

    ph: str
    name: str = ""
    cat: str = ""
    pid: int | str = 0
    tid: int | str = 0
    ts: Raw = NO_TEXT
    dur: float | None = None
    id: int | str | None = None
    args: Args | None = None


NO_ARGS = Args()
