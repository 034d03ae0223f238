"""Taking ``_unsafe_view_gelu_backward_mul`` apart: Inductor joins op names by the character that they are made of."""

from __future__ import annotations

# Names of more than one word, without "_backward", "_forward" and the like, which are put to the op before them.
_NAMES = """
as_strided avg_pool2d avg_pool3d adaptive_avg_pool2d adaptive_max_pool2d affine_grid_generator alias_copy
batch_norm binary_cross_entropy binary_cross_entropy_with_logits bitwise_and bitwise_not bitwise_or bitwise_xor
bitwise_left_shift bitwise_right_shift broadcast_in_dim broadcast_to clamp_max clamp_min constant_pad_nd
convert_element_type count_nonzero cross_entropy cross_entropy_loss ctc_loss device_put diagonal_copy diagonal_scatter
embedding_bag embedding_dense empty_like empty_strided expand_copy flash_attention flex_attention floor_divide
full_like grid_sampler_2d grid_sampler_3d group_norm huber_loss index_add index_copy index_fill index_put index_select
inductor_lookup_seed inductor_random inductor_randint inductor_seed inductor_seeds instance_norm kl_div layer_norm
leaky_relu less_equal lift_fresh_copy local_scalar_dense log_sigmoid log_softmax logical_and logical_not logical_or
logical_xor masked_fill masked_scatter max_pool2d max_pool2d_with_indices max_pool3d_with_indices mse_loss nan_to_num
native_batch_norm native_dropout native_group_norm native_layer_norm new_empty new_empty_strided new_full new_ones
new_zeros nll_loss nll_loss2d not_equal one_hot ones_like permute_copy pixel_shuffle pixel_unshuffle rand_like
randint_like randn_like reflection_pad1d reflection_pad2d repeat_interleave replication_pad2d rms_norm scalar_tensor
scaled_dot_product_attention scatter_add scatter_reduce select_copy select_scatter slice_copy slice_scatter
smooth_l1_loss split_with_sizes split_with_sizes_copy squeeze_copy std_mean tensor_split triu_indices tril_indices
true_divide unsqueeze_copy upsample_bicubic2d upsample_bilinear2d upsample_nearest1d upsample_nearest2d
upsample_nearest3d upsample_trilinear3d var_mean view_as view_as_complex view_as_real view_copy zeros_like
greater_equal bucketize_with_sorter cummax_helper associative_scan run_and_save_rng_state graphsafe_run_with_rng_state
all_reduce all_gather_into_tensor reduce_scatter_tensor all_to_all_single wait_tensor triton_kernel_wrapper_mutation
triton_kernel_wrapper_functional auto_functionalized auto_functionalized_v2
"""
_PRIVATE_NAMES = """
adaptive_avg_pool2d adaptive_avg_pool3d addmm_activation batch_norm_with_update cdist_forward chunk_cat
efficient_attention embedding_bag flash_attention fused_adagrad fused_adam fused_adamw fused_dropout fused_rms_norm
fused_sgd grouped_mm int_mm local_scalar_dense log_softmax masked_softmax native_batch_norm_legit
native_batch_norm_legit_functional native_batch_norm_legit_no_training prelu_kernel reshape_alias reshape_copy
safe_softmax scaled_dot_product_efficient_attention scaled_dot_product_flash_attention
scaled_dot_product_cudnn_attention scaled_grouped_mm scaled_mm to_copy unsafe_index unsafe_index_put
unsafe_masked_index unsafe_masked_index_put_accumulate unsafe_view upsample_bicubic2d_aa upsample_bilinear2d_aa
upsample_nearest_exact1d upsample_nearest_exact2d weight_int4pack_mm weight_int8pack_mm weight_norm
weight_norm_interface
"""
_TAILS = (("backward", "data"), ("backward",), ("forward",))
_KNOWN = frozenset(_NAMES.split()) | {f"_{name}" for name in _PRIVATE_NAMES.split()}
_STARTS = frozenset(name.removeprefix("_").split("_", 1)[0] for name in _KNOWN)
_LONGEST = max(name.count("_") for name in _KNOWN) + 1


def split_ops(joined: str) -> tuple[str, ...]:
    """Op names in ``joined``: the longest known name first, one word where none is known.

    A leading underscore of a private op shows as a double one (``fused__to_copy_add`` → ``_to_copy``, ``add``).
    """
    words = joined.split("_")
    ops: list[str] = []
    at = 0
    while at < len(words):
        private = words[at] == "" and at + 1 < len(words)
        start = at + 1 if private else at
        end = _end_of_name(words, start, "_" if private else "")
        end += _tail(words, end)
        name = "_".join(words[start:end])
        if name:
            ops.append(f"_{name}" if private else name)
        at = end
    return tuple(ops)


def _end_of_name(words: list[str], start: int, prefix: str) -> int:
    if prefix and words[start] == "foreach":
        return min(start + 2, len(words))
    if words[start] not in _STARTS:
        return start + 1
    for end in range(min(start + _LONGEST, len(words)), start + 1, -1):
        if prefix + "_".join(words[start:end]) in _KNOWN:
            return end
    return start + 1


def _tail(words: list[str], at: int) -> int:
    """How many words after ``at`` still belong to the op (``gelu`` + ``backward``)."""
    return next((len(tail) for tail in _TAILS if tuple(words[at : at + len(tail)]) == tail), 0)
