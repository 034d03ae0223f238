"""Ops that put no work on the device: views, allocations, bookkeeping."""

from __future__ import annotations

_VIEWS = """
    alias as_strided as_strided_ broadcast_to chunk conj detach detach_ diagonal expand expand_as imag
    lift_fresh lift movedim moveaxis mH mT narrow numpy_T permute real reshape_alias _reshape_alias resolve_conj
    resolve_neg select set_ slice split split_with_sizes squeeze squeeze_ swapaxes swapdims t t_ tensor_split
    transpose transpose_ unbind unflatten unfold unsafe_chunk unsafe_split unsafe_split_with_sizes _unsafe_view
    unsqueeze unsqueeze_ view view_as view_as_complex view_as_real _conj _neg_view swapaxes_ T H hsplit vsplit dsplit
    broadcast_in_dim collapse_view split_dim view_of view_element_type
"""
_ALLOCATIONS = """
    empty empty_like empty_strided empty_permuted new_empty new_empty_strided resize_ resize_as_ _resize_output_
    _efficientzerotensor record_stream
"""
_QUESTIONS = """
    result_type can_cast is_floating_point is_complex is_same_size is_contiguous is_pinned size stride numel
    dim sym_size sym_stride sym_numel sym_storage_offset storage_offset _has_compatible_shallow_copy_type
    _version is_leaf retain_grad requires_grad_ _debug_has_internal_overlap _is_zerotensor broadcast_tensors
    meshgrid _fused_sdp_choice cudnn_is_acceptable _cudnn_is_acceptable _use_cudnn_ctc_loss
"""

NAMES: frozenset[str] = frozenset(f"{_VIEWS} {_ALLOCATIONS} {_QUESTIONS}".split())
