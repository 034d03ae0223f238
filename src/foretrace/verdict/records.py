"""What a guess is: the kernels that a module should launch, stated before anybody looks. No torch in here."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any  # msgspec resolves the annotations

from foretrace.units import duration, plural

if TYPE_CHECKING:
    from collections.abc import Mapping

SCHEMA = "foretrace.guess/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class GuessedKernel:
    """One kernel that should run; ``None`` is what the guess does not say, and what a trace may decide freely.

    Attributes:
        op_class: As in the contract of kernels: ``gemm``, ``pointwise``… A copy inside the device counts as ``copy``.
        op: The op that launches it (``aten::mm``), or the generated kernel's name without its number.
        shapes: Sizes of the tensors that the op takes, nested for a list of tensors; scalars are left out.
        dtype: Short type of the arithmetic's inputs.
        flops, bytes: The work.
        floor_ns: The least time that the named device needs: the largest of compute, memory and kernel latency.
        bound: Which of them decides: ``compute``, ``memory`` or ``latency``.
        epilogue: What a GEMM does to its result before it stores it.
        fused_ops: The ops inside a generated kernel.
        source: Name of the module that asks for it, as ``named_modules()`` has it.
        phase: ``forward``, ``backward`` or ``optimizer``.
        why: The rule behind a kernel that nobody asked for.
    """

    op_class: str
    op: str | None = None
    shapes: tuple[Any, ...] | None = None
    dtype: str | None = None
    flops: int | None = None
    bytes: int | None = None
    floor_ns: int | None = None
    bound: str | None = None
    epilogue: str | None = None
    fused_ops: tuple[str, ...] | None = None
    source: str | None = None
    phase: str = "forward"
    why: str | None = None

    @property
    def label(self) -> str:
        """What a person calls it: the module, the op without its namespace, and the phase where it is not forward."""
        op = self.op.partition("::")[2] or self.op if self.op else self.op_class
        words = [self.source, op, self.phase if self.phase == "backward" else None]
        return " ".join(word for word in words if word)

    def to_json(self) -> Mapping[str, Any]:
        """The kernel under the promised keys."""
        return {
            "op": self.op,
            "op_class": self.op_class,
            "shapes": self.shapes,
            "dtype": self.dtype,
            "flops": self.flops,
            "bytes": self.bytes,
            "floor_ns": self.floor_ns,
            "bound": self.bound,
            "epilogue": self.epilogue,
            "fused_ops": self.fused_ops,
            "from": self.source,
            "phase": self.phase,
            "why": self.why,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess:
    """All kernels of one call, in the order in which they should run.

    Attributes:
        kernels: In launch order.
        target: What was guessed at, as a person calls it.
        device: The device that it is about.
        variant: ``eager`` or ``compile``.
        graphs: How many compiled graphs run (graph breaks + 1); 0 for eager; ``None`` leaves it open.
        breaks: Why and where the graphs break.
        launches_nothing: Ops that only rewrite sizes and strides or keep books, each once.
        regime: ``overhead-bound``, ``memory-bound``, ``compute-bound`` or ``unknown``.
        batch: Size of the first input's first dimension.
        flips_at: That size at which the regime changes between overhead and the device.
        torch: Version of PyTorch that the guess was made with.
        notes: What was assumed, extrapolated or could not be told.
    """

    kernels: tuple[GuessedKernel, ...]
    target: str | None = None
    device: str | None = None
    variant: str = "eager"
    graphs: int | None = None
    breaks: tuple[str, ...] = ()
    launches_nothing: tuple[str, ...] = ()
    regime: str = "unknown"
    batch: int | None = None
    flips_at: int | None = None
    torch: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def floor_ns(self) -> int | None:
        """Sum of the kernels' floors; ``None`` as soon as one is not known."""
        floors = [kernel.floor_ns for kernel in self.kernels]
        return sum(f for f in floors if f is not None) if None not in floors else None

    @property
    def flops(self) -> int | None:
        """FLOPs of all kernels; ``None`` as soon as one is not known."""
        flops = [kernel.flops for kernel in self.kernels]
        return sum(f for f in flops if f is not None) if None not in flops else None

    @property
    def classes(self) -> Counter[str]:
        """Kernels by class; a GEMM's helper counts with its GEMM."""
        return Counter(k.op_class for k in self.kernels if k.op_class != "gemm-helper")

    @property
    def sentence(self) -> str:
        """The guess in one or two sentences."""
        listed = ", ".join(f"{count} {name}" for name, count in self.classes.most_common())
        helpers = sum(k.op_class == "gemm-helper" for k in self.kernels)
        more = f" and {plural(helpers, 'GEMM helper')}" if helpers else ""
        said = f"{plural(len(self.kernels), 'kernel')}: {listed}{more}" if self.kernels else "no kernel at all"
        floor = f"; at least {duration(self.floor_ns)} of GPU time" if self.floor_ns else ""
        graphs = f", in {plural(self.graphs, 'graph')}" if self.graphs else ""
        regime = f" Expected to be {self.regime}{self._flip}." if self.regime != "unknown" else ""
        return f"Expect {said}{graphs}{floor}.{regime}"

    @property
    def _flip(self) -> str:
        if self.flips_at is None:
            return ""
        side = "from" if self.regime == "overhead-bound" else "below"
        other = "the GPU decides" if self.regime == "overhead-bound" else "the CPU's launches decide"
        return f" ({side} a first dimension of about {self.flips_at:,}, {other})"

    def to_json(self) -> Mapping[str, Any]:
        """The record of ``guess --format json``."""
        return {
            "schema": SCHEMA,
            "target": self.target,
            "device": self.device,
            "variant": self.variant,
            "torch": self.torch,
            "kernels": [kernel.to_json() for kernel in self.kernels],
            "graphs": self.graphs,
            "breaks": self.breaks,
            "launches_nothing": self.launches_nothing,
            "flops": self.flops,
            "floor_ns": self.floor_ns,
            "regime": self.regime,
            "batch": self.batch,
            "flips_at": self.flips_at,
            "notes": self.notes,
            "sentence": self.sentence,
        }
