"""``nn.MultiheadAttention`` and ``nn.TransformerEncoderLayer`` in evaluation: one op each, and what that op calls.

The modules ask whether somebody overrides functions before they take that way; the stage does, and is none of their
concern. What the ops call is as in ``aten/src/ATen/native/transformers/cuda/attention.cu`` and ``transformer.cpp``.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import Tensor

    from foretrace.guess.record import Recorder

_OPTIONS: tuple[Any, ...] = (None, True, True, None)
_WIDTHS = 8
"""A head's width is a multiple of this where ``scaled_dot_product_attention`` is called."""


@contextmanager
def fast_paths(recorder: Recorder) -> Iterator[None]:
    """Inside, both modules take their fast paths where an accelerator's would; a compiler sees their ops whole."""
    parts = {name: in_parts(name, recorder) for name in WHOLE_LAYERS}
    old = {name: getattr(torch, name) for name in parts}
    asked = torch.overrides.has_torch_function
    torch.overrides.has_torch_function = lambda args: False  # noqa: ARG005 - PyTorch's name
    for name, function in parts.items():
        setattr(torch, name, _unless_compiling(old[name], function))
    try:
        yield
    finally:
        torch.overrides.has_torch_function = asked
        for name, function in old.items():
            setattr(torch, name, function)


def in_parts(name: str, recorder: Recorder) -> Callable[..., Any]:
    """What the op of that name, one of `WHOLE_LAYERS`, calls, for a recorder that is entered."""
    return partial(WHOLE_LAYERS[name], recorder)


def _unless_compiling(original: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    def either(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - PyTorch's own
        return original(*args, **kwargs) if torch.compiler.is_compiling() else function(*args, **kwargs)

    return either


def _attention(
    recorder: Recorder,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim: int,
    num_head: int,
    *rest: Any,  # noqa: ANN401 - weight and bias of two projections; mask, need_weights, average_attn_weights, mask_type
) -> tuple[Tensor, Tensor | None]:
    """[B, T, D] each → [B, T, D], and the weights [B, T, T] where they are needed."""
    qkv_weight, qkv_bias, proj_weight, proj_bias, *options = rest
    mask, need_weights, average, mask_type = [*options, *_OPTIONS[len(options) :]]
    batch, rows, _ = query.shape
    width = embed_dim // num_head
    itself = query is key and key is value
    if itself and width % _WIDTHS == 0 and not need_weights and mask is None:
        projected = functional.linear(query, qkv_weight, qkv_bias).chunk(3, -1)
        q, k, v = (part.view(batch, -1, num_head, width).transpose(1, 2) for part in projected)
        mixed = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, -1, embed_dim)
        return functional.linear(mixed, proj_weight, proj_bias), None
    if itself:
        qkv = query.matmul(qkv_weight.t())
    else:
        inputs = zip((query, key, value), qkv_weight.chunk(3), strict=True)
        qkv = torch.cat([x.matmul(weight.t()) for x, weight in inputs], 2)
    recorder.add("aten::_transform_bias_rescale_qkv", [qkv, qkv_bias, num_head])
    q, k, v = qkv.new_empty((3, batch, num_head, rows, width)).unbind()
    scores = q.flatten(0, 1).bmm(k.flatten(0, 1).transpose(1, 2)).view(batch, num_head, rows, rows)
    if mask is None:
        weights = scores.softmax(-1)
    else:
        recorder.add("aten::_masked_softmax", [scores, mask, 3, mask_type])
        weights = torch.empty_like(scores)
    mixed = weights.flatten(0, 1).bmm(v.flatten(0, 1)).view(batch, num_head, rows, width)
    rows_first = mixed.permute(0, 2, 1, 3).contiguous().view(batch, rows, embed_dim)
    out = functional.linear(rows_first, proj_weight, proj_bias)
    if not need_weights:
        return out, None
    return out, weights.sum(1).div_(num_head) if average else weights


def _layer(
    recorder: Recorder,
    src: Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    use_gelu: bool,  # noqa: FBT001 - PyTorch's signature
    norm_first: bool,  # noqa: FBT001 - as above
    eps: float,
    *rest: Any,  # noqa: ANN401 - two norms' weights and biases, two linears', mask and its type
) -> Tensor:
    """[B, T, D] → [B, T, D]."""
    given = list(rest)
    norm_1, norm_2, up, down = (given[at : at + 2] for at in (0, 2, 4, 6))
    mask, mask_type = [*given[8:], None, None][:2]

    def norm(x: Tensor, parameters: list[Tensor]) -> Tensor:
        return functional.layer_norm(x, (embed_dim,), parameters[0], parameters[1], eps)

    x = norm(src, norm_1) if norm_first else src
    weights = (qkv_weight, qkv_bias, proj_weight, proj_bias)
    x, _ = _attention(recorder, x, x, x, embed_dim, num_heads, *weights, mask, False, True, mask_type)  # noqa: FBT003 - as above
    x = x.add_(src)
    if not norm_first:
        x = norm(x, norm_1)
    hidden = norm(x, norm_2) if norm_first else x
    hidden = torch._addmm_activation(up[1], hidden.reshape(-1, embed_dim), up[0].t(), use_gelu=use_gelu)  # noqa: SLF001 - the op's name
    out = torch.addmm(down[1], hidden, down[0].t()).view_as(x).add_(x)
    return out if norm_first else norm(out, norm_2)


WHOLE_LAYERS: dict[str, Callable[..., Any]] = {
    "_native_multi_head_attention": _attention,
    "_transformer_encoder_layer_fwd": _layer,
}
