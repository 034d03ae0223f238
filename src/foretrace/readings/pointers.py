"""What an Inductor kernel costs: the work behind the pointers that its launch records.

A host op of a generated kernel lists the kernel's own arguments: one tensor a pointer (results first where they
overwrite an input, then inputs, then results: ``KernelArgs.python_argdefs`` in PyTorch's
``torch/_inductor/codegen/common.py``), then the sizes of its loops. Which pointer is read and which is written is not
recorded.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from foretrace.ops.args import Args
from foretrace.ops.bytes import Tensor, tensor_bytes, total_bytes, unique_elements

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foretrace.names import Identity

_LOOPS = re.compile(r"triton_(poi|per|red)_")
"""Kernels whose scalar arguments are the sizes of their loops; a template's are its grid."""
_PRODUCTS = frozenset({"mm", "bmm", "addmm", "baddbmm"})


@dataclass(frozen=True, slots=True)
class Pointers:
    """A generated kernel's tensors and what follows from them.

    Attributes:
        tensors: One a pointer, in the kernel's order.
        flops: 2·M·N·K of a GEMM template; ``None`` for other kernels, whose arithmetic is not recorded.
        moved_bytes: Each pointer's tensor once, at most one element a loop iteration: what is moved at least.
        dtype: Short type of the first tensor.
    """

    tensors: tuple[Tensor, ...]
    flops: int | None
    moved_bytes: int | None
    dtype: str | None


def pointers(identity: Identity, shapes: Any, dtypes: Any, concrete: Any, strides: Any) -> Pointers | None:  # noqa: ANN401
    """The pointers of one launch, from the op's recorded arguments (as `foretrace.ops.work` takes them).

    ``None`` where none is recorded.
    """
    args = Args(shapes or (), dtypes or (), concrete or (), strides or ())
    tensors = tuple(args.all_tensors())
    if not tensors:
        return None
    most = _iterations(args) if _LOOPS.match(identity.name) else None
    sizes = [_touched_bytes(tensor, most) for tensor in tensors]
    product = _product(identity, tensors)
    return Pointers(
        tensors=tensors,
        flops=2 * math.prod(product) if product else None,
        moved_bytes=sum(size for size in sizes if size is not None) if None not in sizes else None,
        dtype=tensors[0].dtype,
    )


def _iterations(args: Args) -> int | None:
    """Product of the loop sizes, the trailing whole numbers; ``None`` where there are none."""
    numbers = [int(text) for i in range(len(args)) if (text := args.text(i)) and text.isdecimal()]
    return math.prod(numbers) if numbers else None


def _touched_bytes(tensor: Tensor, most: int | None) -> int | None:
    """The tensor's bytes, no more than ``most`` elements of it: a lookup touches rows, not the table."""
    whole = tensor_bytes(tensor)
    elements = unique_elements(tensor)
    if whole is None or most is None or elements <= most:
        return whole
    return whole // elements * most


def custom_pointwise(identity: Identity, shapes: Any, dtypes: Any, strides: Any) -> Pointers | None:  # noqa: ANN401
    """A pointwise kernel of an op that no table knows: its inputs, then one result as large as the largest of them.

    That is what such a kernel moves at least. ``None`` for other kernels, and where no tensor is recorded.
    """
    tensors = tuple(Args(shapes or (), dtypes or (), (), strides or ()).all_tensors())
    if identity.op_class != "pointwise" or not tensors:
        return None
    largest = max(tensors, key=lambda tensor: tensor.elements)
    every = (*tensors, Tensor(largest.shape, largest.dtype))
    return Pointers(every, None, total_bytes(every), tensors[0].dtype)


def product_shape(identity: Identity, shapes: Any, dtypes: Any) -> tuple[int, int, int, int] | None:  # noqa: ANN401
    """(batch, M, N, K) of a GEMM template from its recorded pointers; ``None`` where they do not fit a product."""
    return _product(identity, Args(shapes or (), dtypes or (), (), ()).all_tensors())


def _product(identity: Identity, tensors: Sequence[Tensor]) -> tuple[int, int, int, int] | None:
    """The result comes last, the operands first (after a bias): K is what is left of the first operand."""
    if not _PRODUCTS & set(identity.fused_ops or ()) or identity.op_class != "gemm" or not tensors:
        return None
    result = tensors[-1]
    if not result.shape or not result.elements:
        return None
    columns = result.shape[-1]
    rows = result.elements // columns
    batch = math.prod(result.shape[:-2])
    for left, right in pairwise(tensors[:-1]):
        depth, rest = divmod(left.elements, rows)
        if rest or not depth:
            continue
        if right.elements == depth * columns:
            return 1, rows, columns, depth
        if right.elements == depth * columns * batch:
            return batch, rows // batch, columns, depth
    return None
