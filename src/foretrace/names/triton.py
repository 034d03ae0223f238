"""Triton kernels that say so: Inductor's, and those of old Triton with its specialisation suffix.

Inductor::

    [<model>_]triton_<kind>_fused_<op>_<op>…_<id>       triton_<kind>_<id>        triton_<id>

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
_NAME = re.compile(
    rf"(?:\w{{1,64}}?_)?triton_(?P<kind>{'|'.join(_KINDS)})_(?:fused_(?P<ops>\w+?)|(?P<bare>fused))?_?(?P<id>[0-9]{{1,6}})?(?P<old>_?(?:[0-9]{{1,2}}[cde]+){{1,64}})?",
    re.ASCII,
)
_SPECIALISED = re.compile(
    r"(?P<base>\w*?)_?_(?P<suffix>(?:[0-9]{1,2}(?:c|de?|e|(?=[0-9])))*[0-9]{1,2}(?:c|de?)e?)", re.ASCII
)
_TEMPLATES = (
    ("attention", ("flex_attention", "scaled_dot_product")),
    ("conv", ("convolution",)),
    ("gemm", ("mm", "addmm", "bmm", "baddbmm", "_scaled_mm", "_int_mm", "_grouped_mm", "_scaled_grouped_mm", "linear")),
)


def parse(symbol: Symbol) -> Identity | None:
    """Decode an Inductor or an old Triton name, or ``None``."""
    if found := _NAME.fullmatch(symbol.path):
        return _inductor(symbol.name, found)
    if (found := _SPECIALISED.fullmatch(symbol.path)) and found["base"]:
        base = found["base"].rstrip("_")
        what = f"Triton kernel {base}" if base != "triton" else "Triton kernel without a name of its own"
        words = (
            f"{what}: its suffix lists arguments that equal 1 (c) or divide by 16 (d), no shapes; the op is not in it"
        )
        return Identity(symbol.name, family="triton", library="Triton", op_class="other", in_words=words)
    return None


def _inductor(name: str, found: re.Match[str]) -> Identity:
    kind = found["kind"]
    op_class, noun = _KINDS[kind]
    ops = split_ops(found["ops"]) if found["ops"] else None
    if kind == "tem" and ops:
        op_class = next(
            (
                c
                for c, known in _TEMPLATES
                if any(op.startswith(known) for op in ops if op in known or c == "attention")
            ),
            "other",
        )
    if kind == "for" and ops and any(op.startswith("_fused_") for op in ops):
        op_class = "optimizer"
    listed = f"fuses {', '.join(ops)}" if ops else "its ops are not in the name"
    if kind == "tem":
        listed = f"lists {', '.join(ops)}, which may in part have run in other kernels" if ops else listed
    return Identity(
        name,
        family="inductor",
        library="TorchInductor",
        op_class=op_class,
        fused_ops=ops,
        in_words=f"torch.compile {noun}, generated as Triton: {listed}",
    )
