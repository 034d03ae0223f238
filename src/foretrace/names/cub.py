"""CUB, Thrust and cuFFT (with hipCUB, rocPRIM and rocFFT): the parallel primitives under many PyTorch ops.

::

    cub::[<inline namespace>::]Device<Primitive>…Kernel<…>        thrust::…::<primitive>…<…>
    rocprim::detail::<primitive>_kernel<…>                         (regular|vector|composite|multi_bluestein)_fft<…>
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from foretrace.names.identity import Identity

if TYPE_CHECKING:
    from foretrace.names.symbol import Symbol

_OURS = re.compile(r"(?:at_cuda_detail::|at::\w+::|at::)?(?P<library>cub|thrust|hipcub|rocprim)::", re.ASCII)
_LIBRARIES = {"cub": "CUB", "thrust": "Thrust", "hipcub": "hipCUB", "rocprim": "rocPRIM"}
_FFT = re.compile(
    r"(?P<cufft>(?:\w+_)?(?:regular|vector|composite|multi_bluestein|spRealComplex|dpRealComplex|bluestein)\w*_?fft\w*"
    r"|(?:spRealComplex|dpRealComplex|postprocessC2C)\w*)|(?P<rocfft>fft_(?:rtc_)?(?:fwd|back)_len\w+)",
    re.ASCII,
)
_PRIMITIVES: tuple[tuple[re.Pattern[str], str, str], ...] = (
    (re.compile(r"sort|merge_path|onesweep", re.IGNORECASE), "sort", "sort"),
    (re.compile(r"scan", re.IGNORECASE), "scan", "prefix sum"),
    (re.compile(r"reduce|histogram|run_?length|unique_by_key", re.IGNORECASE), "reduction", "reduction"),
    (re.compile(r"select|partition|compact|unique", re.IGNORECASE), "gather-scatter", "selection"),
    (re.compile(r"fill|generate|sequence", re.IGNORECASE), "fill", "fill"),
    (re.compile(r"copy|memcpy", re.IGNORECASE), "copy", "copy"),
    (re.compile(r"transform|parallel_for|for_each", re.IGNORECASE), "pointwise", "elementwise operation"),
)


def parse(symbol: Symbol) -> Identity | None:
    """Decode a primitive's name, or ``None``."""
    if found := _OURS.match(symbol.path):
        library = _LIBRARIES[found["library"]]
        # thrust's own functor says more than the launcher that all its algorithms share
        text = symbol.base if found["library"] != "thrust" else f"{symbol.path} {' '.join(symbol.args)}"
        op_class, noun = next(
            ((kind, noun) for pattern, kind, noun in _PRIMITIVES if pattern.search(text)), ("other", "primitive")
        )
        words = f"{library} {noun}: {symbol.base}"
        return Identity(symbol.name, family=found["library"], library=library, op_class=op_class, in_words=words)
    if found := _FFT.fullmatch(symbol.path):
        library = "cuFFT" if found["cufft"] else "rocFFT"
        words = f"{library} Fourier transform: {symbol.base}"
        return Identity(symbol.name, family=library.lower(), library=library, op_class="fft", in_words=words)
    return None
