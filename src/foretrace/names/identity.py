"""What a kernel's name says: one record with the promised keys, unknown as ``None``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from foretrace.names.words import joined, stage_words, tile_words

_INDUCTOR_ID = re.compile(r"_[0-9]+(?:_[0-9cde]+)?\Z", re.ASCII)
_SHOWS_TILE = frozenset({"gemm", "conv"})


@dataclass(frozen=True, slots=True)
class Identity:
    """One kernel name, decoded. Every field is what the *name* says; what it does not say is ``None``.

    Args:
        name: The name as the trace spells it.
        family: The grammar that knew the name (``nvjet``, ``cutlass``, ``aten``, …), ``unknown`` when none did.
        library: Who ships the kernel, as its users call it.
        arch: The architecture that the binary was built for (``sm90``, ``gfx942``). A newer GPU runs it as well.
        op_class: One of the classes in the command-line contract; ``unknown`` for an unknown name.
        in_dtype: What the operands enter the arithmetic as: ``bf16``, ``f16``, ``f32``, ``tf32``, ``fp8``, ``fp4``,
            ``f64``, ``c64``, ``c128``, ``int8`` … ; ``None`` too when they differ.
        acc_dtype: What is accumulated in.
        out_dtype: What is written.
        tile: Block tile [M, N, K] in elements, in the name's own order; K is ``None`` where the name has none.
        stages: Depth of the shared-memory pipeline.
        mma: Shape [M, N, K] of one matrix instruction.
        cluster: Thread-block cluster; two numbers, or three where the name gives three.
        layout: Operand layouts as the name spells them.
        align: Alignment of the operands in *elements*.
        split_k: Whether K is split over blocks; ``None`` where the grammar has no word for it.
        epilogue: What a GEMM does to its result before storing it, joined by ``+``: ``bias``, ``bias+relu``,
            ``add`` (beta ≠ 0), …
        fused_ops: The ops that a fused kernel lists in its name, in its order.
        helper_of: The op class that a helper's time belongs to.
        in_words: One sentence: what the kernel is, a colon, then what each field means.
    """

    name: str
    family: str = "unknown"
    library: str | None = None
    arch: str | None = None
    op_class: str = "unknown"
    in_dtype: str | None = None
    acc_dtype: str | None = None
    out_dtype: str | None = None
    tile: tuple[int, int, int | None] | None = None
    stages: int | None = None
    mma: tuple[int, int, int] | None = None
    cluster: tuple[int, ...] | None = None
    layout: str | None = None
    align: int | None = None
    split_k: bool | None = None
    epilogue: str | None = None
    fused_ops: tuple[str, ...] | None = None
    helper_of: str | None = None
    in_words: str = "no grammar knows this name"

    @property
    def short(self) -> str:
        """A few words for a table: ``nvjet 256×128×64, 4 stages, bf16→bf16``, ``elementwise mul``."""
        if self.family == "unknown":
            return self.name
        if self.family == "inductor":
            return _INDUCTOR_ID.sub("", self.name)
        if self.op_class in _SHOWS_TILE and self.tile:
            what = self.family if self.op_class == "gemm" else f"{self.family} {self.op_class}"
            stages = stage_words(self.stages)
            dtypes = "→".join(d for d in (self.in_dtype, self.out_dtype) if d) or None
            return joined(f"{what} {tile_words(self.tile)}", stages, dtypes, self.epilogue, by=", ")
        head = self.in_words.split(":", 1)[0]
        return joined(head, self.in_dtype, by=", ") if self.op_class == "attention" else head
