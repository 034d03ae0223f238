"""The road, rung by rung: each says what it guesses before it looks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from foretrace.ladder import claims

if TYPE_CHECKING:
    from foretrace.ladder.claims import Claim


@dataclass(frozen=True, slots=True)
class Rung:
    """One setup of the road.

    Attributes:
        name: Slug, also the stem of its trace.
        part: ``linear`` or ``mlp``, as the command line names them.
        title: What is run, in words.
        setup: The same in a few words.
        factory: Name of the factory in `foretrace.ladder.models`.
        variant: The capture variant that runs it.
        recorded: File of the recorded trace in the package.
        claims: What the articles expect to see.
        since: The rung that this one is compared with.
    """

    name: str
    part: str
    title: str
    setup: str
    factory: str
    variant: str
    recorded: str
    claims: tuple[Claim, ...]
    since: str | None = None


RUNGS: tuple[Rung, ...] = (
    Rung(
        "linear_eager",
        "linear",
        "nn.Linear with a bias, eager",
        "linear eager",
        "linear",
        "eager",
        "linear_1024x32x64_eager.json.gz",
        (
            claims.kernels(gemm=1),
            claims.epilogue("bias", instead_of="aten::add"),
            claims.launches_nothing("aten::t"),
            claims.occupancy_launches(),
        ),
    ),
    Rung(
        "linear_compiled",
        "linear",
        "nn.Linear with a bias, torch.compile",
        "linear compile",
        "linear",
        "compile",
        "linear_1024x32x64_compiled.json.gz",
        (
            claims.kernels(gemm=1),
            claims.same_gemms("linear_eager"),
            claims.gone("aten::t", "linear_eager"),
            claims.new_rows("linear_eager"),
        ),
        since="linear_eager",
    ),
    Rung(
        "mlp_eager",
        "mlp",
        "GeGLU MLP, eager",
        "MLP eager",
        "geglu",
        "eager",
        "mlp_64x128x768x3072_eager.json.gz",
        (
            claims.kernels(gemm=3, pointwise=2),
            claims.launches_nothing("aten::t"),
            claims.another_for(3),
            claims.occupancy_launches(),
        ),
    ),
    Rung(
        "mlp_compiled",
        "mlp",
        "GeGLU MLP, torch.compile",
        "MLP compile",
        "geglu",
        "compile",
        "mlp_64x128x768x3072_compiled.json.gz",
        (
            claims.kernels(gemm=3, pointwise=1),
            claims.fused("gelu", "mul"),
            claims.same_gemms("mlp_eager"),
            claims.gone("aten::t", "mlp_eager"),
            claims.new_rows("mlp_eager"),
        ),
        since="mlp_eager",
    ),
    Rung(
        "mlp_liger",
        "mlp",
        "GeGLU MLP, hand-tuned (Liger)",
        "MLP Liger",
        "liger",
        "eager",
        "mlp_64x128x768x3072_liger.json.gz",
        (
            claims.kernels(gemm=3, pointwise=1),
            claims.same_gemms("mlp_eager"),
            claims.no_compiler(),
        ),
        since="mlp_eager",
    ),
    Rung(
        "mlp_fused",
        "mlp",
        "GeGLU MLP, fused into one kernel (foretrace)",
        "MLP fused",
        "fused",
        "eager",
        "mlp_64x128x768x3072_fused.json.gz",
        (
            claims.kernels(gemm=1),
            claims.no_compiler(),
        ),
        since="mlp_eager",
    ),
)


def chosen(part: str) -> tuple[Rung, ...]:
    """The rungs of ``linear``, of ``mlp``, or of ``all``."""
    return tuple(rung for rung in RUNGS if part in ("all", rung.part))
