"""Scaled dot-product attention, forward and backward, in the forms of each backend."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from foretrace.ops.bytes import Tensor
from foretrace.ops.flops import attention_flops
from foretrace.ops.unsaid import UnsaidError
from foretrace.ops.work import Entry, Figures

if TYPE_CHECKING:
    from foretrace.ops.args import Args
    from foretrace.ops.flops import Mask

_RANK = 4  # batch, heads, sequence, width, in the order of the backend


@dataclass(frozen=True, slots=True)
class _Attention:
    """Where one attention op's schema keeps its arguments.

    Attributes:
        query: Index of the query; key and value follow it.
        causal: Index of the ``is_causal`` flag, or of the memory-efficient kernels' ``custom_mask_type``.
        mask_type: Whether ``causal`` is the latter (0 none, 1 causal from the top left, 2 from the bottom right).
        heads_last: Whether sizes are ``[batch, sequence, heads, width]`` instead of ``[batch, heads, …]``.
        extras: Indices of further tensors that are read: bias, saved output, log-sum-exp.
        lse: Index of the flag that asks for the log-sum-exp, or whether it is always written.
        ragged: Indices of cumulative lengths and window sizes; given ones make the pairs a matter of data.
        backward: Whether the op computes the gradients.
    """

    causal: int
    query: int = 0
    mask_type: bool = False
    heads_last: bool = False
    extras: tuple[int, ...] = ()
    lse: int | bool = True
    ragged: tuple[int, ...] = ()
    backward: bool = False

    def __call__(self, args: Args) -> Figures:
        query, key, value = (args.tensor(self.query + step) for step in range(3))
        extras = [tensor for index in self.extras if (tensor := args.find(index)) is not None]
        if self.backward:
            reads = (args.tensor(0), query, key, value, *extras)
            writes = tuple(Tensor(tensor.shape, tensor.dtype) for tensor in (query, key, value))
            return Figures(self._flops(args, query, key, value), reads, writes, query.dtype)
        writes = (Tensor((*query.shape[:-1], value.shape[-1]), query.dtype), *self._lse(args, query))
        return Figures(self._flops(args, query, key, value), (query, key, value, *extras), writes)

    def _flops(self, args: Args, query: Tensor, key: Tensor, value: Tensor) -> int | None:
        if len(query.shape) != _RANK or len(key.shape) != _RANK or any(_given(args, index) for index in self.ragged):
            return None
        heads, sequence = (2, 1) if self.heads_last else (1, 2)
        return attention_flops(
            query.shape[0] * query.shape[heads],
            query.shape[sequence],
            key.shape[sequence],
            query.shape[3],
            value.shape[3],
            self._mask(args),
            backward=self.backward,
        )

    def _mask(self, args: Args) -> Mask:
        if not self.mask_type:
            return "top-left" if args.flag(self.causal, default=False) else "none"
        kinds: tuple[Mask, ...] = ("none", "top-left", "bottom-right")
        kind = args.integer(self.causal, 0)
        if not 0 <= kind < len(kinds):
            raise UnsaidError
        return kinds[kind]

    def _lse(self, args: Args, query: Tensor) -> list[Tensor]:
        """The log-sum-exp that training saves: one f32 a query and head."""
        wanted = self.lse if isinstance(self.lse, bool) else args.flag(self.lse, default=False)
        return [Tensor((math.prod(query.shape[:-1]),), "f32")] if wanted else []


def _given(args: Args, index: int) -> bool:
    """Whether an optional tensor is there, or an optional window size limits anything (negative means no limit)."""
    if args.find(index) is not None:
        return True
    return args.is_a(index, "Scalar") and args.number(index, -1) >= 0


def _entry(rule: _Attention, *, composite: bool = False) -> Entry:
    return Entry("attention", rule, composite)


OPS: dict[str, Entry] = {
    # q, k, v, attn_mask, dropout_p, is_causal, scale, enable_gqa
    "scaled_dot_product_attention": _entry(_Attention(causal=5, extras=(3,), lse=False), composite=True),
    "_scaled_dot_product_attention_math": _entry(_Attention(causal=5, extras=(3,), lse=False), composite=True),
    # q, k, v, dropout_p, is_causal, …
    "_scaled_dot_product_flash_attention": _entry(_Attention(causal=4), composite=True),
    "_scaled_dot_product_flash_attention_for_cpu": _entry(_Attention(causal=4, extras=(5,))),
    # q, k, v, attn_bias, compute_log_sumexp, dropout_p, is_causal, …
    "_scaled_dot_product_efficient_attention": _entry(_Attention(causal=6, extras=(3,), lse=4), composite=True),
    "_scaled_dot_product_cudnn_attention": _entry(_Attention(causal=6, extras=(3,), lse=4), composite=True),
    # q, k, v, cum_seq_q, cum_seq_k, max_q, max_k, dropout_p, is_causal, debug, scale, window left, window right
    "_flash_attention_forward": _entry(_Attention(causal=8, heads_last=True, ragged=(3, 4, 11, 12))),
    # q, k, v, bias, cu_seqlens_q, cu_seqlens_k, …, dropout_p, custom_mask_type, compute_log_sumexp, scale, seqlen_k,
    # window_size
    "_efficient_attention_forward": _entry(
        _Attention(causal=9, mask_type=True, heads_last=True, extras=(3,), lse=10, ragged=(4, 5, 12, 13))
    ),
    # q, k, v, attn_bias, cum_seq_q, cum_seq_k, max_q, max_k, compute_log_sumexp, dropout_p, is_causal, …
    "_cudnn_attention_forward": _entry(_Attention(causal=10, extras=(3,), lse=8, ragged=(4, 5))),
    # grad, q, k, v, out, logsumexp, cum_seq_q, cum_seq_k, max_q, max_k, dropout_p, is_causal, …
    "_scaled_dot_product_flash_attention_backward": _entry(
        _Attention(query=1, causal=11, extras=(4, 5), backward=True), composite=True
    ),
    "_flash_attention_backward": _entry(
        _Attention(query=1, causal=11, heads_last=True, extras=(4, 5), ragged=(6, 7, 15, 16), backward=True)
    ),
    # grad, q, k, v, attn_bias, out, logsumexp, seed, offset, dropout_p, grad_input_mask, is_causal
    "_scaled_dot_product_efficient_attention_backward": _entry(
        _Attention(query=1, causal=11, extras=(4, 5, 6), backward=True), composite=True
    ),
    # grad, q, k, v, bias, out, cu_seqlens_q, cu_seqlens_k, max_q, max_k, logsumexp, dropout_p, seed, offset,
    # custom_mask_type, bias_requires_grad, scale, num_splits_key, window_size
    "_efficient_attention_backward": _entry(
        _Attention(
            query=1, causal=14, mask_type=True, heads_last=True, extras=(4, 5, 10), ragged=(6, 7, 18), backward=True
        )
    ),
    # grad, q, k, v, out, logsumexp, seed, offset, attn_bias, cum_seq_q, cum_seq_k, max_q, max_k, dropout_p, is_causal
    "_scaled_dot_product_cudnn_attention_backward": _entry(
        _Attention(query=1, causal=14, extras=(4, 5, 8), backward=True), composite=True
    ),
    "_cudnn_attention_backward": _entry(
        _Attention(query=1, causal=14, extras=(4, 5, 8), ragged=(9, 10), backward=True)
    ),
}
