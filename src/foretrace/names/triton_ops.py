"""Taking ``_unsafe_view_gelu_backward_mul`` apart: Inductor joins op names by the character that they are made of."""

from __future__ import annotations

# Names of more than one word, without "_backward", "_forward" and the like, which are put to the op before them.
_NAMES = """
accumulate_grad adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d
adaptive_max_pool3d affine_grid_generator alias_copy all_gather_into_tensor all_gather_into_tensor_coalesced
all_gather_into_tensor_out all_reduce all_reduce_coalesced all_to_all_single alpha_dropout as_strided as_strided_copy
as_strided_scatter associative_scan auto_functionalized auto_functionalized_v2 avg_pool1d avg_pool2d avg_pool3d
bartlett_window batch_norm batch_norm_backward_elemt batch_norm_backward_reduce batch_norm_elemt
batch_norm_gather_stats batch_norm_gather_stats_with_counts batch_norm_stats batch_norm_update_stats bessel_i0
bessel_i0e bessel_i1 bessel_i1e bessel_j0 bessel_j1 binary_cross_entropy binary_cross_entropy_with_logits bitwise_and
bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor blackman_window block_diag broadcast_in_dim
broadcast_to bucketize_with_sorter channel_shuffle cholesky_solve clamp_max clamp_min column_stack conj_physical
constant_pad_nd conv_depthwise3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d convert_element_type
convolution_backward_overrideable convolution_overrideable copy_strided cosine_similarity count_nonzero cross_entropy
cross_entropy_loss ctc_loss cummax_helper dequantize_per_channel dequantize_per_tensor detach_copy device_put
diag_embed diagonal_copy diagonal_scatter embedding_bag embedding_dense embedding_renorm empty_like empty_permuted
empty_strided erf_inv expand_as expand_copy fake_quantize_per_channel_affine fake_quantize_per_channel_affine_cachemask
fake_quantize_per_tensor_affine fake_quantize_per_tensor_affine_cachemask feature_dropout fft_c2c fft_c2r fft_fftfreq
fft_r2c fft_rfftfreq flash_attention flex_attention float_power floor_divide fractional_max_pool2d
fractional_max_pool3d frobenius_norm full_like fused_moving_avg_obs_fake_quant glu_backward_jvp glu_jvp
graphsafe_run_with_rng_state greater_equal grid_sampler grid_sampler_2d grid_sampler_3d group_norm hamming_window
hann_window huber_loss index_add index_copy index_fill index_put index_reduce index_select inductor_lookup_seed
inductor_randint inductor_random inductor_seed inductor_seeds instance_norm kaiser_window kl_div l1_loss layer_norm
leaky_relu less_equal lift_fresh lift_fresh_copy linalg_cholesky_ex linalg_cross linalg_eig linalg_eigvals
linalg_householder_product linalg_inv_ex linalg_ldl_factor_ex linalg_ldl_solve linalg_lstsq linalg_lu
linalg_lu_factor_ex linalg_lu_solve linalg_matrix_exp linalg_pinv linalg_qr linalg_solve_triangular linalg_vector_norm
local_scalar_dense log_normal log_sigmoid log_softmax logical_and logical_not logical_or logical_xor lu_unpack
masked_fill masked_scatter masked_select matrix_exp matrix_power max_pool1d max_pool2d max_pool2d_with_indices
max_pool3d max_pool3d_with_indices max_unpool2d max_unpool3d mse_loss multi_margin_loss multilabel_margin_loss
nan_to_num narrow_copy native_batch_norm native_channel_shuffle native_dropout native_group_norm native_layer_norm
native_norm new_empty new_empty_strided new_full new_ones new_zeros nll_loss nll_loss2d nonzero_static
normal_functional not_equal one_hot ones_like pad_sequence pairwise_distance permute_copy pin_memory pixel_shuffle
pixel_unshuffle poisson_nll_loss prepare_softmax_online quantize_per_channel quantize_per_tensor rand_like randint_like
randn_like reduce_scatter_tensor reduce_scatter_tensor_coalesced reduce_scatter_tensor_out reflection_pad1d
reflection_pad2d reflection_pad3d repeat_interleave replication_pad1d replication_pad2d replication_pad3d reshape_as
resolve_neg rms_norm row_stack rrelu_with_noise rrelu_with_noise_functional run_and_save_rng_state scalar_tensor
scaled_dot_product_attention scatter_add scatter_reduce scatter_upon_const_tensor segment_reduce select_copy
select_scatter shift_left shift_right_arithmetic slice_copy slice_inverse slice_scatter slow_conv3d slow_conv_dilated2d
slow_conv_dilated3d slow_conv_transpose2d slow_conv_transpose3d smooth_l1_loss soft_margin_loss special_airy_ai
special_bessel_j0 special_bessel_j1 special_bessel_y0 special_bessel_y1 special_chebyshev_polynomial_t
special_chebyshev_polynomial_u special_chebyshev_polynomial_v special_chebyshev_polynomial_w special_entr special_erfcx
special_hermite_polynomial_h special_hermite_polynomial_he special_i0e special_i1 special_i1e
special_laguerre_polynomial_l special_legendre_polynomial_p special_log_ndtr special_modified_bessel_i0
special_modified_bessel_i1 special_modified_bessel_k0 special_modified_bessel_k1 special_ndtri
special_scaled_modified_bessel_k0 special_scaled_modified_bessel_k1 special_shifted_chebyshev_polynomial_t
special_shifted_chebyshev_polynomial_u special_shifted_chebyshev_polynomial_v special_shifted_chebyshev_polynomial_w
special_spherical_bessel_j0 special_xlog1py special_zeta spherical_bessel_j0 split_copy split_with_sizes
split_with_sizes_copy squeeze_copy std_mean sum_to_size t_copy tensor_split to_dense transpose_copy triangular_solve
tril_indices triplet_margin_loss triton_kernel_wrapper_functional triton_kernel_wrapper_mutation triu_indices
true_divide type_as unbind_copy unfold_copy unique_consecutive unique_dim unique_dim_consecutive unsafe_chunk
unsafe_split unsafe_split_with_sizes unsqueeze_copy upsample_bicubic2d upsample_bilinear2d upsample_linear1d
upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_trilinear3d value_selecting_reduction var_mean
view_as view_as_complex view_as_complex_copy view_as_real view_as_real_copy view_copy view_of view_of_dtype wait_tensor
xor_sum zeros_like
"""
_PRIVATE_NAMES = """
adaptive_avg_pool2d adaptive_avg_pool3d add_relu addmm_activation amp_foreach_non_finite_check_and_unscale
amp_update_scale batch_norm_no_update batch_norm_with_update batch_norm_with_update_functional cdist cdist_forward
chunk_cat compute_linear_combination conj_copy conj_physical conv_depthwise2d ctc_loss cummax_helper cummin_helper
dirichlet_grad dyn_quant_matmul_4bit dyn_quant_pack_4bit_weight efficient_attention embedding_bag embedding_bag_dense
embedding_bag_forward_only embedding_bag_per_sample_weights euclidean_dist fft_c2c fft_c2r fft_r2c flash_attention
fused_adagrad fused_adam fused_adamw fused_dropout fused_rms_norm fused_sgd grouped_mm histogramdd_bin_edges
index_put_impl int_mm lazy_clone linalg_det linalg_eigh linalg_slogdet linalg_solve_ex linalg_svd local_scalar_dense
log_softmax masked_scale masked_softmax mixed_dtypes_linear native_batch_norm_legit native_batch_norm_legit_functional
native_batch_norm_legit_no_training native_multi_head_attention neg_view_copy philox_normal philox_uniform pin_memory
prelu_kernel reshape_alias reshape_alias_copy reshape_copy safe_softmax sample_dirichlet
scaled_dot_product_attention_math scaled_dot_product_cudnn_attention scaled_dot_product_efficient_attention
scaled_dot_product_flash_attention scaled_dot_product_flash_attention_for_cpu
scaled_dot_product_fused_attention_overrideable scaled_grouped_mm scaled_grouped_mm_v2 scaled_mm scaled_mm_v2
segment_reduce slow_conv2d standard_gamma standard_gamma_grad thnn_fused_gru_cell thnn_fused_lstm_cell
thnn_fused_lstm_cell_backward_impl to_copy to_dense transform_bias_rescale_qkv unsafe_index unsafe_index_put
unsafe_masked_index unsafe_masked_index_put_accumulate unsafe_view upsample_bicubic2d_aa upsample_bilinear2d_aa
upsample_lanczos2d_aa upsample_nearest_exact1d upsample_nearest_exact2d upsample_nearest_exact3d weight_int4pack_mm
weight_int4pack_mm_for_cpu weight_int4pack_mm_with_scales_and_zeros weight_int8pack_mm weight_norm
weight_norm_differentiable weight_norm_interface
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
        return _end_of_name(words, start + 1, "") if start + 1 < len(words) else len(words)
    if words[start] not in _STARTS:
        return start + 1
    for end in range(min(start + _LONGEST, len(words)), start + 1, -1):
        if prefix + "_".join(words[start:end]) in _KNOWN:
            return end
    return start + 1


def _tail(words: list[str], at: int) -> int:
    """How many words after ``at`` still belong to the op (``gelu`` + ``backward``)."""
    return next((len(tail) for tail in _TAILS if tuple(words[at : at + len(tail)]) == tail), 0)
