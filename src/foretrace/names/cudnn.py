"""cuDNN's kernels outside XMMA, CUTLASS and SASS: C++ templates and generated engines, known by their words.

::

    [xmma_]cudnn::[ops|cnn|detail|fusion|winograd…]::<function><…>        cudnn_generated_<engine>_<words…>
    explicit_convolve_sgemm, implicit_convolve_sgemm, convolve_common_engine…, dgrad_engine, wgrad_alg<n>_engine
    nchwToNhwcKernel, elemWiseRNNcell, RNN_blockPersist_…, fft2d_…           without a namespace
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from foretrace.names.identity import Identity

if TYPE_CHECKING:
    from foretrace.names.symbol import Symbol

_OURS = re.compile(
    r"(?:xmma_)?cudnn(?:::|_generated_)|(?:implicit|explicit|precomputed)_convolve_\w?gemm|(?:dgrad|wgrad)\w*_engine"
    r"|(?:nchwToNhwc|nhwcToNchw)Kernel\Z|elemWiseRNNcell\Z|RNN_blockPersist_\w+\Z|fft2d_[rc]2[rc]_\w+\Z",
    re.ASCII,
)
_KINDS: tuple[tuple[re.Pattern[str], str, str], ...] = (
    (
        re.compile(r"nchwToNhwc|nhwcToNchw|Tensor4d|transpose|reorder|im2col|generateWinogradTiles", re.IGNORECASE),
        "copy",
        "layout change",
    ),
    (
        re.compile(r"batchnorm|\bbn_|layernorm|rmsnorm|instancenorm|norm_(?:fwd|bwd)", re.IGNORECASE),
        "normalization",
        "normalization",
    ),
    (re.compile(r"softmax", re.IGNORECASE), "softmax", "softmax"),
    (re.compile(r"conv|winograd|wgrad|dgrad|fprop", re.IGNORECASE), "conv", "convolution"),
    (re.compile(r"fft", re.IGNORECASE), "fft", "Fourier transform for a convolution"),
    (re.compile(r"reduc|pooling", re.IGNORECASE), "reduction", "reduction"),
    (re.compile(r"scalePacked|setTensor", re.IGNORECASE), "fill", "fill"),
    (
        re.compile(r"op_tensor|activation|elemWise|pointwise|dropout", re.IGNORECASE),
        "pointwise",
        "elementwise operation",
    ),
    (re.compile(r"gemm|matmul", re.IGNORECASE), "gemm", "GEMM"),
)


def parse(symbol: Symbol) -> Identity | None:
    """Decode a cuDNN name, or ``None``."""
    if not _OURS.match(symbol.path):
        return None
    said = f"{symbol.path} {symbol.args[0]}" if symbol.path.startswith("xmma_") and symbol.args else symbol.path
    op_class, noun = next(((kind, noun) for pattern, kind, noun in _KINDS if pattern.search(said)), ("other", "kernel"))
    words = f"cuDNN {noun}: {symbol.base}"
    return Identity(symbol.name, family="cudnn", library="cuDNN", op_class=op_class, in_words=words)
