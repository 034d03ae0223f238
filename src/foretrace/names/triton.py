"""Triton kernels that say so: Inductor's, and those of old Triton with its specialisation suffix.

Inductor::

    [<model>_]triton_<kind>_fused_<op>_<op>…_<id>       triton_<kind>_<id>

    kind  poi pointwise, red reduction in a loop, per persistent reduction (a whole row at once), tem template (GEMM,
          convolution, attention), for foreach (many tensors), spl / split_scan scan over blocks, coo cooperative
          reduction, mix mixed-order reduction, unk unknown

    The ops are those that the code came from, sorted. A template's list names neighbours of its GEMM which may have
    run in another kernel.

Old Triton appended <argument index>[c if it equals 1][d if it is divisible by 16] for each specialised argument:
``name_0d1d2de``, ``name__0d1d2d``; these are no shapes. A Triton kernel of a user's own says nothing and stays unknown.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from foretrace.names.identity import Identity
from foretrace.names.triton_ops import split_ops

if TYPE_CHECKING:
    from foretrace.names.symbol import Symbol

_KINDS = {
    "poi": ("pointwise", "pointwise kernel"),
    "red": ("reduction", "reduction that loops over its row"),
    "per": ("reduction", "persistent reduction (a block holds its whole row)"),
    "tem": ("other", "template"),
    "for": ("pointwise", "foreach kernel (many tensors in one launch)"),
    "spl": ("scan", "scan split over blocks"),
    "split_scan": ("scan", "scan split over blocks"),
    "coo": ("reduction", "cooperative reduction (several blocks share a row)"),
    "mix": ("reduction", "mixed-order reduction"),
    "unk": ("other", "kernel"),
}
_NAME = re.compile(rf"(?:\w{{1,64}}?_)?triton_(?P<kind>{'|'.join(_KINDS)})_(?P<rest>\w+)", re.ASCII)
_MARKS = re.compile(r"[cd]?e?", re.ASCII)
_MOST_ARGUMENTS = 100
_TEMPLATES = (
    ("attention", frozenset({"flex_attention", "flex_attention_backward", "scaled_dot_product_attention"})),
    ("conv", frozenset({"convolution", "convolution_backward"})),
    (
        "gemm",
        frozenset(
            {"mm", "addmm", "bmm", "baddbmm", "linear", "_scaled_mm", "_int_mm", "_grouped_mm", "_scaled_grouped_mm"}
        ),
    ),
)


def parse(symbol: Symbol) -> Identity | None:
    """Decode an Inductor or an old Triton name, or ``None``."""
    return _inductor(symbol) or _specialised(symbol)


def _inductor(symbol: Symbol) -> Identity | None:
    found = _NAME.fullmatch(symbol.path)
    words = found["rest"].split("_") if found else []
    if words and _is_specialisation(words[-1]):
        words.pop()
    has_id = bool(words) and words[-1].isdigit()
    if has_id:
        words.pop()
    if not found or not (words[:1] == ["fused"] or (has_id and not words)):
        return None
    op_class, noun = _KINDS[found["kind"]]
    ops = split_ops("_".join(words[1:])) or None
    if ops:
        op_class = _class_by_ops(found["kind"], ops) or op_class
    return Identity(
        symbol.name,
        family="inductor",
        library="TorchInductor",
        op_class=op_class,
        fused_ops=ops,
        in_words=f"torch.compile {noun}, generated as Triton: {_listed(found['kind'], ops)}",
    )


def _class_by_ops(kind: str, ops: tuple[str, ...]) -> str | None:
    """A template's class is that of the op it was written for; a foreach kernel may be a fused optimizer."""
    if kind == "tem":
        return next((op_class for op_class, known in _TEMPLATES if known & set(ops)), None)
    return "optimizer" if kind == "for" and any(op.startswith("_fused_") for op in ops) else None


def _listed(kind: str, ops: tuple[str, ...] | None) -> str:
    if ops is None:
        return "its ops are not in the name"
    listed = ", ".join(ops)
    return f"lists {listed}, which may in part have run in other kernels" if kind == "tem" else f"fuses {listed}"


def _specialised(symbol: Symbol) -> Identity | None:
    base, _, suffix = symbol.path.rpartition("_")
    if not _is_specialisation(suffix) or not (base.isascii() and base.isidentifier()):
        return None
    base = base.rstrip("_")
    what = f"Triton kernel {base}" if base != "triton" else "Triton kernel without a name of its own"
    words = f"{what}: its suffix lists arguments that equal 1 (c) or divide by 16 (d), no shapes; the op is not in it"
    return Identity(symbol.name, family="triton", library="Triton", op_class="other", in_words=words)


def _is_specialisation(suffix: str) -> bool:
    """Whether ``suffix`` counts its arguments from 0 and marks at least one (``0d1d2c3de``, ``0d12d``)."""
    at = marked = 0
    for argument in range(_MOST_ARGUMENTS):
        if at == len(suffix) or not suffix.startswith(str(argument), at):
            break
        marks = _MARKS.match(suffix, at + len(str(argument)))
        assert marks is not None
        marked += marks[0][:1] in {"c", "d"}
        at = marks.end()
    return marked > 0 and at == len(suffix)
