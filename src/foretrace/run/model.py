"""The model that everything downstream reads: ``Run ▸ Step ▸ Region ▸ Op ▸ Launch ▸ Activity``.

Big data stays in arrays; `Run.activity` and friends make a small record for the few rows that are shown. Times are
integer nanoseconds from the trace's first event. An index into `Host` is called a *slice*, one into `Activities` an
*activity*, one into the trace's columns a *row*.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from foretrace.names import decode
from foretrace.run import invariants, recorded
from foretrace.run.categories import Kind, backend, captures_graphs
from foretrace.run.intervals import union_ns
from foretrace.run.tree import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from foretrace.devices import Device
    from foretrace.names import Identity
    from foretrace.run.environment import Environment
    from foretrace.trace import Note, Trace

    Ints = NDArray[np.int64]
    Codes = NDArray[np.int8]

MODULE_PREFIX = "nn.Module: "
"""How both PyTorch's Python stacks and foretrace's capture name a module's scope."""


@dataclass(frozen=True, slots=True)
class Host:
    """Slices on CPU threads (ops, annotations, runtime calls, Python frames), sorted by thread, start, −end.

    Attributes:
        row: Row in the trace's columns, [n].
        kind: `Kind`, [n].
        thread: A number for each (process, thread), [n].
        start_ns, end_ns: End cut at the parent's end, [n].
        parent: Slice that encloses this one, or −1, [n].
        self_ns: Time not spent in children, [n].
        op: Innermost operator that is or encloses this slice, or −1, [n].
        region: Innermost user annotation around this slice, or −1, [n].
        module: Innermost module scope around this slice, or −1, [n].
    """

    row: Ints
    kind: Codes
    thread: Ints
    start_ns: Ints
    end_ns: Ints
    parent: Ints
    self_ns: Ints
    op: Ints
    region: Ints
    module: Ints

    def __len__(self) -> int:
        return len(self.row)


@dataclass(frozen=True, slots=True)
class Activities:
    """Kernels, copies and sets on device streams, in order of their start.

    Attributes:
        row, kind, start_ns, end_ns, stream, device: As in the file, [n].
        launch: Slice of the call that launched it, or −1 for an orphan, [n].
        op: Innermost operator around the launch, or −1, [n].
        region: User annotation around the launch (on its thread, else in time), or −1, [n].
        module: Innermost module scope around the launch, or −1, [n].
        step: Position in `Run.steps` of the step in which the launch starts, or −1, [n].
        in_graph: Whether it was launched as a node of a CUDA (HIP) graph, [n].
    """

    row: Ints
    kind: Codes
    start_ns: Ints
    end_ns: Ints
    stream: Ints
    device: Ints
    launch: Ints
    op: Ints
    region: Ints
    module: Ints
    step: Ints
    in_graph: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.row)


