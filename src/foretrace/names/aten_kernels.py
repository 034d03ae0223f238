"""PyTorch's own kernels by function name: which class each belongs to, and what to call it."""

from __future__ import annotations

import re
from dataclasses import dataclass

_WORD = re.compile(r"_?kernel(?:_impl|_cuda|Impl)?\Z|Kernel(?:Impl)?\Z|_cuda\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of kernel.

    Args:
        pattern: Found in the function's own name.
        op_class: The class of the op.
        noun: What to call it.
        dtypes: What the leading type arguments are: ``in``, ``acc``, ``out``; ``""`` = not told.
    """

    pattern: re.Pattern[str]
    op_class: str
    noun: str
    dtypes: str = ""


def _kind(pattern: str, op_class: str, noun: str, dtypes: str = "") -> Kind:
    return Kind(re.compile(pattern, re.ASCII | re.IGNORECASE), op_class, noun, dtypes)


# Asked in order: what is more particular comes first.
KINDS = (
    _kind(r"softmax_?warp_?(?:forward|backward)", "softmax", "softmax", "in out acc"),
    _kind(r"cunn_SoftMax|cunn_SpatialSoftMax", "softmax", "softmax", "in acc out"),
    _kind(r"softmax", "softmax", "softmax"),
    _kind(r"layer_?norm|LayerNorm|GammaBeta", "normalization", "layer norm", "in acc"),
    _kind(r"rms_?norm", "normalization", "RMS norm", "in acc"),
    _kind(r"RowwiseMoments|ComputeFusedParams|group_?norm", "normalization", "group norm moments", "in"),
    _kind(r"batch_?norm|instance_?norm|weight_?norm|renorm", "normalization", "normalization", "in"),
    _kind(r"CatArray|cat_copy|chunk_cat|split_with_sizes|stack_copy", "copy", "cat"),
    _kind(r"dropout", "random", "dropout", "in"),
    _kind(
        r"distribution|bernoulli|multinomial|randperm|philox|dirichlet|poisson|gamma_grad", "random", "random numbers"
    ),
    _kind(r"nll_loss|ctc_loss|margin_loss|cross_entropy", "reduction", "loss", "in"),
    _kind(r"topk|radix(?!Sort)|findKth|kthvalue|median|mode_kernel|compute_mode", "sort", "top-k", "in"),
    _kind(r"vectorized_gather", "gather-scatter", "index select"),  # its types are the index and the vector
    _kind(r"indexSelect|index_?select", "gather-scatter", "index select", "in"),
    _kind(
        r"embedding|compute_grad_weight|sum_and_scatter|krn_partial|EmbeddingBag", "gather-scatter", "embedding", "in"
    ),
    _kind(r"index_?add|index_?copy|index_?fill|index_?reduce|indexFunc", "gather-scatter", "index update", "in"),
    _kind(r"indexing_backward|index_elementwise|index_put|index_kernel|take|put_", "gather-scatter", "index"),
    _kind(r"scatter|gather", "gather-scatter", "scatter/gather"),
    _kind(r"masked_?select|nonzero|compact|flag_kernel", "gather-scatter", "selection"),
    _kind(r"sort|fill_reverse_indices|unique|merge_path|computeBlock\w*Digit", "sort", "sort", "in"),
    _kind(r"scan|cumsum|cumprod|cummax|cummin|logcumsumexp", "scan", "prefix sum", "in"),
    _kind(r"conv_?depthwise|slow_conv|conv\dd|dw_conv", "conv", "depthwise convolution", "in"),
    _kind(r"im2col|col2im|vol2col|col2vol|transpose|copy|conj_phys", "copy", "copy", "in"),
    _kind(r"pool", "reduction", "pooling", "in"),
    _kind(r"triu_tril", "pointwise", "triangle mask", "in"),
    _kind(r"arange|linspace|logspace|eye_|fill|zero_", "fill", "fill"),
    _kind(r"kernelHistogram|histc|bincount", "reduction", "histogram"),
    _kind(r"reduce|norm_kernel|lpnorm|cdist|renorm|segment_", "reduction", "reduction", "in"),
    _kind(r"amp_|unscale|update_scale", "pointwise", "gradient scaling"),
    _kind(r"upsample|grid_sampler|pad\dd|reflection|replication|interpolate", "pointwise", "resampling", "in"),
    _kind(r"prepare_grouped", "other", "operands of a grouped GEMM"),
    _kind(r"int4|int8_?mm|scaled_mm|grouped_mm|gemm|weight_to|sparse_mm", "gemm", "GEMM"),
    _kind(r"fft|dft", "fft", "Fourier transform"),
    _kind(r"pointwise|elementwise|compare|where|clamp|gelu|relu|sigmoid|tanh|swish", "pointwise", "elementwise"),
)


def kind_of(function: str) -> Kind | None:
    """The first kind whose pattern is in the function's name."""
    return next((kind for kind in KINDS if kind.pattern.search(function)), None)


def plain_op(function: str) -> str:
    """A functor's or kernel's name as an op's: ``cos_kernel_cuda`` → ``cos``, ``MulFunctor`` → ``mul``.

    ``GeluBackwardCUDAKernelImpl`` → ``gelu_backward``, ``MeanOps`` → ``mean``, ``CUDAFunctorOnSelf_add`` → ``add``.
    """
    word = re.sub(r"\ACUDAFunctor(?:OnSelf|OnOther)?_", "", function)
    word = re.sub(r"(?:_?[Kk]ernel|_?CUDA|_cuda|_?[Ii]mpl|_?[Ff]unctor|Ops|_?scalar_tensor|_nocast|_out)+\Z", "", word)
    word = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", word).lower()
    return re.sub(r"_(?:tensor_scalar|scalar|cuda|opmath)\Z", "", word) or function
