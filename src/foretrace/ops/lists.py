"""Ops over lists of tensors: ``_foreach_*`` and the fused optimizers.

Kineto records the sizes in a list but not their element types: operations are known, bytes only where a caller
knows the types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from foretrace.ops.bytes import Tensor
from foretrace.ops.unsaid import UnsaidError
from foretrace.ops.work import Entry, Figures

if TYPE_CHECKING:
    from foretrace.ops.args import Args
    from foretrace.ops.work import Rule


def _foreach(flops: int, *, writes_only: bool = False) -> Rule:
    """An elementwise op on each tensor of the first list, with the same places of the other lists."""

    def rule(args: Args) -> Figures:
        lists = _tensor_lists(args)
        elements = sum(tensor.elements for tensor in lists[0])
        read = lists[1:] if writes_only else lists
        reads = tuple(tensor for tensors in read for tensor in tensors)
        writes = lists[0] if args.inplace else [Tensor(tensor.shape, tensor.dtype) for tensor in lists[0]]
        return Figures(flops * elements, reads, tuple(writes), lists[0][0].dtype)

    return rule


def _foreach_norm(args: Args) -> Figures:
    """``_foreach_norm(self, ord, dtype)``: a square and an addition an element, one number a tensor."""
    tensors = args.tensors(0)
    writes = tuple(Tensor((), args.dtype(2) or tensor.dtype) for tensor in tensors)
    return Figures(2 * sum(tensor.elements for tensor in tensors), tuple(tensors), writes)


def _unscale(args: Args) -> Figures:
    """``_amp_foreach_non_finite_check_and_unscale_(self, found_inf, inv_scale)``: one multiplication."""
    tensors = args.tensors(0)
    return Figures(sum(tensor.elements for tensor in tensors), tuple(tensors), tuple(tensors))


def _optimizer(flops: int, state: int) -> Rule:
    """A fused step: parameters, gradients, then ``state`` lists, all as large as the parameters.

    Args:
        flops: Operations an element.
        state: Number of state lists that may follow the gradients; empty ones are not used.
    """

    def rule(args: Args) -> Figures:
        # an empty list has no type to tell it by
        lists = [args.tensors(index) if args.shapes[index] else [] for index in range(2 + state)]
        if not lists[0]:
            raise UnsaidError
        reads = tuple(tensor for tensors in lists for tensor in tensors)
        writes = tuple(tensor for tensors in (lists[0], *lists[2:]) for tensor in tensors)
        return Figures(flops * sum(t.elements for t in lists[0]), reads, writes, lists[0][0].dtype)

    return rule


def _tensor_lists(args: Args) -> list[list[Tensor]]:
    """The lists among the arguments, in order, without lists of scalars; at least one, none of them empty."""
    lists = [args.tensors(index) for index in range(len(args)) if _is_list(args, index)]
    if not lists or not all(lists):
        raise UnsaidError
    return lists


def _is_list(args: Args, index: int) -> bool:
    kind = args.dtypes[index] if index < len(args.dtypes) else None
    return kind == "TensorList" or isinstance(kind, list | tuple)


def _each(op_class: str, rule: Rule, names: str) -> dict[str, Entry]:
    return {f"_foreach_{name}": Entry(op_class, rule) for name in names.split()}


# Operations an element, from the update rules in the documentation of torch.optim: AdamW decays (1), updates two
# moments (3 + 4), corrects and takes the root (3), divides and adds (3); Adam adds its decay to the gradient.
_ADAM = 14

OPS: dict[str, Entry] = {
    **_each("pointwise", _foreach(1), "add sub mul div pow neg abs sqrt rsqrt reciprocal exp log sign"),
    **_each("pointwise", _foreach(0), "maximum minimum clamp_min clamp_max"),
    **_each("pointwise", _foreach(3), "addcmul addcdiv lerp"),
    **_each("fill", _foreach(0, writes_only=True), "zero"),
    **_each("copy", _foreach(0, writes_only=True), "copy"),
    **_each("reduction", _foreach_norm, "norm"),
    "_amp_foreach_non_finite_check_and_unscale_": Entry("pointwise", _unscale),
    # (self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, …)
    **dict.fromkeys(("_fused_adam_", "_fused_adamw_"), Entry("optimizer", _optimizer(_ADAM, 3))),
    "_fused_sgd_": Entry("optimizer", _optimizer(6, 1)),
    "_fused_adagrad_": Entry("optimizer", _optimizer(6, 1)),
}