@dataclass(frozen=True, slots=True)
class Step:
    """One ``ProfilerStep#N`` on the host and the activities launched inside it, on any thread.

    ``until_ns`` is when the next step's work begins on the device, in a run that was cut after this step.
    """

    name: str
    index: int
    slice: int
    start_ns: int
    end_ns: int
    activities: Ints
    until_ns: int | None = None

    @property
    def dur_ns(self) -> int:
        """Wall time of the step's annotation."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True, slots=True)
class Activity:
    """One kernel, copy or set with everything that is known of it; unknown is ``None``."""

    index: int
    event: int
    kind: str
    name: str
    stream: int | None
    start_ns: int
    dur_ns: int
    launch: str | None
    graph: bool
    op: str | None
    chain: tuple[str, ...]
    region: str | None
    module: str | None
    shapes: Any
    dtypes: Any
    moved_bytes: int | None
    identity: Identity


def device_properties(trace: Trace, gpus: Sequence[int]) -> tuple[Mapping[str, Any], ...]:
    """The entries of ``deviceProperties`` whose ``id`` is among ``gpus``; every entry where there is none."""
    listed = trace.metadata.get("deviceProperties")
    entries = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    by_id = {entry["id"]: entry for entry in entries if type(entry.get("id")) is int}
    return tuple(by_id[gpu] for gpu in gpus if gpu in by_id) or tuple(entries)


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One trace, understood; two runs are equal only when they are the same object, so that facts can be cached by run.

    Attributes:
        trace: The columns it was built from.
        host, activities, steps: See their classes.
        device: The GPU's ceilings, or ``None`` when it is not in the catalogue.
        environment: What capture wrote beside the trace, if it did.
        notes: What was repaired, missing, cut or odd, in words.
    """

    trace: Trace
    host: Host
    activities: Activities
    steps: tuple[Step, ...]
    device: Device | None
    environment: Environment | None
    notes: tuple[Note, ...]

    @property
    def gpus(self) -> tuple[int, ...]:
        """Numbers of the devices that the activities ran on, as far as the file says."""
        return tuple(device for device in np.unique(self.activities.device).tolist() if device >= 0)

    @property
    def device_properties(self) -> tuple[Mapping[str, Any], ...]:
        """The header's entries for the devices that worked, one each; all of its entries where none is named so."""
        return device_properties(self.trace, self.gpus)

    @property
    def device_name(self) -> str | None:
        """The GPUs' names in the trace's header (``2 × NVIDIA H200``); else the kind of device."""
        names = Counter(str(p["name"]) for p in self.device_properties if p.get("name"))
        several = len(self.gpus) > 1
        told = [f"{n} × {name}" if several and n > 1 else name for name, n in sorted(names.items())]
        return " + ".join(told) or backend(self.trace)

    @property
    def captures_graphs(self) -> bool:
        """Whether PyTorch captures CUDA graphs on this device."""
        return captures_graphs(self.trace)

    @property
    def knows_launches(self) -> bool:
        """Whether the launch of any activity is in the file: without one nothing is known of why the device waits."""
        return bool((self.activities.launch != ROOT).any())

    @property
    def until_ns(self) -> int | None:
        """When the work after the last step begins, where this run was cut from a longer one (`Step.until_ns`)."""
        return self.steps[-1].until_ns if self.steps else None

    @property
    def repaired(self) -> bool:
        """Whether something of the file had to be mended or could not be read: what ``--strict`` refuses."""
        return bool(self.repairs)

    @property
    def repairs(self) -> tuple[str, ...]:
        """What had to be mended or could not be read, in words."""
        return tuple(note.text for note in self.notes if note.partial)

    @property
    def rank(self) -> int | None:
        """Rank in ``distributedInfo``."""
        return self._distributed("rank")

    @property
    def world_size(self) -> int | None:
        """World size in ``distributedInfo``."""
        return self._distributed("world_size")

    @property
    def process_groups(self) -> int | None:
        """How many process groups there were, by ``distributedInfo``."""
        return self._distributed("pg_count")

    def _distributed(self, key: str) -> int | None:
        info = self.trace.metadata.get("distributedInfo")
        value = info.get(key) if isinstance(info, dict) else None
        return value if isinstance(value, int) else None

    def name(self, slice_: int) -> str:
        """Name of a host slice."""
        return self.trace.name(int(self.host.row[slice_]))

    def activity_name(self, activity: int) -> str:
        """Name of a kernel, copy or set."""
        return self.trace.name(int(self.activities.row[activity]))

    def identity(self, activity: int) -> Identity:
        """The decoded name of a kernel, copy or set."""
        return decode(self.activity_name(activity))

    def ancestors(self, slice_: int) -> Iterator[int]:
        """A slice and everything that encloses it, innermost first."""
        while slice_ != ROOT:
            yield slice_
            slice_ = int(self.host.parent[slice_])

    def chain(self, slice_: int) -> tuple[str, ...]:
        """The dispatch chain down to ``slice_``: its region, then every operator, outermost first."""
        region = int(self.host.region[slice_]) if slice_ != ROOT else ROOT
        ops = [s for s in self.ancestors(slice_) if self.host.kind[s] == Kind.OPERATOR or s == region]
        return tuple(self.name(s) for s in reversed(ops))

    def module_name(self, slice_: int) -> str | None:
        """The module whose scope is ``slice_``, without the prefix."""
        return self.name(slice_).removeprefix(MODULE_PREFIX) if slice_ != ROOT else None

    def op_argument(self, op: int, column: str) -> Any:  # noqa: ANN401 - the JSON edge
        """``dims``, ``types``, ``strides`` or ``concrete`` of an operator as recorded; ``None`` where malformed."""
        if op == ROOT:
            return None
        codes = getattr(self.trace.columns, column)
        return recorded.argument(column, self.trace.tables.decoded(int(codes[self.host.row[op]])))

    def activity(self, index: int) -> Activity:
        """Everything about one activity."""
        a, columns = self.activities, self.trace.columns
        row, launch, op = int(a.row[index]), int(a.launch[index]), int(a.op[index])
        region, stream = int(a.region[index]), int(a.stream[index])
        moved = int(columns.moved_bytes[row])
        chain = self.chain(op if op != ROOT else launch)
        named_region = self.name(region) if region != ROOT else None
        if named_region is not None and (not chain or chain[0] != named_region):
            chain = (named_region, *chain)
        return Activity(
            index=index,
            event=int(columns.index[row]),
            kind=Kind(a.kind[index]).name.lower(),
            name=self.trace.name(row),
            stream=stream if stream >= 0 else None,
            start_ns=int(a.start_ns[index]),
            dur_ns=int(a.end_ns[index] - a.start_ns[index]),
            launch=self.name(launch) if launch != ROOT else None,
            graph=bool(a.in_graph[index]),
            op=self.name(op) if op != ROOT else None,
            chain=chain,
            region=named_region,
            module=self.module_name(int(a.module[index])),
            shapes=self.op_argument(op, "dims"),
            dtypes=self.op_argument(op, "types"),
            moved_bytes=moved if moved >= 0 else None,
            identity=self.identity(index),
        )

    def launch_shape(self, activity: int) -> tuple[list[int] | None, list[int] | None]:
        """Grid and block as recorded, [x, y, z] each; ``None`` where absent or malformed.

        On the kernel's row, else on its launch's (ROCm).
        """
        columns, tables = self.trace.columns, self.trace.tables
        row, launch = int(self.activities.row[activity]), int(self.activities.launch[activity])
        if not columns.grid[row] and launch != ROOT:
            row = int(self.host.row[launch])
        grid, block = tables.decoded(int(columns.grid[row])), tables.decoded(int(columns.block[row]))
        return recorded.extent(grid), recorded.extent(block)

    def busy_ns(self, activities: Ints | slice = slice(None)) -> int:
        """Length of the union of the given activities' intervals (all of them by default), the sum of it over GPUs."""
        a = self.activities
        start, end, device = a.start_ns[activities], a.end_ns[activities], a.device[activities]
        if not len(device) or (device == device[0]).all():
            return union_ns(start, end)
        return sum(union_ns(start[device == one], end[device == one]) for one in np.unique(device))

    def kernels(self, activities: Ints | None = None) -> Ints:
        """The kernels among ``activities`` (all by default)."""
        of_kind = self.activities.kind == Kind.KERNEL
        return np.flatnonzero(of_kind) if activities is None else activities[of_kind[activities]]

    def why_outside(self, activity: int) -> str | None:
        """Why an activity belongs to no step; ``None`` when it belongs to one."""
        if self.activities.step[activity] >= 0:
            return None
        launch = int(self.activities.launch[activity])
        if launch == ROOT:
            return "orphan: its launch is not in this file"
        if not self.steps:
            return "no steps in this trace"
        at = int(self.host.start_ns[launch])
        if at < self.steps[0].start_ns:
            return "launched before the first step"
        if at >= self.steps[-1].end_ns:
            return "launched after the last step"
        return "launched between steps"

    def check(self) -> None:
        """Raise `AssertionError` when an invariant of the model does not hold; tests call it after every build."""
        invariants.check(self)
