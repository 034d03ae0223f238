"""Copies and sets as the profilers themselves name them.

::

    Memcpy <from>to<to> [(<kind> -> <kind>)]         CUDA, newer ROCm: H host, D device, A array, P peer
    Memcpy <from>2<to> [(<kind> -> <kind>)]          XPU; M is memory that the runtime does not know: the host's
    Copy<Host|Device>To<Host|Device>, MEMORY_COPY_<HOST|DEVICE>_TO_<HOST|DEVICE>                ROCm
    Memset (<kind>), FillBuffer

AMD's runtime does the same with two kernels of its own, ``__amd_rocclr_copyBuffer`` and ``__amd_rocclr_fillBuffer``
(each with a suffix).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from foretrace.names.identity import Identity

if TYPE_CHECKING:
    from foretrace.names.symbol import Symbol

_COPY = re.compile(
    r"Memcpy (?P<way>[A-Z](?:to|2)[A-Z]|[A-Za-z]{1,16}) ?(?:\((?P<from>[\w()]{1,32}?) ?-> ?(?P<to>[\w()]{1,32}?)\))?",
    re.ASCII,
)
_SPELLED = re.compile(r"(?:Memory_?)?Copy_?(?P<from>Host|Device)_?To_?(?P<to>Host|Device)", re.ASCII | re.IGNORECASE)
_ENDS = re.compile(r"Memcpy ([HMDAP])(?:to|2)([HMDAP])(?![A-Za-z])", re.ASCII)
_PLACES = {"H": "H", "M": "H", "D": "D", "A": "D", "P": "P"}
_SET = re.compile(r"Memset (?:\((?P<where>\w+)\)|[A-Za-z]{1,16})|FillBuffer", re.ASCII)
_ROCM = re.compile(r"__amd_rocclr_(copy|fill)Buffer\w*", re.ASCII)


def copy_way(name: str) -> str | None:
    """``HtoD``, ``DtoH``, ``DtoD``, ``HtoH`` or ``PtoP`` (between devices) of a copy, whichever profiler named it.

    ``None`` where the name does not say where the copy comes from and goes to.
    """
    if spelled := _SPELLED.fullmatch(name):
        return f"{spelled['from'][0].upper()}to{spelled['to'][0].upper()}"
    if ends := _ENDS.match(name):
        return f"{_PLACES[ends[1]]}to{_PLACES[ends[2]]}"
    return None


def parse(symbol: Symbol) -> Identity | None:
    """Decode a copy's or a set's name, or ``None``."""
    name = symbol.name
    if found := _COPY.fullmatch(name):
        ends = f": from {found['from'].lower()} to {found['to'].lower()} memory" if found["from"] else ""
        return Identity(
            name, family="memcpy", op_class="copy", in_words=f"memcpy {found['way']}{ends}{_pageable(name)}"
        )
    if _SPELLED.fullmatch(name):
        return Identity(name, family="memcpy", op_class="copy", in_words=f"memcpy {copy_way(name)}")
    if found := _SET.fullmatch(name):
        where = f": writes one value over {found['where'].lower()} memory" if found["where"] else ""
        return Identity(name, family="memset", op_class="fill", in_words=f"memset{where}")
    if found := _ROCM.fullmatch(symbol.path):
        op_class, what = ("copy", "memcpy") if found[1] == "copy" else ("fill", "memset")
        words = f"{what} as a kernel: AMD's runtime copies and fills with kernels of its own"
        return Identity(name, family="rocclr", library="ROCm runtime", op_class=op_class, in_words=words)
    return None


def _pageable(name: str) -> str:
    return "; pageable host memory, so the copy is staged and the CPU waits" if "Pageable" in name else ""
