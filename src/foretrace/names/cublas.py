"""What cuBLAS runs beside its big GEMMs: matrix-vector kernels, legacy SGEMMs, and the helpers of another GEMM.

::

    internal::gemvx::kernel<int, int, x, A, y, compute, …>      gemv<…>_kernel<[int, int,] A, x, y, compute, …>
    gemmSN_<ab>_kernel<type, …[, view of A, of B, of C]>      gemmk1_kernel<[int,] type, …, view of A, of B, of C, …>
    dot_kernel, axpy_kernel_val, …      sgemm_largek_lds64      magma_sgemmEx_kernel<…>

Helpers, whose time belongs to the GEMM before them::

    cublasLt::splitKreduce_kernel<threads, unroll, int, compute, …types…, flags>     adds up the parts of split K
    [cublasLt::]epilogue::impl::globalKernel<types…>                                  bias or activation, afterwards
    scal_kernel, scal_64addr_kernel                                                   scales the output by beta
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from foretrace.names.dtypes import from_cpp
from foretrace.names.gemm import told
from foretrace.names.identity import Identity

if TYPE_CHECKING:
    from foretrace.names.symbol import Symbol

_HELPERS = {
    "splitKreduce_kernel": "adds up the parts that a split-K GEMM left in its workspace",
    "epilogue::impl::globalKernel": "applies the bias or activation that the GEMM before it could not fuse",
    "scal_kernel": "scales the output by beta before a GEMM adds to it",
    "scal_64addr_kernel": "scales the output by beta before a GEMM adds to it",
}
_HELPER_PATH = re.compile(rf"(?:\w+::)*({'|'.join(_HELPERS)})", re.ASCII)
_GEMV = re.compile(r"(?:internal::)?(?:gemvx::kernel|gemv(?:\w{0,16}_kernel\w{0,16}))", re.ASCII)
_SMALL = re.compile(r"gemm(?P<kind>SN|k1|SNV)(?:_(?P<layout>[NT]{2}))?_kernel\w{0,16}", re.ASCII)
_LEGACY = re.compile(r"(?:magma_)?(?P<letter>[sdcz])gemm(?:Ex_kernel|_largek_lds64|_kernel\w{0,16})", re.ASCII)
_LETTERS = {"s": "f32", "d": "f64", "c": "c64", "z": "c128"}
_VECTOR = {
    "dot": "reduction",
    "reduce_1Block": "reduction",
    "asum": "reduction",
    "nrm2": "reduction",
    "axpy": "pointwise",
}
_VECTOR_PATH = re.compile(rf"(?:cublas::)?({'|'.join(_VECTOR)})_kernel\w{{0,8}}", re.ASCII)
_VIEW = re.compile(r"cublasGemvTensor\w{0,16}<(?:const )?([\w:]+)(?: const)?>", re.ASCII)
_FLOATS = frozenset({"f16", "bf16", "f32", "f64", "c64", "c128", "fp8", "fp4", "int8"})


def parse(symbol: Symbol) -> Identity | None:
    """Decode a small cuBLAS kernel or a helper, or ``None``."""
    path = symbol.path
    if found := _HELPER_PATH.fullmatch(path):
        return _helper(symbol, found[1])
    if _GEMV.fullmatch(path) and symbol.args:
        types = _types(symbol)
        # x, A, y and compute; fewer in old ones
        operand, out, acc = (types[0], types[2], types[3]) if len(types) > 3 else (None, None, None)  # noqa: PLR2004
        return _blas(symbol, "matrix-vector product", operand, acc, out, "one side is a vector: bound by memory")
    if found := _SMALL.fullmatch(path):
        return _small(symbol, found["kind"], found["layout"])
    if found := _LEGACY.fullmatch(path):
        dtype = _LETTERS[found["letter"]]
        return _blas(symbol, "GEMM", dtype, dtype, dtype, "an older kernel for shapes that the others do not fit")
    if (found := _VECTOR_PATH.fullmatch(path)) and "cublas" in symbol.text:
        op_class = _VECTOR[found[1]]
        return Identity(
            symbol.name, family="cublas", library="cuBLAS", op_class=op_class, in_words="cuBLAS vector operation"
        )
    return None


def _small(symbol: Symbol, kind: str, layout: str | None) -> Identity:
    """A GEMM with one short side. Its views say the operands' types, and where all types agree the arithmetic's."""
    types = _types(symbol)
    views = [dtype for arg in symbol.args if (view := _VIEW.fullmatch(arg)) and (dtype := from_cpp(view[1]))]
    every = views + types
    same = every[0] if every and len(set(every)) == 1 else None
    noun, says = ("GEMM whose K is 1", "bound by memory") if kind == "k1" else ("GEMM for a small N", None)
    operand, out = (views[0], views[-1]) if views else (same, None)
    return _blas(symbol, noun, operand, same, out, says, layout=layout.lower() if layout else None)


def _helper(symbol: Symbol, kernel: str) -> Identity:
    types = _types(symbol)
    same = types[0] if types and len(set(types)) == 1 else None
    identity = Identity(
        symbol.name,
        family="cublas",
        library="cuBLASLt" if "Lt" in symbol.text else "cuBLAS",
        op_class="gemm-helper",
        in_dtype=same,
        acc_dtype=types[0] if types else None,
        out_dtype=same,
        split_k=True if kernel.startswith("splitK") else None,
        helper_of="gemm",
    )
    noun = "split-K reduction" if kernel.startswith("splitK") else "GEMM epilogue" if "::" in kernel else "GEMM scaling"
    return told(identity, f"{identity.library} {noun}", _HELPERS[kernel], "its time belongs to that GEMM")


def _blas(
    symbol: Symbol,
    noun: str,
    in_dtype: str | None,
    acc: str | None,
    out: str | None,
    says: str | None,
    *,
    layout: str | None = None,
) -> Identity:
    identity = Identity(
        symbol.name,
        family="cublas",
        library="cuBLAS",
        op_class="gemm",
        in_dtype=in_dtype,
        acc_dtype=acc,
        out_dtype=out,
        layout=layout,
    )
    return told(identity, f"cuBLAS {noun}", "on the CUDA cores", says)


def _types(symbol: Symbol) -> list[str]:
    """The element types among the template arguments, in order."""
    return [dtype for arg in symbol.args if (dtype := from_cpp(arg)) in _FLOATS]
