"""What a comparison says: every field is a key of ``foretrace diff --format json``, schema ``foretrace.diff/1``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from foretrace.diff.host import Count, CpuOps, Region
    from foretrace.diff.statistics import Verdict
    from foretrace.trace.compile_log import CompileLog

Status: TypeAlias = Literal["same", "variant", "fused", "split", "added", "removed"]

SCHEMA: Literal["foretrace.diff/1"] = "foretrace.diff/1"


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two runs.

    Attributes:
        path: Its file.
        label: What people call it: its variant, or what sets its file name apart.
        device, torch, world_size: As the file says, or ``None``.
        steps: Steps that are counted; 0 where the trace has none and is compared as a whole.
        left_out: Names of the first steps that are not.
        left_out_why: The reason.
        compiled_calls: Compile id → calls of that compiled region in all steps.
        compile_log: What ``torch.compile`` logged, where a log lies beside the trace.
        repairs: What of its file had to be mended or could not be read.
        trials, trial_ns: Kernels that an autotuner ran to time them, and their GPU time; they are in no other figure.
    """

    path: str
    label: str
    device: str | None
    torch: str | None
    world_size: int | None
    steps: int
    left_out: tuple[str, ...]
    left_out_why: str | None
    trials: int
    trial_ns: int
    compiled_calls: Mapping[str, int]
    compile_log: CompileLog | None
    repairs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of both sides, medians in nanoseconds; unknown is ``None``.

    Attributes:
        before_ns, after_ns: GPU busy time (union of kernels, copies and sets).
        ratio: ``after_ns`` over ``before_ns``.
        interval: 95 % bootstrap interval of ``ratio`` over the steps.
        significant: Whether there is a verdict.
        verdict: ``faster``, ``slower`` or ``inconclusive``, about GPU busy time.
        floor: The run-to-run difference that a change must exceed, as a share.
        before_kernel_ns, after_kernel_ns: Sum of the kernels' durations.
        before_wall_ns, after_wall_ns: Wall time; that of the last step may include the final synchronize.
        before_bare_ns, after_bare_ns: Wall time of a call without the profiler, where the environment file holds it.
    """

    before_ns: float | None
    after_ns: float | None
    ratio: float | None
    interval: tuple[float, float] | None
    significant: bool
    verdict: Verdict
    floor: float
    before_kernel_ns: float | None
    after_kernel_ns: float | None
    before_wall_ns: float | None
    after_wall_ns: float | None
    before_bare_ns: float | None
    after_bare_ns: float | None


@dataclass(frozen=True, slots=True)
class Change:
    """Kernels of both sides that do the same work.

    Attributes:
        status: ``same`` is the same name byte for byte, ``variant`` the same work by another kernel, ``fused`` n → 1,
            ``split`` 1 → n.
        before, after: Names in the files, in launch order.
        fields: Field of the decoded names → (before, after) where they differ. Also ``shapes`` and ``count``
            (launches a step), where those differ, and ``origins``: ops in a fused name that launched nothing.
        before_ns, after_ns: Medians over steps (means where some step does not run it); ``None`` on a side that has no
            kernel.
        op: The op of the kernel, of the single one where there are several.
        ratio, interval, significant: As of `Steps`; ``None`` and false where a side has no kernel.
        op_class: Class of that kernel.
        before_op, after_op: Ops on each side.
        module: ``nn.Module`` that launched it, where the trace knows.
        inferred: Whether order alone says that these belong together.
        uneven: Whether some step does not run it, so that its times are means.
        says: What the difference means, in a few words.
        before_short, after_short: The decoded names in a few words.
    """

    status: Status
    before: tuple[str, ...]
    after: tuple[str, ...]
    fields: Mapping[str, Any]
    before_ns: float | None
    after_ns: float | None
    op: str | None
    ratio: float | None = None
    interval: tuple[float, float] | None = None
    significant: bool = False
    op_class: str | None = None
    before_op: tuple[str | None, ...] = ()
    after_op: tuple[str | None, ...] = ()
    module: str | None = None
    inferred: bool = False
    uneven: bool = False
    says: str | None = None
    before_short: tuple[str, ...] = ()
    after_short: tuple[str, ...] = ()

    @property
    def waits(self) -> bool:
        """Whether its time includes waiting for other ranks."""
        return self.op_class == "collective"

    @property
    def change_ns(self) -> float:
        """``after_ns`` less ``before_ns``; a missing side counts as 0."""
        return (self.after_ns or 0.0) - (self.before_ns or 0.0)


@dataclass(frozen=True, slots=True)
class Transfer:
    """Copies or sets of one name, a step: how many and for how long on both sides."""

    name: str
    before: float
    after: float
    before_ns: float
    after_ns: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """What changed between two runs.

    Attributes:
        comparable: Whether times can be compared; ``why_not`` are the reasons when they cannot.
        steps: Times a step and the verdict.
        changes: Kernels, in the order of the after-run.
        transfers: Copies and sets whose number or time differs or not, by name.
        cpu_ops, launches, syncs, regions: The host side.
        before, after: The runs.
        sentence: The answer.
    """

    schema: str = field(default=SCHEMA)
    comparable: bool
    why_not: tuple[str, ...]
    steps: Steps
    changes: tuple[Change, ...]
    transfers: tuple[Transfer, ...]
    cpu_ops: CpuOps
    launches: tuple[Count, ...]
    syncs: tuple[Count, ...]
    regions: tuple[Region, ...]
    before: Side
    after: Side
    sentence: str

    @property
    def is_empty(self) -> bool:
        """Whether the same kernels, ops, launches and waits ran on both sides, and no verdict says otherwise."""
        counts = [(count.before, count.after) for count in (*self.launches, *self.syncs)]
        counts += [(transfer.before, transfer.after) for transfer in self.transfers]
        return (
            all(change.status == "same" for change in self.changes)
            and not (self.cpu_ops.removed or self.cpu_ops.added or self.cpu_ops.changed)
            and all(was == now for was, now in counts)
            and not self.steps.significant
        )
